"""Cutting polygons by many lines: those of all units of a layer, or the ridges where a maximum changes its argument."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gnomon.regions._polygons import Polygons, halve, join

OWN = 1e-12
"""A value counts as zero below this share of its own terms: their rounding errors."""
THIN = 4e-12
"""A piece with at most this share of its perimeter times its largest coordinate as its area, such as a strip narrower
than twice this share of its coordinates, lies within the rounding of its own corners: nothing is there."""
Allow = Callable[[int], None]
"""Called with the number of pieces so far; raises if they are too many."""
CORNER = 24
"""Bytes for a unit at a polygon's corner while it is determined whether it cuts: its value, and what decides it."""


@dataclass(frozen=True)
class Split:
    """The result of cutting polygons.

    Attributes:
        children: the pieces, those of one polygon together, in the order of the polygons.
        parent: the polygon that each piece comes from, (q).
        whole: for each unit, the linear piece on which it is where it did not cut a polygon, (p u): whether it is above
            a line, or, for a maximum, the place of the largest.
        cuts: the units that cut each polygon, in rows padded to the longest, (p k).
        counts: their number, (p).
        settle: a function from pieces, their parents and one unit each to the linear pieces on which these units are
            there.
    """

    children: Polygons
    parent: Int[Tensor, "q"]
    whole: Bool[Tensor, "p u"] | Int[Tensor, "p u"]
    cuts: Int[Tensor, "p k"]
    counts: Int[Tensor, "p"]
    settle: Callable[[Polygons, Tensor, Tensor], Tensor]

    def state(self, rows: slice) -> Int[Tensor, "q u"]:
        """On which linear piece every unit is, for some of the children: there are many of them, and of units."""
        children, parent = self.children[rows], self.parent[rows]
        state = self.whole[parent].long()
        for turn in range(self.cuts.shape[1]):
            met = (self.counts[parent] > turn).nonzero()[:, 0]
            unit = self.cuts[parent[met], turn]
            state[met, unit] = self.settle(children[met], parent[met], unit)
        return state


