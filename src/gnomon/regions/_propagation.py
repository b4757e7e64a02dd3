"""Polygons on their way through a network: each layer that bends cuts them, in parts that fit a memory budget."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon.errors import ConvergenceError
from gnomon.regions._memory_plan import MemoryPlan
from gnomon.regions._operations import Affine, Bend, Maximum, PiecewiseLinear, Planes, bent, straight
from gnomon.regions._partition import LAYER_BITS
from gnomon.regions._polygons import Polygons
from gnomon.regions._split import Allow, Split, split_by_lines, split_by_maximum
from gnomon.regions._steps import Network
from gnomon.regions._windows import windows


@dataclass(frozen=True)
class Piece:
    """Some polygons, each inside one cell of all layers so far.

    Attributes:
        polygons: the polygons.
        held: what later steps still need, by name; one row per polygon.
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
        memory: how many polygons are processed together.
        rounding: by the place of a bending step, the rounding errors of what enters it.
        most: the number of regions beyond which to give up.
        area: the area of everything that goes in.
        found: the number of regions that each bending step has left so far, by its place.
        out: the number of regions that came out.
        done: the area of those.
    """

    network: Network
    memory: MemoryPlan
    rounding: Mapping[int, Float[Tensor, "u"]]
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
            if not isinstance(step.operation, Affine):
                yield from self._cut(piece, place, step.operation)
                return
            value = step.operation.apply(*(piece.held[name] for name in step.inputs))
            piece = Piece(piece.polygons, self._kept(piece.held | {step.name: value}, place), piece.pattern)
        self.out += len(piece.polygons)
        self.done += float(piece.polygons.areas().sum())
        yield piece

    def _cut(self, piece: Piece, place: int, operation: Bend) -> Iterator[Piece]:
        """Cuts the polygons by the units of a bending step, and passes the pieces on, both in parts that fit."""
        size, step = self.memory.polygons[place], self.network.steps[place]
        for start in range(0, len(piece.polygons), size):
            part = piece.part(slice(start, start + size))
            planes = part.held[step.inputs[0]]
            rounding = self.rounding[place]
            split = _cut_by(part.polygons, planes, operation, place, rounding, self._allow, self.memory.room)
            self.found[step.place] += len(split.children)
            for begin in range(0, len(split.children), size):
                yield from self.forward(
                    self._child(part, split, slice(begin, begin + size), place, operation), place + 1
                )

    def _child(self, part: Piece, split: Split, rows: slice, place: int, operation: Bend) -> Piece:
        """Some of the pieces behind a bending step."""
        step, parent, state = self.network.steps[place], split.parent[rows], split.state(rows)
        if isinstance(operation, PiecewiseLinear):
            # A unit's piece is the number of breaks below its value.
            state = state.view(len(state), len(operation.breaks), -1).sum(1)
        pattern = part.pattern[parent] + (state * _keys(state.shape[1], place).to(state.device)).sum(1)
        held = {name: planes[parent] for name, planes in self._kept(part.held, place).items()}
        if step.name in self.network.needed_after[place]:
            held[step.name] = bent(operation, part.held[step.inputs[0]][parent], state)
        return Piece(split.children[rows], held, pattern)

    def _kept(self, held: dict[str, Planes], place: int) -> dict[str, Planes]:
        """What is still needed after a step."""
        return {name: planes for name, planes in held.items() if name in self.network.needed_after[place]}

    def _allow(self, regions: int) -> None:
        """Raises ConvergenceError if so many regions at one step are too many."""
        if self.out + regions > self.most:
            raise ConvergenceError(
                "max_regions",
                f"at most {self.most:,} regions",
                f"more with {self.share:.1%} of the box done",
                "Allow more, or take a smaller box.",
            )


def _cut_by(
    polygons: Polygons,
    planes: Planes,
    operation: Bend,
    place: int,
    rounding: Float[Tensor, "u"],
    allow: Allow,
    room: int,
) -> Split:
    """Cuts polygons by the units of a bending operation."""
    entries = planes.flatten(2)
    if isinstance(operation, Maximum):
        looked_at, _ = windows(operation.window, planes.shape[2:], planes.device)
        labels = (place << LAYER_BITS) + torch.arange(len(looked_at), device=planes.device)
        return split_by_maximum(polygons, entries, looked_at, labels, rounding, allow, room)
    labels = (place << LAYER_BITS) + torch.arange(entries.shape[2], device=entries.device).repeat(len(operation.breaks))
    # A unit that does not bend is never beyond its break.
    rounding = rounding.masked_fill(straight(operation, planes).flatten(), torch.inf)
    return split_by_lines(polygons, entries, operation.breaks, labels, rounding, allow, room)


def _keys(units: int, place: int) -> Int[Tensor, "u"]:
    """64 random bits for each unit of a step."""
    generator = torch.Generator().manual_seed(place)
    return torch.randint(-(2**63), 2**63 - 1, (units,), generator=generator, device="cpu")
