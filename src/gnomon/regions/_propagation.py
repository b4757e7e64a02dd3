"""Polygons on their way through a network: each layer that bends cuts them, in parts that fit a memory budget."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon.errors import ConvergenceError, RangeError
from gnomon.regions._operations import Affine, Maximum, PiecewiseLinear, Planes, on_pieces, picked
from gnomon.regions._partition import LAYER_BITS
from gnomon.regions._polygons import Polygons
from gnomon.regions._split import Allow, Split, split_by_lines, split_by_maximum
from gnomon.regions._steps import Network, Step
from gnomon.regions._windows import windows

HEIGHTS = 24
"""Numbers a line takes while polygons are cut by it: its values at their corners, and what is made of them."""
MIX = 0x9E3779B97F4A7C15 - 2**64
"""An odd number of 64 random bits: the golden ratio's."""


@dataclass(frozen=True)
class Piece:
    """Some polygons, each inside one cell of all layers so far.

    Attributes:
        polygons: the polygons.
        held: what later steps still need, by name; one row a polygon.
        pattern: 64 bits that stand for the states of all units so far, (p).
    """

    polygons: Polygons
    held: dict[str, Planes]
    pattern: Int[Tensor, "p"]

    def part(self, rows: Tensor | slice) -> "Piece":
        """Some of its polygons."""
        held = {name: planes[rows] for name, planes in self.held.items()}
        return Piece(self.polygons[rows], held, self.pattern[rows])


@dataclass
class Propagation:
    """Polygons on their way through a network's steps.

    Attributes:
        network: the network.
        budget: bytes that the polygons in work at one step may take.
        most: the number of regions beyond which to give up.
        area: of all that goes in.
        found: the number of regions that each bending step has left so far, by its place.
        out: the number of regions that came out.
        done: the area of those.
    """

    network: Network
    budget: int
    most: int
    area: float
    found: Counter[str] = field(default_factory=Counter)
    out: int = 0
    done: float = 0.0

    @property
    def share(self) -> float:
        """How much of the area came out."""
        return min(self.done / self.area, 1.0)

    def forward(self, piece: Piece, at: int = 0) -> Iterator[Piece]:
        """The pieces that come out at the end, depth first: what the first part becomes, then the second, and so on."""
        for place, step in enumerate(self.network.steps[at:], at):
            needed = self.network.needed_after(place)
            if isinstance(step.operation, Affine):
                value = step.operation.apply(*(piece.held[name] for name in step.inputs))
                held = {name: planes for name, planes in (piece.held | {step.name: value}).items() if name in needed}
                piece = Piece(piece.polygons, held, piece.pattern)
                continue
            yield from self._cut(piece, step, step.operation, place, needed)
            return
        self.out += len(piece.polygons)
        self.done += float(piece.polygons.areas().sum())
        yield piece

    def _cut(
        self, piece: Piece, step: Step, operation: PiecewiseLinear | Maximum, place: int, needed: set[str]
    ) -> Iterator[Piece]:
        """Cuts the polygons by the units of a bending step, and lets the pieces go on, both in parts that fit."""
        size = self._fitting(piece, step, operation)
        for start in range(0, len(piece.polygons), size):
            part = piece.part(slice(start, start + size))
            split, act = _cut_by(part, step.inputs[0], operation, place, self._allow)
            self.found[step.place] += len(split.children)
            for begin in range(0, len(split.children), size):
                rows = slice(begin, begin + size)
                parent = split.parent[rows]
                state, value = act(rows)
                held = {name: planes[parent] for name, planes in part.held.items() if name in needed}
                held |= {step.name: value} if step.name in needed else {}
                pattern = part.pattern[parent] * MIX + (state * _keys(state.shape[1], place).to(state.device)).sum(1)
                yield from self.forward(Piece(split.children[rows], held, pattern), place + 1)

    def _fitting(self, piece: Piece, step: Step, operation: PiecewiseLinear | Maximum) -> int:
        """How many polygons fit the budget at a bending step.

        Raises:
            RangeError: if not even one does.
        """
        entries = sum(planes[0].numel() for planes in piece.held.values())
        planes = piece.held[step.inputs[0]]
        shape = planes.shape[2:]
        if isinstance(operation, PiecewiseLinear):
            looks = shape.numel() * len(operation.breaks)
        else:
            looks = windows(operation.window, shape, planes.device)[0].numel()
        one = 8 * (entries + HEIGHTS * looks)
        if one > self.budget:
            parts = sum(not isinstance(step.operation, Affine) for step in self.network.steps)
            raise RangeError(
                "memory",
                f"at least {parts * one:,} bytes, for one polygon at '{step.place}'",
                f"{parts * self.budget:,}, with {self.share:.1%} of the box done",
                "Allow more.",
            )
        return self.budget // one

    def _allow(self, regions: int) -> None:
        """Raises ConvergenceError if so many regions at one step are too many."""
        if self.out + regions > self.most:
            raise ConvergenceError(
                "max_regions",
                f"at most {self.most:,} regions",
                f"more with {self.share:.1%} of the box done",
                "Allow more, or take a smaller box.",
            )


