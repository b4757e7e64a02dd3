"""Norms of vᵀJ from a graph that is already there, cheaply where the input enters through one linear map."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import BackwardCFunction, FunctionCtx, once_differentiable
from torch.autograd.graph import GradientEdge, Node

from gnomon.linalg import SavedTensors

VIEWS = {"ViewBackward0", "UnsafeViewBackward0"}
PRODUCTS = {"MmBackward0": 0, "AddmmBackward0": 1}
"""The autograd nodes of `torch.mm` and `torch.addmm`, and the place of the left factor among their inputs."""
OTHER = "Use one that has it"
FUSED = (
    "Run model(x) inside torch.nn.attention.sdpa_kernel(SDPBackend.MATH), or leave logits out: the penalty's own pass "
    "takes that kernel"
)
DISTANCE = "Take torch.linalg.vector_norm(x[:, None] - z, dim=2)"
ONE_DERIVATIVE = {
    **dict.fromkeys(("CtcLossBackward0", "CtcLossBackward1", "EmbeddingBagBackward0", "SegmentReduceBackward0"), OTHER),
    **dict.fromkeys(("FusedRmsNormBackward0", "ThnnFusedGruCellBackward0", "MiopenRnnBackward0"), OTHER),
    **dict.fromkeys(("CdistBackward0", "PdistBackward0"), DISTANCE),
    "HardsigmoidBackward0": "Take torch.clamp(x / 6 + 0.5, 0, 1)",
    "CudnnRnnBackward0": "Run model(x) inside torch.backends.cudnn.flags(enabled=False)",
    "CheckpointFunctionBackward": "Checkpoint with use_reentrant=False",
    "CompiledFunctionBackward": "Leave logits out, or take those of the network that was compiled",
}
"""The nodes that torch differentiates only once, some of which say so too late, and what to do instead."""
ONCE = once_differentiable(lambda ctx: None).__code__
"""The code of every function that the decorator makes."""


@dataclass(frozen=True)
class Passage:
    """The graph of `logits`, walked once.

    Attributes:
        logits: the outputs, (n c).
        x: the inputs, (n *d).
        consumers: each node with the nodes that take its output, and the place where they do.
        entrance: the node at which x enters; None if it does not.
    """

    logits: Tensor
    x: Tensor
    consumers: Mapping[Node, list[tuple[Any, int]]]  # Any: torch gives no types for what a node saves.
    entrance: Node | None

    @property
    def reaches(self) -> bool:
        """Whether the outputs depend on x."""
        return self.logits is self.x or self.entrance is not None


def passage(logits: Float[Tensor, "n c"], x: Float[Tensor, "n *d"]) -> Passage:
    """Walks the graph of `logits`, and looks for `x` in it."""
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
    if x.grad_fn is not None:
        entrance = x.grad_fn if x.grad_fn in consumers else None
    else:
        entrance = next((node for node in consumers if getattr(node, "variable", None) is x), None)
    return Passage(logits, x, consumers, entrance)


def without_second_derivative(passage: Passage) -> tuple[str, str] | None:
    """The name of a node on the way from x that cannot be differentiated twice, and what to do; None if all can be.

    Looked for by name, since torch would say so while the loss is differentiated, and not of what.
    """
    waiting = [] if passage.entrance is None else [passage.entrance]
    seen = set(waiting)
    while waiting:
        at = waiting.pop()
        name = at.name()
        if name in ONE_DERIVATIVE:
            return name, ONE_DERIVATIVE[name]
        if "ScaledDotProduct" in name and "Math" not in name:
            return name, FUSED
        if isinstance(at, BackwardCFunction) and only_once(at):
            return name, OTHER
        following = {node for node, _ in passage.consumers.get(at, ())} - seen
        seen |= following
        waiting += following
    return None


def only_once(node: BackwardCFunction) -> bool:
    """Whether a custom function's gradient is marked `@once_differentiable`: it has no graph.

    Looked for here, since `autograd.grad` passes over the missing graph in silence, and gives wrong gradients.
    """
    forward_class: Any = vars(type(node))["_forward_cls"]
    function = forward_class.backward
    while function is not None:
        if getattr(function, "__code__", None) is ONCE:
            return True
        function = getattr(function, "__wrapped__", None)
    return False


def projected_norm(passage: Passage, v: Float[Tensor, "n c"]) -> Float[Tensor, "n"]:
    r"""$\|v_i^\top J_i\|$ for each sample, differentiable in the parameters, from the graph of the outputs.

    Where x enters through one linear map $z = xW^\top$, as in any multilayer perceptron, $v^\top J = g W$ with
    $g = \partial(v^\top f)/\partial z$, and $\|gW\|^2 = g\,(WW^\top)\,g^\top$ needs neither the (n d) gradient nor the
    three products of that size that differentiating it takes. Elsewhere the gradient is taken and then its norm.

    Precision: through $WW^\top$ the relative error is that of the dtype times $\|g\|^2\|W\|^2/\|gW\|^2$; where the
    rows of W share a part a hundred times larger than the rest, which g cancels, float32 keeps some three digits.
    """
    logits, x = passage.logits, passage.x
    found = linear_entrance(passage)
    if found is not None:
        edge, weight = found
        n, (h, d) = x.shape[0], weight.shape
        # Half precision has not the digits, nor the range, for squares of norms.
        if h * (2 * d + 3 * n) < 3 * n * d and weight.dtype in (torch.float32, torch.float64):
            (g,) = torch.autograd.grad(logits, edge, v, create_graph=True)
            return gram_norm(g, weight)
    (product,) = torch.autograd.grad(logits, x, v, create_graph=True, materialize_grads=True)
    return torch.linalg.vector_norm(product.flatten(1), dim=1)


def linear_entrance(passage: Passage) -> tuple[GradientEdge, Float[Tensor, "h d"]] | None:
    """The output of the one linear map through which x enters, and its weight; None if there is none."""
    consumers, at = passage.consumers, passage.entrance
    while at is not None and len(consumers[at]) == 1:
        ((node, place),) = consumers[at]
        if node.name() in VIEWS:
            at = node
        elif PRODUCTS.get(node.name()) == place and getattr(node, "_saved_alpha", 1) == 1:
            weight = node._saved_mat2.T
            # A layer on parts of a sample, such as tokens, has more rows than there are samples.
            return (GradientEdge(node, 0), weight) if weight.shape[1] == passage.x[0].numel() else None
        else:
            break
    return None


def gram(weight: Float[Tensor, "h d"]) -> Float[Tensor, "h h"]:
    """W Wᵀ, of which the lower left quarter is the mirror of the upper right one: a quarter of the work saved."""
    half = len(weight) // 2
    upper, lower = weight[:half] @ weight.T, weight[half:] @ weight[half:].T
    return torch.cat([upper, torch.cat([upper[:, half:].T, lower], dim=1)])


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
