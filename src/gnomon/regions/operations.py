"""What the parts of a network do to a plane through their inputs.

A plane is carried as three tensors along one axis: its two directions, and its origin. An affine layer acts on all
three, with its bias on the origin alone. More directions make larger flats, up to the whole input space.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from gnomon.regions.windows import Window

Planes = Float[Tensor, "p k *d"]
"""For each polygon, what a layer holds at the plane's k - 1 = 2 directions and, last, at its origin."""


@dataclass(frozen=True)
class Affine:
    """An operation that maps planes to planes; sums and concatenations take several."""

    apply: Callable[..., Planes]


@dataclass(frozen=True)
class Bends:
    """A function of single entries made of straight pieces, from the left to the right.

    Attributes:
        breaks: where the pieces meet.
        slopes: one more than breaks; numbers, or a tensor with one number a channel.
        offsets: the pieces' values at 0.
    """

    breaks: tuple[float, ...] = (0.0,)
    slopes: tuple[Tensor | float, ...] = (0.0, 1.0)
    offsets: tuple[float, ...] = (0.0, 0.0)


@dataclass(frozen=True)
class Maximum:
    """The maximum over the windows of a pooling."""

    window: Window


Operation = Affine | Bends | Maximum


def of_module(module: nn.Module) -> Operation | None:
    """What a module does; None if it is not known to be piecewise affine, or not in this mode."""
    # By its very type: a subclass may compute something else.
    make = MODULES.get(type(module))
    return make(module) if make else None


def linear(module: nn.Linear) -> Affine:
    """A matrix and a bias."""
    return Affine(lambda planes: with_bias(functional.linear(planes, module.weight), module.bias, 0))


def convolution(module: nn.Conv1d | nn.Conv2d) -> Affine:
    """A convolution, its padding too, and a bias a channel."""
    behind = len(module.kernel_size)

    def without_bias(samples: Tensor) -> Tensor:
        return module._conv_forward(samples, module.weight, None)

    return Affine(lambda planes: with_bias(on_samples(without_bias, planes), module.bias, behind))


def batch_norm(module: nn.BatchNorm1d | nn.BatchNorm2d) -> Affine | None:
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


def as_it_stands(module: nn.Module) -> Affine:
    """A module that is linear."""
    return Affine(lambda planes: on_samples(module, planes))


def dropout(module: nn.Module) -> Affine | None:
    """Nothing, in eval mode."""
    return None if module.training else Affine(lambda planes: planes)


def max_pooling(module: nn.MaxPool1d | nn.MaxPool2d) -> Maximum | None:
    """The maximum over windows; windows that end beyond the padding are not known here."""
    if module.ceil_mode or module.return_indices:
        return None
    return Maximum(Window(module.kernel_size, module.stride, module.padding, module.dilation))


def prelu(module: nn.PReLU) -> Bends:
    """ReLU with a slope on its left that was learnt, one for all entries or one a channel."""
    return Bends(slopes=(module.weight.detach(), 1.0))


def hardtanh(low: float, high: float) -> Bends:
    """Straight between two numbers, constant beyond them."""
    return Bends((low, high), (0.0, 1.0, 0.0), (low, 0.0, high))


MODULES: dict[type[nn.Module], Callable[[Any], Operation | None]] = {
    nn.Linear: linear,
    **dict.fromkeys((nn.Conv1d, nn.Conv2d), convolution),
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d), batch_norm),
    **dict.fromkeys((nn.AvgPool1d, nn.AvgPool2d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d), as_it_stands),
    **dict.fromkeys((nn.Flatten, nn.ZeroPad2d, nn.Identity), as_it_stands),
    **dict.fromkeys((nn.Dropout, nn.Dropout1d, nn.Dropout2d), dropout),
    **dict.fromkeys((nn.MaxPool1d, nn.MaxPool2d), max_pooling),
    **dict.fromkeys((nn.Hardtanh, nn.ReLU6), lambda module: hardtanh(module.min_val, module.max_val)),
    nn.ReLU: lambda module: Bends(),
    nn.LeakyReLU: lambda module: Bends(slopes=(module.negative_slope, 1.0)),
    nn.PReLU: prelu,
}


