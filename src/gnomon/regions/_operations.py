"""The kinds of operation that a piecewise affine network is made of, and what they do to a plane through their inputs.

A plane is carried as three tensors along one axis: its two directions, and its origin. An affine layer acts on all
three, with its bias on the origin alone. More directions give larger flats, up to the whole input space. After that
axis come those of what the network itself holds for one sample, including the axis of samples.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gnomon.regions._windows import Window, windows

Planes = Float[Tensor, "p k ..."]
"""For each polygon, what a layer holds at the plane's k - 1 = 2 directions and, last, at its origin."""


@dataclass(frozen=True)
class Affine:
    """An operation that maps planes to planes; sums and concatenations take several."""

    apply: Callable[..., Planes]


@dataclass(frozen=True)
class PiecewiseLinear:
    """An elementwise function made of straight pieces, from left to right.

    Attributes:
        breaks: where the pieces meet.
        slopes: one more than breaks; numbers, or a tensor with one number per channel.
        offsets: the pieces' values at 0.
    """

    breaks: tuple[float | int, ...] = (0.0,)
    slopes: tuple[Tensor | float | int, ...] = (0.0, 1.0)
    offsets: tuple[float | int, ...] = (0.0, 0.0)


@dataclass(frozen=True)
class Maximum:
    """The maximum over the windows of a pooling."""

    window: Window


Bend = PiecewiseLinear | Maximum
Operation = Affine | Bend


def clipped(low: float | int | None, high: float | int | None) -> PiecewiseLinear:
    """Straight between two numbers, constant beyond them; None is no bound. If `low` is not below `high`, constant."""
    if low is not None and high is not None and low >= high:
        return PiecewiseLinear((), (0.0,), (high,))
    breaks: tuple[float | int, ...] = ()
    slopes: tuple[float, ...] = (1.0,)
    offsets: tuple[float | int, ...] = (0.0,)
    if low is not None:
        breaks, slopes, offsets = (low,), (0.0, 1.0), (low, 0.0)
    if high is not None:
        breaks, slopes, offsets = (*breaks, high), (*slopes, 0.0), (*offsets, high)
    return PiecewiseLinear(breaks, slopes, offsets)


def joined(function: PiecewiseLinear) -> Operation:
    """The same, without pieces that have no width, as one of Softshrink(0), and breaks where no channel bends."""
    slopes, offsets = function.slopes, function.offsets
    pieces, breaks = [0], []
    for piece, at in enumerate(function.breaks, 1):
        before = pieces[-1]
        bends = bool((torch.as_tensor(slopes[before]) != slopes[piece]).any()) or offsets[before] != offsets[piece]
        if bends and at not in function.breaks[piece:]:
            pieces.append(piece)
            breaks.append(at)
    if not breaks:
        return Affine(lambda planes: on_pieces(planes, function, torch.zeros_like(planes[:, 0], dtype=torch.long)))
    return PiecewiseLinear(tuple(breaks), tuple(slopes[i] for i in pieces), tuple(offsets[i] for i in pieces))


def straight(function: PiecewiseLinear, planes: Planes) -> Bool[Tensor, "*d"]:
    """Which units do not bend anywhere, as those of a PReLU's channel whose slope is 1."""
    bends = torch.zeros(planes.shape[2:], dtype=torch.bool, device=planes.device)
    slopes = [_per_unit(slope, planes) for slope in function.slopes]
    for (left, at_left), (right, at_right) in pairwise(zip(slopes, function.offsets, strict=True)):
        bends |= (left != right) | (at_left != at_right)
    return ~bends


def on_pieces(planes: Planes, function: PiecewiseLinear, state: Int[Tensor, "p *d"]) -> Planes:
    """The output where each unit is on one of its straight pieces."""
    slope, offset = torch.zeros_like(state, dtype=planes.dtype), torch.zeros_like(state, dtype=planes.dtype)
    for i, (this_slope, this_offset) in enumerate(zip(function.slopes, function.offsets, strict=True)):
        slope = torch.where(state == i, _per_unit(this_slope, planes), slope)
        offset = torch.where(state == i, this_offset, offset)
    value = planes * slope[:, None]
    value[:, -1] += offset
    return value


def _per_unit(slope: Tensor | float | int, planes: Planes) -> Tensor | float | int:
    """A slope as it applies to units: one with a number per channel, behind the axis of samples, along that axis."""
    return slope.reshape(-1, *[1] * (planes.ndim - 4)) if isinstance(slope, Tensor) else slope


def picked(
    entries: Float[Tensor, "p k d"], looked_at: Int[Tensor, "u w"], state: Int[Tensor, "p u"]
) -> Float[Tensor, "p k u"]:
    """The output of a maximum where each window has its largest entry in a given place."""
    chosen = looked_at[torch.arange(len(looked_at), device=state.device), state]
    return entries.gather(2, chosen[:, None].expand(-1, entries.shape[1], -1))


def state_at_origin(operation: Bend, planes: Planes) -> Int[Tensor, "p *d"]:
    """On which of its straight pieces each unit is at the planes' origins."""
    if isinstance(operation, PiecewiseLinear):
        breaks = torch.tensor(operation.breaks, dtype=planes.dtype, device=planes.device)
        return (planes[:, -1, ..., None] > breaks).sum(-1)
    looked_at, _ = windows(operation.window, planes.shape[2:], planes.device)
    entries = planes[:, -1].flatten(1)[:, looked_at.clamp_min(0)]
    return entries.masked_fill(looked_at < 0, -torch.inf).argmax(2)


def bent(operation: Bend, planes: Planes, state: Int[Tensor, "p *d"]) -> Planes:
    """The output where each unit is on one of its straight pieces."""
    if isinstance(operation, PiecewiseLinear):
        return on_pieces(planes, operation, state.view(-1, *planes.shape[2:]))
    looked_at, shape = windows(operation.window, planes.shape[2:], planes.device)
    return picked(planes.flatten(2), looked_at, state).view(*planes.shape[:2], *shape)


def with_bias(planes: Planes, bias: Tensor | None, behind: int) -> Planes:
    """Adds a bias to the origin alone; its axis is followed by `behind` axes."""
    return planes if bias is None else moved(planes, bias.reshape(-1, *[1] * behind))


def moved(planes: Planes, by: Tensor | float | int) -> Planes:
    """Adds a constant to the origin alone."""
    origin = planes[:, -1] + by
    return torch.cat([planes[:, :-1], origin[:, None]], 1)


def on_each(function: Callable[..., Tensor], *planes: Planes, together: int | None = None) -> Planes:
    """A linear function of samples, on the directions and origins as if they were samples; so many at a time."""
    results: Tensor = torch.vmap(function, chunk_size=together)(*(given.flatten(0, 1) for given in planes))
    return results.reshape(*planes[0].shape[:2], *results.shape[1:])


def as_origin(value: Tensor, planes: Planes) -> Planes:
    """A constant among planes: no directions, and itself as the origin."""
    held = planes.new_zeros(*planes.shape[:2], *value.shape)
    held[:, -1] = value
    return held
