"""What modules do."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from gnomon.regions._operations import (
    Affine,
    Maximum,
    Operation,
    PiecewiseLinear,
    Planes,
    clipped,
    on_samples,
    with_bias,
)
from gnomon.regions._windows import Window


def of_module(module: nn.Module) -> Operation | None:
    """What a module does; None if it is not known to be piecewise affine, or not in this mode."""
    # By its very type: a subclass may compute something else.
    make = MODULES.get(type(module))
    return make(module) if make else None


def _linear(module: nn.Linear) -> Affine:
    """A matrix and a bias."""
    return Affine(lambda planes: with_bias(functional.linear(planes, module.weight), module.bias, 0))


def _convolution(module: nn.Conv1d | nn.Conv2d) -> Affine:
    """A convolution, its padding too, and a bias a channel."""
    behind = len(module.kernel_size)

    def without_bias(samples: Tensor) -> Tensor:
        return module._conv_forward(samples, module.weight, None)

    return Affine(lambda planes: with_bias(on_samples(without_bias, planes), module.bias, behind))


def _batch_norm(module: nn.BatchNorm1d | nn.BatchNorm2d) -> Affine | None:
    """BatchNorm by its running statistics; by those of a batch it is no function of one sample."""
    mean, variance = module.running_mean, module.running_var
    if module.training or mean is None or variance is None:
        return None
    scale = torch.rsqrt(variance + module.eps) * (1.0 if module.weight is None else module.weight)
    shift = (0.0 if module.bias is None else module.bias) - mean * scale

    def apply(planes: Planes) -> Planes:
        behind = planes.ndim - 3
        return with_bias(planes * scale.reshape(-1, *[1] * behind), shift, behind)

    return Affine(apply)


def _as_it_stands(module: nn.Module) -> Affine:
    """A module that is linear."""
    return Affine(lambda planes: on_samples(module, planes))


def _dropout(module: nn.Module) -> Affine | None:
    """Nothing, in eval mode."""
    return None if module.training else Affine(lambda planes: planes)


def _max_pooling(module: nn.MaxPool1d | nn.MaxPool2d) -> Maximum | None:
    """The maximum over windows."""
    if module.return_indices:
        return None
    return Maximum(Window(module.kernel_size, module.stride, module.padding, module.dilation, module.ceil_mode))


def _prelu(module: nn.PReLU) -> PiecewiseLinear:
    """ReLU with a slope on its left that was learnt, one for all entries or one a channel."""
    return PiecewiseLinear(slopes=(module.weight.detach(), 1.0))


MODULES: dict[type[nn.Module], Callable[[Any], Operation | None]] = {
    nn.Linear: _linear,
    **dict.fromkeys((nn.Conv1d, nn.Conv2d), _convolution),
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d), _batch_norm),
    **dict.fromkeys((nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d), _as_it_stands),
    **dict.fromkeys((nn.Flatten, nn.Unflatten, nn.ZeroPad2d, nn.Identity), _as_it_stands),
    **dict.fromkeys((nn.Dropout, nn.Dropout1d, nn.Dropout2d), _dropout),
    **dict.fromkeys((nn.MaxPool1d, nn.MaxPool2d), _max_pooling),
    **dict.fromkeys((nn.Hardtanh, nn.ReLU6), lambda module: clipped(module.min_val, module.max_val)),
    nn.ReLU: lambda module: PiecewiseLinear(),
    nn.LeakyReLU: lambda module: PiecewiseLinear(slopes=(module.negative_slope, 1.0)),
    nn.PReLU: _prelu,
}