def of_function(name: str, inputs: int, arguments: Sequence[Any], named: Mapping[str, Any]) -> Operation | None:
    """What a function or a method of tensors does; None if it is not known to be piecewise affine."""
    rest = arguments[1:]
    if name in ("add", "iadd", "sub", "isub") and inputs == 2 and not named:
        return Affine(operator.add if "add" in name else operator.sub)
    if name in ("cat", "concat") and named.get("dim", rest[0] if rest else 0) == 1:
        return Affine(lambda *planes: torch.cat(planes, 2))
    if name == "flatten" and (rest or (named.get("start_dim"),)) == (1,):
        return Affine(lambda planes: planes.flatten(2))
    if name in ("avg_pool1d", "avg_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d"):
        function = getattr(functional, name)
        return Affine(lambda planes: on_samples(lambda part: function(part, *rest, **named), planes))
    if name in ("max_pool1d", "max_pool2d") and not (named.get("ceil_mode") or len(rest) > 4):
        given = {**dict(zip(("kernel_size", "stride", "padding", "dilation"), rest, strict=False)), **named}
        size = given["kernel_size"]
        return Maximum(Window(size, given.get("stride") or size, given.get("padding", 0), given.get("dilation", 1)))
    if name in ("relu", "relu_"):
        return Bends()
    if name in ("leaky_relu", "leaky_relu_"):
        return Bends(slopes=(named.get("negative_slope", rest[0] if rest else 0.01), 1.0))
    if name in ("hardtanh", "relu6"):
        low, high = (
            (0.0, 6.0) if name == "relu6" else (*rest, named.get("min_val", -1.0), named.get("max_val", 1.0))[:2]
        )
        return hardtanh(low, high)
    if name in ("abs", "absolute"):
        return Bends(slopes=(-1.0, 1.0))
    return None


def on_pieces(planes: Planes, bends: Bends, state: Int[Tensor, "p *d"]) -> Planes:
    """What comes out where each unit is on one of its straight pieces."""
    slope, offset = torch.zeros_like(state, dtype=planes.dtype), torch.zeros_like(state, dtype=planes.dtype)
    for i, (this_slope, this_offset) in enumerate(zip(bends.slopes, bends.offsets, strict=True)):
        if isinstance(this_slope, Tensor):
            this_slope = this_slope.reshape(-1, *[1] * (planes.ndim - 3))
        slope = torch.where(state == i, this_slope, slope)
        offset = torch.where(state == i, this_offset, offset)
    value = planes * slope[:, None]
    value[:, -1] += offset
    return value


def picked(
    entries: Float[Tensor, "p k d"], windows: Int[Tensor, "u w"], state: Int[Tensor, "p u"]
) -> Float[Tensor, "p k u"]:
    """What comes out of a maximum where each window has its largest entry in a given place."""
    chosen = windows[torch.arange(len(windows), device=state.device), state]
    return entries.gather(2, chosen[:, None].expand(-1, entries.shape[1], -1))


def with_bias(planes: Planes, bias: Tensor | None, behind: int) -> Planes:
    """Adds a bias to the origin alone; its axis has `behind` axes behind it."""
    if bias is None:
        return planes
    origin = planes[:, -1] + bias.reshape(-1, *[1] * behind)
    return torch.cat([planes[:, :-1], origin[:, None]], 1)


def on_samples(function: Callable[[Tensor], Tensor], planes: Planes) -> Float[Tensor, "p k *e"]:
    """A linear function of samples, on the directions and origins as if they were samples."""
    values = function(planes.flatten(0, 1))
    return values.view(*planes.shape[:2], *values.shape[1:])
