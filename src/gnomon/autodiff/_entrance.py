"""Norms and inner products of the rows of J, cheap where the input enters through one linear map."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.autograd.graph import GradientEdge

from gnomon._precision import in_single
from gnomon.autodiff._double_backward import cheap_double_backward
from gnomon.autodiff._tape import Tape, forward
from gnomon.errors import UnsupportedModuleError
from gnomon.linalg import SavedTensors, over_largest, scaled_gram

SAME_ENTRIES = {"ViewBackward0", "UnsafeViewBackward0", "CloneBackward0"}
"""The autograd nodes of functions that leave the entries of a tensor in their order."""
PRODUCTS = {"MmBackward0": 0, "AddmmBackward0": 1}
"""The autograd nodes of `torch.mm` and `torch.addmm`, and the position of the left factor among their inputs."""


def projected_norm(tape: Tape, vectors: Iterable[Float[Tensor, "n c"]], count: int) -> Float[Tensor, "n"]:
    r"""$\big(\sum_k \|v_{ik}^\top J_i\|^2\big)^{1/2}$ for each sample, differentiable in the parameters.

    Where x enters through one linear map $z = xW^\top$, as in any multilayer perceptron, $v^\top J = g W$ with
    $g = \partial(v^\top f)/\partial z$, and $\|gW\|^2 = g\,(WW^\top)\,g^\top$ needs neither the (n d) gradient nor the
    three products of that size that differentiating it requires, at the price of $WW^\top$, once for all `count`
    vectors of a sample. Where that costs more, the gradients are computed, then their norms.

    Precision: through $WW^\top$ the relative error is that of the dtype times $\|g\|^2\|W\|^2/\|gW\|^2$; where the rows
    of W share a component a hundred times larger than the rest, which g cancels, float32 keeps some three digits.

    Raises:
        UnsupportedModuleError: if nothing leads from the outputs back to x.
    """
    with cheap_double_backward(tape):
        found = linear_entrance(tape)
        if found is not None:
            edge, weight = found
            n, (h, d) = tape.x.shape[0], weight.shape
            # Half precision has neither the digits nor the range for squared norms.
            if h * (2 * d + 3 * n * count) < 3 * n * d * count and weight.dtype in (torch.float32, torch.float64):
                passes = (torch.autograd.grad(tape.logits, edge, v, create_graph=True) for v in vectors)
                return _gram_norm(weight, *(g for (g,) in passes))
        recording = replace(tape, create_graph=True)
        products = (recording.vector_jacobian(v).reshape(len(tape.x), -1) for v in vectors)
        norms = [torch.linalg.vector_norm(product, dim=1) for product in products]
        return torch.linalg.vector_norm(torch.stack(norms), dim=0)


def jacobian_gram(tape: Tape) -> tuple[Float[Tensor, "n q q"], Float[Tensor, "n"]]:
    r"""The inner products of each Jacobian's rows, or of its columns if fewer, over $m_i^2$; and $m_i$, its scale.

    Where x enters through one linear map $z = xW^\top$ to fewer dimensions, $JJ^\top = G(WW^\top)G^\top$ with
    $G = \partial f/\partial z$, and J is not formed. The scale is the largest entry of J, or of G times that of W:
    squares neither overflow nor underflow. In float32 at least. Precision: as for `projected_norm`; a QR decomposition
    of W instead of $WW^\top$ would keep the digits, and takes up to half as long again.
    """
    found = linear_entrance(tape)
    if found is None or max(len(found[1]) + 1, tape.logits.shape[1]) > tape.x[0].numel():
        return scaled_gram(in_single(tape.jacobian().reshape(*tape.logits.shape, -1)))
    edge, weight = found
    n, c = tape.logits.shape
    units = torch.eye(c, dtype=tape.logits.dtype, device=tape.logits.device)
    rows = (
        torch.autograd.grad(tape.logits, edge, unit.expand(n, c), retain_graph=True, create_graph=tape.create_graph)
        for unit in units
    )
    back, of_back = over_largest(in_single(torch.stack([row for (row,) in rows], dim=1)))
    weights, of_weight = over_largest(in_single(weight).unsqueeze(0))
    return (back @ _gram(weights[0])) @ back.mT, of_back * of_weight


def entrance_weight(model: nn.Module, x: Float[Tensor, "n *d"]) -> Float[Tensor, "h d"]:
    """The weight of the one linear layer through which samples enter the network.

    Raises:
        UnsupportedModuleError: if they enter in another way.
    """
    found = linear_entrance(forward(model, torch.cat([x[:1], x[-1:]]).detach()))
    if found is None:
        raise UnsupportedModuleError(
            "model",
            "a network whose samples enter one linear layer",
            type(model).__name__,
            "Take nfa_table, which has every layer.",
        )
    return found[1].detach()


def linear_entrance(tape: Tape) -> tuple[GradientEdge, Float[Tensor, "h d"]] | None:
    """The output of the one linear map through which x enters, and its weight; None if there is none."""
    at = tape.entrance
    while at is not None and len(tape.uses[at]) == 1:
        ((node, place),) = tape.uses[at]
        if node.name() in SAME_ENTRIES:
            at = node
        elif PRODUCTS.get(node.name()) == place and getattr(node, "_saved_alpha", 1) == 1:
            weight = node._saved_mat2.T
            # A layer on parts of a sample, such as tokens, has more rows than there are samples.
            return (GradientEdge(node, 0), weight) if weight.shape[1] == tape.x[0].numel() else None
        else:
            break
    return None


def _gram(weight: Float[Tensor, "h d"]) -> Float[Tensor, "h h"]:
    """W Wᵀ, with the lower left quarter mirrored from the upper right one, which saves a quarter of the work."""
    half = len(weight) // 2
    upper, lower = weight[:half] @ weight.T, weight[half:] @ weight[half:].T
    return torch.cat([upper, torch.cat([upper[:, half:].T, lower], dim=1)])


class _GramNorm(torch.autograd.Function):
    """The joint norms of the rows of several g W, through W Wᵀ; where they are zero, so is the gradient."""

    @staticmethod
    def forward(ctx: FunctionCtx, weight: Float[Tensor, "h d"], *back: Float[Tensor, "n h"]) -> Float[Tensor, "n"]:
        """The norms; saves what the gradient needs."""
        gram = _gram(weight)
        products = [g @ gram for g in back]
        squares = [(product * g).sum(1) for product, g in zip(products, back, strict=True)]
        norm = reduce(torch.add, squares).clamp_min(0).sqrt()
        ctx.save_for_backward(weight, norm, *back, *products)
        return norm

    @staticmethod
    def backward(ctx: SavedTensors, grad: Float[Tensor, "n"]) -> tuple[Tensor, ...]:
        """Their gradients with respect to W and each g."""
        weight, norm, *kept = ctx.saved_tensors
        back, products = kept[: len(kept) // 2], kept[len(kept) // 2 :]
        if torch.is_grad_enabled():  # to be differentiated again, by what the products are made of
            gram = _gram(weight)
            products = [g @ gram for g in back]
        per_norm = torch.where(norm > 0, grad / norm, 0).unsqueeze(1)
        between = reduce(torch.add, ((g * per_norm).T @ g for g in back))
        return between @ weight, *(product * per_norm for product in products)


_gram_norm: Callable[..., Tensor] = _GramNorm.apply
