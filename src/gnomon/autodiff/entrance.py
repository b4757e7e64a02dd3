"""Norms of vᵀJ from a graph that is already there, cheaply where the input enters through one linear map."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.autograd.graph import GradientEdge, Node

VIEWS = {"ViewBackward0", "UnsafeViewBackward0"}
PRODUCTS = {"MmBackward0": 0, "AddmmBackward0": 1}
"""The autograd nodes of `torch.mm` and `torch.addmm`, and the place of the left factor among their inputs."""


def projected_norm(
    logits: Float[Tensor, "n c"], x: Float[Tensor, "n *d"], v: Float[Tensor, "n c"]
) -> Float[Tensor, "n"]:
    r"""$\|v_i^\top J_i\|$ for each sample, differentiable in the parameters, from the graph of `logits`.

    Where x enters through one linear map $z = xW^\top$, as in any multilayer perceptron, $v^\top J = g W$ with
    $g = \partial(v^\top f)/\partial z$, and $\|gW\|^2 = g\,(WW^\top)\,g^\top$ needs neither the (n d) gradient nor the
    three products of that size that differentiating it takes. Elsewhere the gradient is taken and then its norm.

    Precision: through $WW^\top$ the relative error is that of the dtype times $\|g\|^2\|W\|^2/\|gW\|^2$; where the
    rows of W share a part a hundred times larger than the rest, which g cancels, float32 keeps some three digits.
    """
    found = linear_entrance(logits, x)
    if found is not None:
        edge, weight = found
        n, (h, d) = x.shape[0], weight.shape
        # Half precision has not the digits, nor the range, for squares of norms.
        if h * (2 * d + 3 * n) < 3 * n * d and weight.dtype in (torch.float32, torch.float64):
            (g,) = torch.autograd.grad(logits, edge, v, create_graph=True)
            return gram_norm(g, weight)
    (product,) = torch.autograd.grad(logits, x, v, create_graph=True, materialize_grads=True)
    return torch.linalg.vector_norm(product.flatten(1), dim=1)


def consumers_of(logits: Tensor) -> dict[Node, list[tuple[Any, int]]]:
    """Each node of the graph with the nodes that take its output, and the place where they do."""
    # Any: torch gives no types for what a node saves.
    consumers: defaultdict[Node, list[tuple[Any, int]]] = defaultdict(list)
    waiting = [logits.grad_fn] if logits.grad_fn is not None else []
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        for place, (source, _) in enumerate(node.next_functions):
            if source is None:
                continue
            consumers[source].append((node, place))
            if source not in seen:
                seen.add(source)
                waiting.append(source)
    return consumers


def node_of(x: Tensor, consumers: Iterable[Node]) -> Node | None:
    """The node at which `x` enters the graph; None if it does not."""
    if x.grad_fn is not None:
        return x.grad_fn if x.grad_fn in consumers else None
    return next((node for node in consumers if getattr(node, "variable", None) is x), None)


def reaches(logits: Tensor, x: Tensor) -> bool:
    """Whether the graph of `logits` goes back to `x`."""
    return logits is x or node_of(x, consumers_of(logits)) is not None


def fused_attention(logits: Tensor) -> str | None:
    """The name of a node of fused attention, which has no second derivative; None if there is none."""
    nodes = (node for taking in consumers_of(logits).values() for node, _ in taking)
    names = (node.name() for node in nodes if "ScaledDotProduct" in node.name())
    return next((name for name in names if "Math" not in name), None)


def linear_entrance(logits: Tensor, x: Tensor) -> tuple[GradientEdge, Float[Tensor, "h d"]] | None:
    """The output of the one linear map through which `x` enters the graph, and its weight; None if there is none."""
    consumers = consumers_of(logits)
    at = node_of(x, consumers)
    while at is not None and len(consumers[at]) == 1:
        ((node, place),) = consumers[at]
        if node.name() in VIEWS:
            at = node
        elif PRODUCTS.get(node.name()) == place and getattr(node, "_saved_alpha", 1) == 1:
            weight = node._saved_mat2.T
            # A layer on parts of a sample, such as tokens, has more rows than there are samples.
            return (GradientEdge(node, 0), weight) if weight.shape[1] == x[0].numel() else None
        else:
            break
    return None


def gram(weight: Float[Tensor, "h d"]) -> Float[Tensor, "h h"]:
    """W Wᵀ, of which the lower left quarter is the mirror of the upper right one: a quarter of the work saved."""
    half = len(weight) // 2
    upper, lower = weight[:half] @ weight.T, weight[half:] @ weight[half:].T
    return torch.cat([upper, torch.cat([upper[:, half:].T, lower], dim=1)])


@runtime_checkable
class SavedTensors(Protocol):
    """What a backward pass is given."""

    saved_tensors: tuple[Tensor, ...]


class GramNorm(torch.autograd.Function):
    """The norms of the rows of g W through W Wᵀ; a zero row has norm zero and gradient zero."""

    @staticmethod
    def forward(ctx: FunctionCtx, g: Float[Tensor, "n h"], weight: Float[Tensor, "h d"]) -> Float[Tensor, "n"]:
        """The norms; keeps what the gradient needs."""
        g_gram = g @ gram(weight)
        norm = (g_gram * g).sum(1).clamp_min(0).sqrt()
        ctx.save_for_backward(g, weight, g_gram, norm)
        return norm

    @staticmethod
    @once_differentiable
    def backward(ctx: SavedTensors, grad: Float[Tensor, "n"]) -> tuple[Tensor, Tensor]:
        """Their gradients in g and in W."""
        g, weight, g_gram, norm = ctx.saved_tensors
        per_norm = torch.where(norm > 0, grad / norm, 0).unsqueeze(1)
        return g_gram * per_norm, ((g * per_norm).T @ g) @ weight


gram_norm: Callable[[Tensor, Tensor], Tensor] = GramNorm.apply
