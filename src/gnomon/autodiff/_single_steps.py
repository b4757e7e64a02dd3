"""Normalisations in single steps, for use where torch's own cannot be differentiated often enough."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from gnomon._precision import in_single
from gnomon.autodiff._replacing import replacing


def in_single_steps() -> replacing:
    """Inside, layer norm, instance norm and weight norm are computed from sums, products and roots.

    torch's own treat statistics, or norms, of the forward pass as constants: layer norm and instance norm have wrong
    third derivatives, weight norm has wrong second ones (torch 2.13; the tests show by how much).
    """
    return replacing(IN_STEPS)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    """As `torch.layer_norm`."""
    result = standardised(input, tuple(range(-len(normalized_shape), 0)), eps)
    return affine(result, weight, bias)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """As `torch.nn.functional.instance_norm`."""
    if not use_input_stats or running_mean is not None:
        # Running statistics really are constants, and only torch's own function updates them.
        return functional.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
    shape = (1, -1, *[1] * (input.ndim - 2))
    result = standardised(input, tuple(range(2, input.ndim)), eps)
    return affine(result, *(part if part is None else part.view(shape) for part in (weight, bias)))


def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """As `torch._weight_norm`."""
    norm = torch.linalg.vector_norm(v) if dim == -1 else torch.norm_except_dim(v, 2, dim)
    return v * (g / norm)


def standardised(x: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
    """The tensor with mean 0 and variance 1 along these axes; computed in float32 at least, as by torch."""
    wide = in_single(x)
    centred = wide - wide.mean(axes, keepdim=True)
    return (centred * (centred.square().mean(axes, keepdim=True) + eps).rsqrt()).to(x.dtype)


def affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """The tensor scaled and shifted."""
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


IN_STEPS: dict[Callable[..., object], Callable[..., object]] = {
    functional.layer_norm: layer_norm,
    torch.layer_norm: layer_norm,
    functional.instance_norm: instance_norm,
    torch._weight_norm: weight_norm,
}
