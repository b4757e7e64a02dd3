"""The kinds of operation that a piecewise affine network is made of, and what they do to a plane through their inputs.

A plane is carried as three tensors along one axis: its two directions, and its origin. An affine layer acts on all
three, with its bias on the origin alone. More directions make larger flats, up to the whole input space.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon.errors import UnsupportedModuleError
from gnomon.regions._windows import Window

Planes = Float[Tensor, "p k *d"]
"""For each polygon, what a layer holds at the plane's k - 1 = 2 directions and, last, at its origin."""


@dataclass(frozen=True)
class Affine:
    """An operation that maps planes to planes; sums and concatenations take several."""

    apply: Callable[..., Planes]


@dataclass(frozen=True)
class PiecewiseLinear:
    """A function of single entries made of straight pieces, from the left to the right.

    Attributes:
        breaks: where the pieces meet.
        slopes: one more than breaks; numbers, or a tensor with one number a channel.
        offsets: the pieces' values at 0.
    """

    breaks: tuple[float | int, ...] = (0.0,)
    slopes: tuple[Tensor | float | int, ...] = (0.0, 1.0)
    offsets: tuple[float | int, ...] = (0.0, 0.0)


@dataclass(frozen=True)
class Maximum:
    """The maximum over the windows of a pooling."""

    window: Window


Operation = Affine | PiecewiseLinear | Maximum


def clipped(low: float | int | None, high: float | int | None) -> PiecewiseLinear:
    """Straight between two numbers, constant beyond them; None is no bound."""
    breaks: tuple[float | int, ...] = ()
    slopes: tuple[float, ...] = (1.0,)
    offsets: tuple[float | int, ...] = (0.0,)
    if low is not None:
        breaks, slopes, offsets = (low,), (0.0, 1.0), (low, 0.0)
    if high is not None:
        breaks, slopes, offsets = (*breaks, high), (*slopes, 0.0), (*offsets, high)
    return PiecewiseLinear(breaks, slopes, offsets)


def on_pieces(planes: Planes, function: PiecewiseLinear, state: Int[Tensor, "p *d"]) -> Planes:
    """What comes out where each unit is on one of its straight pieces."""
    slope, offset = torch.zeros_like(state, dtype=planes.dtype), torch.zeros_like(state, dtype=planes.dtype)
    for i, (this_slope, this_offset) in enumerate(zip(function.slopes, function.offsets, strict=True)):
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
    return planes if bias is None else moved(planes, bias.reshape(-1, *[1] * behind))


def moved(planes: Planes, by: Tensor | float | int) -> Planes:
    """Adds a constant to the origin alone."""
    origin = planes[:, -1] + by
    return torch.cat([planes[:, :-1], origin[:, None]], 1)


def on_samples(function: Callable[[Tensor], Tensor], planes: Planes) -> Float[Tensor, "p k *e"]:
    """A linear function of samples, on the directions and origins as if they were samples.

    Raises:
        UnsupportedModuleError: if it does not keep the samples apart.
    """
    samples = planes.flatten(0, 1)
    values = function(samples)
    if values.ndim == 0 or len(values) != len(samples):
        raise UnsupportedModuleError(
            "model",
            "operations on each sample alone",
            "one over the first axis, that of the samples",
            "Let it act on the others.",
        )
    return values.reshape(*planes.shape[:2], *values.shape[1:])