Act = Callable[[slice], tuple[Int[Tensor, "q u"], Planes]]
"""For some of the pieces the linear pieces of all units, and what comes out."""


def _cut_by(
    piece: Piece, name: str, operation: PiecewiseLinear | Maximum, place: int, allow: Allow
) -> tuple[Split, Act]:
    """Cuts polygons by the units of a bending operation."""
    planes = piece.held[name]
    if isinstance(operation, PiecewiseLinear):
        return _cut_at_breaks(piece.polygons, planes, operation, place, allow)
    return _cut_by_maximum(piece.polygons, planes, operation, place, allow)


def _cut_at_breaks(
    polygons: Polygons, planes: Planes, function: PiecewiseLinear, place: int, allow: Allow
) -> tuple[Split, Act]:
    """Cuts by the lines on which a unit's value is one of the breaks."""
    entries = planes.flatten(2)
    lines = torch.cat([_shifted(entries, at) for at in function.breaks], 2)
    labels = (place << LAYER_BITS) + torch.arange(entries.shape[2], device=entries.device).repeat(len(function.breaks))
    split = split_by_lines(polygons, lines, labels, allow)

    def act(rows: slice) -> tuple[Tensor, Planes]:
        # A unit's piece is the number of breaks below its value.
        above = split.state(rows)
        state = above.view(len(above), len(function.breaks), -1).sum(1)
        return state, on_pieces(planes[split.parent[rows]], function, state.view(-1, *planes.shape[2:]))

    return split, act


def _shifted(entries: Float[Tensor, "p 3 u"], by: float | int) -> Float[Tensor, "p 3 u"]:
    """The functions less a number."""
    return entries if by == 0 else torch.cat([entries[:, :2], entries[:, 2:] - by], 1)


def _cut_by_maximum(
    polygons: Polygons, planes: Planes, maximum: Maximum, place: int, allow: Allow
) -> tuple[Split, Act]:
    """Cuts where the largest entry of a window changes."""
    entries = planes.flatten(2)
    looked_at, shape = windows(maximum.window, planes.shape[2:], planes.device)
    labels = (place << LAYER_BITS) + torch.arange(len(looked_at), device=planes.device)
    split = split_by_maximum(polygons, entries[:, :, looked_at.clamp_min(0)], looked_at >= 0, labels, allow)

    def act(rows: slice) -> tuple[Tensor, Planes]:
        state = split.state(rows)
        return state, picked(entries[split.parent[rows]], looked_at, state).view(-1, 3, *shape)

    return split, act


def _keys(units: int, place: int) -> Int[Tensor, "u"]:
    """64 random bits for each unit of a step."""
    return torch.randint(-(2**63), 2**63 - 1, (units,), generator=torch.Generator().manual_seed(place))
