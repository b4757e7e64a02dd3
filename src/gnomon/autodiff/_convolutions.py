"""Convolutions whose input gradient is cheap to differentiate again."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.autodiff._replacing import replacing

Sizes = int | tuple[int, ...]


def towards_inputs() -> replacing:
    """Inside, convolutions with parameters as weights have a graph to their input alone, and the same values.

    Where torch differentiates the backward pass of a convolution, it computes the weight gradient too, requested or not
    (torch 2.13): a product Ju then costs three convolutions per layer, and here one.
    """
    return replacing(TOWARDS_INPUTS)


def _convolution(
    func: Callable[..., Tensor],
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """The convolution, with torch's own graph where its weight may depend on the samples, or it is complex."""
    fixed = all(part is None or isinstance(part, nn.Parameter) or not part.requires_grad for part in (weight, bias))
    if not fixed or weight.is_complex() or isinstance(padding, str) or input.ndim != weight.ndim:
        return func(input, weight, bias, stride, padding, dilation, groups)
    axes = weight.ndim - 2
    given = [(size,) if isinstance(size, int) else tuple(size) for size in (stride, padding, dilation)]
    settings = [size * axes if len(size) == 1 else size for size in given]
    return _convolved(input, weight.detach(), None if bias is None else bias.detach(), settings, groups)


class _Convolution(torch.autograd.Function):
    """Its backward pass is the transposed convolution, whose own backward pass is a convolution again."""

    generate_vmap_rule = True  # networks may map over their weights, or over parts of a sample

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None, settings: list[tuple[int, ...]], groups: int) -> Tensor:
        """The convolution."""
        stride, padding, dilation = settings
        return torch.convolution(x, weight, bias, stride, padding, dilation, False, [0] * len(stride), groups)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ANN401 as torch's own
        """Saves its weight."""
        x, weight, _, ctx.settings, ctx.groups = inputs
        ctx.save_for_backward(weight)
        ctx.shape = x.shape[2:]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:  # noqa: ANN401 as torch's own
        """The gradient with respect to the input."""
        (weight,) = ctx.saved_tensors
        stride, padding, dilation = ctx.settings
        sizes = zip(ctx.shape, gradient.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
        # The part at the end of the input that no kernel reached.
        rest = [whole - ((n - 1) * step - 2 * rim + gap * (k - 1) + 1) for whole, n, k, step, rim, gap in sizes]
        back = torch.convolution(gradient, weight, None, stride, padding, dilation, True, rest, ctx.groups)
        return back, None, None, None, None


_convolved: Callable[..., Tensor] = _Convolution.apply
TOWARDS_INPUTS: dict[Callable[..., object], Callable[..., object]] = {
    func: partial(_convolution, func) for func in (torch.conv1d, torch.conv2d, torch.conv3d)
}
"""The replacement for each torch function."""
