"""What layers with weights, and dropout, do as functions of torch."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from gnomon.regions._operations import Affine, moved, on_each, with_bias
from gnomon.regions._recording import Data, Number, Operand

COLUMNS = 2**25
"""Bytes that samples may take together for a convolution's columns, as torch lays them out in float64."""


def _linear(x: Operand, weight: Operand, bias: Operand | None = None) -> Affine | None:
    """A constant matrix and a constant bias."""
    if not isinstance(weight, Tensor) or isinstance(bias, Data | float | int):
        return None
    return Affine(lambda planes: with_bias(functional.linear(planes, weight), bias, 0))


def _addmm(shift: Operand, mat1: Operand, mat2: Operand, *, beta: Number = 1, alpha: Number = 1) -> Affine | None:
    """A product with a constant matrix, and a shift by a constant."""
    if not isinstance(shift, Tensor) or not isinstance(mat2, Tensor):
        return None
    return Affine(lambda planes: moved(alpha * (planes @ mat2), beta * shift))


def _convolution(function: Callable[..., Tensor]) -> Callable[..., Affine | None]:
    """A convolution with constant weights, and a bias per channel."""

    def made(
        x: Data,
        weight: Operand,
        bias: Operand | None = None,
        *settings: Any,  # noqa: ANN401 - torch's
        **named: Any,  # noqa: ANN401
    ) -> Affine | None:
        if not isinstance(weight, Tensor) or isinstance(bias, Data | float | int):
            return None
        behind = weight.ndim - 2
        together = max(1, COLUMNS // (8 * weight[0].numel() * x.shape[-behind:].numel()))

        def without_bias(sample: Tensor) -> Tensor:
            return function(sample, weight, None, *settings, **named)

        return Affine(lambda planes: with_bias(on_each(without_bias, planes, together=together), bias, behind))

    return made


def _batch_norm(
    x: Data,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: Number = 0.1,
    eps: Number = 1e-5,
) -> Affine | None:
    """BatchNorm with its running statistics; with those of a batch it is not a function of one sample."""
    given = [part for part in (running_mean, running_var, weight, bias) if part is not None]
    if training or running_mean is None or running_var is None or not all(isinstance(part, Tensor) for part in given):
        return None
    scale = torch.rsqrt(running_var + eps) * (1.0 if weight is None else weight)
    shift = (0.0 if bias is None else bias) - running_mean * scale
    behind = len(x.shape) - 2
    return Affine(lambda planes: with_bias(planes * scale.reshape(-1, *[1] * behind), shift, behind))


def _instance_norm(
    x: Data,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: Number = 0.1,
    eps: Number = 1e-5,
) -> Affine | None:
    """As BatchNorm, if it keeps running statistics."""
    return _batch_norm(x, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def _dropout(x: Data, p: Number = 0.5, training: bool = True, inplace: bool = False) -> Affine | None:
    """The identity, in eval mode."""
    return None if training else Affine(lambda planes: planes)


LAYERS: Mapping[str, Callable[..., Affine | None]] = {
    "linear": _linear,
    "addmm": _addmm,
    **{
        name: _convolution(getattr(functional, name))
        for axes in (1, 2, 3)
        for name in (f"conv{axes}d", f"conv_transpose{axes}d")
    },
    "batch_norm": _batch_norm,
    "instance_norm": _instance_norm,
    **dict.fromkeys(
        ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"), _dropout
    ),
}
