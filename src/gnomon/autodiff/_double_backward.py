"""Cheap second derivatives where torch's own are expensive: convolutions and BatchNorm."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gnomon.autodiff._tape import Tape
from gnomon.linalg import once

Gradients = tuple[Tensor | None, ...]


@contextmanager
def cheap_double_backward(tape: Tape) -> Iterator[None]:
    """Inside, gradients on this tape that keep a graph have torch's values, and a graph that is cheaper to traverse.

    The graph of the forward pass, which may be the user's, is restored afterwards.
    """
    with ExitStack() as stack:
        for node in tape.uses:
            hook = AFTER.get(node.name())
            if hook is not None:
                stack.callback(node.register_hook(partial(hook, node)).remove)
        yield


def _after_convolution(node: Any, made: Gradients, given: Gradients) -> Gradients | None:  # noqa: ANN401 no types
    """What replaces a convolution's gradients, the first of which is that of its input; None if they stay."""
    back, gradient = made[0], given[0]
    if back is None or gradient is None or not (back.requires_grad and _stays(node._raw_saved_weight)):
        return None
    settings = [getattr(node, f"_saved_{name}") for name in SETTINGS]
    return _convolution_back(back.detach(), gradient, node._saved_weight, settings), *made[1:]


def _stays(saved: object) -> bool:
    """Whether a tensor saved in the graph can be read again: a checkpoint recomputes it only once."""
    return getattr(saved, "unpack_hook", "not said by an older torch") is None


class _ConvolutionBack(torch.autograd.Function):
    """The input gradient of a convolution, with the same two products in its backward pass as a convolution has.

    Torch itself computes the weight gradient as a convolution with kernels of the size of the images, for which no
    library is designed (torch 2.13).
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 as torch's own
        back: Tensor,
        gradient: Tensor,
        weight: Tensor,
        settings: list[Any],
    ) -> Tensor:
        """The gradient unchanged; saves what it follows from."""
        ctx.save_for_backward(gradient, weight)
        ctx.settings = settings
        return back

    @staticmethod
    def backward(ctx: Any, u: Tensor) -> Gradients:  # noqa: ANN401 as torch's own
        """The gradients of ⟨u, back⟩, which is linear in the gradient, and in the weight."""
        gradient, weight = ctx.saved_tensors
        settings, (_, in_gradient, in_weight, _) = ctx.settings, ctx.needs_input_grad
        onwards = torch.convolution(u, weight, None, *settings) if in_gradient else None
        if in_weight:
            mask = [False, True, False]
            _, weights, _ = torch.ops.aten.convolution_backward(gradient, u, weight, None, *settings, mask)
        return None, onwards, weights if in_weight else None, None


def _after_batch_norm(node: Any, made: Gradients, given: Gradients) -> Gradients | None:  # noqa: ANN401 no types
    """The same for a BatchNorm in training mode."""
    back, gradient = made[0], given[0]
    stays = node._saved_training and _stays(node._raw_saved_input)
    if back is None or gradient is None or not (back.requires_grad and stays):
        return None
    kept = (getattr(node, f"_saved_{name}") for name in KEPT)
    return _batch_norm_back(back.detach(), gradient, *kept), *made[1:]


class _BatchNormBack(torch.autograd.Function):
    r"""The input gradient of BatchNorm in training mode, differentiated by two calls of the kernel that computes it.

    For a channel's m entries x, with $\hat x = r(x - \mu)$, it is $\gamma r P g$ with
    $P = I - \frac1m(11^\top + \hat x\hat x^\top)$. Torch itself needs some thirty passes over the images (torch 2.13).
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 as torch's own
        back: Tensor,
        g: Tensor,
        x: Tensor,
        weight: Tensor | None,
        mean: Tensor,
        r: Tensor,
        eps: float,
    ) -> Tensor:
        """The gradient unchanged; saves what it follows from."""
        ctx.save_for_backward(back, g, x, weight, mean, r)
        ctx.eps = eps
        return back

    @staticmethod
    @once("the gradient of BatchNorm")
    def backward(ctx: Any, saved: tuple[Any, ...], u: Tensor) -> Gradients:  # noqa: ANN401 as torch's own
        r"""The gradients of $\langle u, \gamma r P g\rangle$ with respect to g, x and γ.

        P is symmetric, so the first is $\gamma r P u$; x enters through $\hat x$ and through r.
        """
        back, g, x, weight, mean, r = saved

        def kernel(along: Tensor, mask: list[bool]) -> tuple[Any, Tensor, Tensor]:
            return torch.ops.aten.native_batch_norm_backward(along, x, weight, None, None, mean, r, True, ctx.eps, mask)

        onwards, u_x, u_1 = kernel(u, [True, True, True])
        _, g_x, g_1 = kernel(g, [False, True, True])
        m = x.numel() // len(mean)
        axes = [axis for axis in range(x.ndim) if axis != 1]
        in_weight = r * ((u * g).sum(axes, dtype=r.dtype) - (u_1 * g_1 + u_x * g_x) / m)
        value = in_weight if weight is None else in_weight * weight
        shares = (-r / m * share for share in (g_x, u_x, r * value))
        first, second, third = (share.view(-1, *(1,) * (x.ndim - 2)) for share in shares)
        in_x = torch.addcmul(onwards * first, back, second).addcmul_(x - mean.view_as(first), third)
        return None, onwards, in_x.to(x.dtype), None if weight is None else in_weight, None, None, None


_convolution_back: Callable[..., Tensor] = _ConvolutionBack.apply
_batch_norm_back: Callable[..., Tensor] = _BatchNormBack.apply
SETTINGS = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
"""The settings that the node of a convolution saves, in the order in which torch expects them."""
KEPT = ("input", "weight", "result1", "result2", "eps")
"""What the node of a BatchNorm saves: x, γ, μ, r and the constant added to the variance, by torch's names."""
AFTER: dict[str, Callable[[Any, Gradients, Gradients], Gradients | None]] = {
    "ConvolutionBackward0": _after_convolution,
    "NativeBatchNormBackward0": _after_batch_norm,
}
"""For each name of a node of the forward pass, what follows it in the backward pass."""