def split_by_lines(
    polygons: Polygons,
    units: Float[Tensor, "p 3 u"],
    breaks: Sequence[float | int],
    labels: Int[Tensor, "l"],
    rounding: Float[Tensor, "u"],
    allow: Allow,
    room: int,
) -> Split:
    """Cuts each polygon by the lines on which its own functions reach certain values.

    Args:
        polygons: what to cut.
        units: for each polygon and unit an affine function: its slopes in u and v, and its value at (0, 0).
        breaks: the values.
        labels: the labels of the new edges, by line.
        rounding: the errors of the functions, as terms that cancelled before leave them.
        allow: asked at every turn.
        room: bytes for the functions at the corners, for as many units together as fit.

    Returns:
        The pieces, by lines: those of the first value, then those of the second, and so on. A line's state is 1 where
        its unit is beyond it, else 0. A unit that is on its line within rounding everywhere on a polygon counts as not
        beyond.
    """
    u, values = units.shape[2], units.new_tensor(list(breaks))
    tolerance = _tolerances(polygons, units).add_(rounding).repeat(1, len(breaks))
    highs, crossed = [], []
    for value, limits in zip(breaks, torch.split(tolerance, u, 1), strict=True):
        for some in _together(u, CORNER * polygons.labels.numel(), room):
            heights, limit = evaluate(polygons, units[:, :, some]), limits[:, None, some]
            if value:
                heights -= value
            highs.append((heights > limit).any(1))
            crossed.append(highs[-1] & (heights < -limit).any(1))
    high = torch.cat(highs, 1)
    cuts, counts = _listed(torch.cat(crossed, 1))
    del heights, limits, limit, highs, crossed

    def height_of(part: Polygons, parent: Tensor, line: Tensor) -> Float[Tensor, "m v"]:
        if tuple(breaks) == (0.0,):
            return _evaluate_one(part, units[parent, :, line])
        return _evaluate_one(part, units[parent, :, line % u]) - values[line // u, None]

    def pieces(part: Polygons, parent: Tensor, line: Tensor) -> list[tuple[Polygons, Tensor]]:
        height = _zeroed(height_of(part, parent, line), tolerance[parent, line, None])
        cut = (height > 0).any(1) & (height < 0).any(1)
        above, below = halve(part[cut], height[cut], labels[line[cut]])
        return [(part[~cut], parent[~cut]), (above, parent[cut]), (below, parent[cut])]

    def settle(part: Polygons, parent: Tensor, line: Tensor) -> Tensor:
        return (height_of(part, parent, line) > tolerance[parent, line, None]).any(1).long()

    return Split(*_divided(polygons, cuts, counts, pieces, allow), high, cuts, counts, settle)


def split_by_maximum(
    polygons: Polygons,
    entries: Float[Tensor, "p 3 e"],
    looked_at: Int[Tensor, "u k"],
    labels: Int[Tensor, "u"],
    rounding: Float[Tensor, "e"],
    allow: Allow,
    room: int,
) -> Split:
    """Cuts each polygon where the largest of k affine functions changes, for each of u such maxima.

    Args:
        polygons: what to cut.
        entries: for each polygon affine functions, given as in `split_by_lines`.
        looked_at: the places of the functions that each maximum is over; -1 for none, as at the rim of an image.
        labels: the labels of the new edges, by unit.
        rounding: the errors of the functions, given as in `split_by_lines`.
        allow: asked at every turn.
        room: bytes for the values at the corners, for as many units together as fit.

    Returns:
        The pieces; a unit's state is the place of the largest, the first of those that are equal within rounding.
    """
    there, places = looked_at >= 0, looked_at.clamp_min(0)
    own = _tolerances(polygons, entries).add_(rounding)
    wholes, unsettled, tolerances = [], [], []
    bytes_each = 2 * CORNER * (polygons.labels.numel() + len(polygons)) * looked_at.shape[1]
    for some in _together(len(looked_at), bytes_each, room):
        heights = evaluate(polygons, entries[:, :, places[some]].flatten(2))
        heights = heights.view(*heights.shape[:2], *places[some].shape).masked_fill_(~there[some], -torch.inf)
        # One that is below another everywhere, such as a mask's -1e9, has the largest errors, which do not matter.
        rivals = heights.amax(1) >= heights.amin(1).amax(2, keepdim=True)
        tolerances.append(own[:, places[some]].masked_fill(~(rivals & there[some]), 0).amax(2))
        whole, settled = _largest(heights, there[some], tolerances[-1])
        wholes.append(whole)
        unsettled.append(~settled)
    tolerance = torch.cat(tolerances, 1)
    cuts, counts = _listed(torch.cat(unsettled, 1))
    axis = torch.arange(3, device=counts.device)[:, None]
    del heights, own

    def functions(parent: Tensor, unit: Tensor) -> Float[Tensor, "m 3 k"]:
        return entries[parent[:, None, None], axis, places[unit][:, None]]

    def pieces(part: Polygons, parent: Tensor, unit: Tensor) -> list[tuple[Polygons, Tensor]]:
        values, limits = functions(parent, unit), tolerance[parent, unit]
        rivals, counts = _listed(_contending(evaluate(part, values), there[unit]))
        values = values.gather(2, rivals[:, None].expand(-1, 3, -1))
        given = torch.arange(rivals.shape[1], device=counts.device) < counts[:, None]
        return [_cell(i, part, parent, values, given, limits, labels[unit]) for i in range(rivals.shape[1])]

    def settle(part: Polygons, parent: Tensor, unit: Tensor) -> Tensor:
        heights = evaluate(part, functions(parent, unit))[:, :, None]
        return _largest(heights, there[unit][:, None], tolerance[parent, unit, None])[0][:, 0]

    return Split(*_divided(polygons, cuts, counts, pieces, allow), torch.cat(wholes, 1), cuts, counts, settle)


def _together(units: int, bytes_each: int, room: int) -> Iterator[slice]:
    """As many units at a time as fit, at least one."""
    many = max(1, room // max(1, bytes_each))
    return (slice(start, start + many) for start in range(0, max(1, units), many))


def _divided(
    polygons: Polygons,
    cuts: Int[Tensor, "p k"],
    counts: Int[Tensor, "p"],
    pieces: Callable[[Polygons, Tensor, Tensor], list[tuple[Polygons, Tensor]]],
    allow: Allow,
) -> tuple[Polygons, Int[Tensor, "q"]]:
    """All pieces in the end, and their parents: turn after turn every piece is cut by the next unit of its parent."""
    current, parent = polygons, torch.arange(len(polygons), device=counts.device)
    finished: list[tuple[Polygons, Tensor]] = []
    for turn in range(cuts.shape[1]):
        going = counts[parent] > turn
        finished.append((current[~going], parent[~going]))
        current, parent = current[going], parent[going]
        parts = pieces(current, parent, cuts[parent, turn])
        current, parent = join([part for part, _ in parts]), torch.cat([owner for _, owner in parts])
        kept = ~_thin(current)
        current, parent = current[kept], parent[kept]
        allow(sum(len(owner) for _, owner in finished) + len(parent))
    return _ordered([*finished, (current, parent)])


def _cell(
    i: int,
    polygons: Polygons,
    parent: Int[Tensor, "p"],
    values: Float[Tensor, "p 3 k"],
    there: Bool[Tensor, "p k"],
    tolerance: Float[Tensor, "p"],
    labels: Int[Tensor, "p"],
) -> tuple[Polygons, Int[Tensor, "q"]]:
    """The part of each polygon where function i is the largest, and where each part comes from."""
    rows = there[:, i].nonzero()[:, 0]
    part = polygons[rows]
    for j in range(values.shape[2]):
        if j == i:
            continue
        height = _evaluate_one(part, values[rows, :, i] - values[rows, :, j])
        height = torch.where(there[rows, j, None], _zeroed(height, tolerance[rows, None]), 1)
        above, below = (height > 0).any(1), (height < 0).any(1)
        whole = (above | (i < j)) & ~below
        cut = above & below
        part = join([part[whole], halve(part[cut], height[cut], labels[rows[cut]])[0]])
        rows = torch.cat([rows[whole], rows[cut]])
    return part, parent[rows]


def _largest(
    heights: Float[Tensor, "p v u k"], there: Bool[Tensor, "*p u k"], tolerance: Float[Tensor, "p u"]
) -> tuple[Int[Tensor, "p u"], Bool[Tensor, "p u"]]:
    """The first function that is nowhere below the others on a polygon, and whether there is one."""
    heights = heights.masked_fill(~(there[:, None] if there.ndim == 3 else there), -torch.inf)
    best = heights.amax(3, keepdim=True) - tolerance[:, None, :, None]
    dominant = (heights >= best).all(1)
    return dominant.long().argmax(2), dominant.any(2)


def _contending(heights: Float[Tensor, "p v k"], there: Bool[Tensor, "p k"]) -> Bool[Tensor, "p k"]:
    """Which functions may be the largest somewhere: not those everywhere below one that is largest at some corner."""
    heights = heights.masked_fill(~there[:, None], -torch.inf)
    contends = there
    for corner in range(heights.shape[1]):
        pivot = heights[:, corner].argmax(1)[:, None]
        beats = (heights >= heights.gather(2, pivot[:, None].expand(-1, heights.shape[1], -1))).any(1)
        contends = contends & beats
    return contends


def _thin(polygons: Polygons) -> Bool[Tensor, "p"]:
    """Polygons without a width, as nearly coincident lines leave them."""
    around = torch.linalg.vector_norm(polygons.rolled() - polygons.vertices, dim=2).sum(1)
    return polygons.areas() <= THIN * around * polygons.vertices.abs().amax((1, 2))


def evaluate(polygons: Polygons, lines: Float[Tensor, "p 3 u"]) -> Float[Tensor, "p v u"]:
    """Affine functions at the vertices."""
    return torch.baddbmm(lines[:, 2:], polygons.vertices, lines[:, :2])


def _evaluate_one(polygons: Polygons, line: Float[Tensor, "p 3"]) -> Float[Tensor, "p v"]:
    """One affine function for each polygon, at its vertices."""
    return polygons.vertices[..., 0] * line[:, :1] + polygons.vertices[..., 1] * line[:, 1:2] + line[:, 2:]


def _tolerances(polygons: Polygons, lines: Float[Tensor, "p 3 u"]) -> Float[Tensor, "p u"]:
    """The tolerances below which a value is zero within rounding."""
    reach = polygons.vertices.abs().amax(1)
    # A constant of -inf, as ahead of a maximum, has no error.
    terms = (reach[:, None] @ lines[:, :2].abs())[:, 0] + lines[:, 2].abs().nan_to_num(posinf=0)
    return OWN * terms


def _zeroed(heights: Tensor, tolerance: Tensor) -> Tensor:
    """Exactly zero where a value is zero within rounding."""
    return torch.where(heights.abs() <= tolerance, 0, heights)


def _listed(chosen: Bool[Tensor, "p u"]) -> tuple[Int[Tensor, "p k"], Int[Tensor, "p"]]:
    """The chosen units of each polygon, in rows padded to the longest, and their number."""
    counts = chosen.sum(1)
    rows, units = chosen.nonzero(as_tuple=True)
    starts = counts.cumsum(0) - counts
    which = units.new_zeros(len(chosen), int(counts.max()) if len(counts) else 0)
    which[rows, torch.arange(len(rows), device=rows.device) - starts[rows]] = units
    return which, counts


def _ordered(pieces: list[tuple[Polygons, Tensor]]) -> tuple[Polygons, Tensor]:
    """All pieces, those of one parent together, in the order of the parents."""
    parent = torch.cat([part for _, part in pieces])
    order = torch.argsort(parent, stable=True)
    return join([part for part, _ in pieces])[order], parent[order]
