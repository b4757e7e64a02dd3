"""Points, lines and faces by their corners, as plain data: what is shown in space, and the lines of a map."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from gnomon.errors import within
from gnomon_lab.figures._checks import coordinates, palette_place

Corners = npt.NDArray[np.floating]
"""Of shape (v, 2) in a plane, (v, 3) in space."""


@dataclass(frozen=True, eq=False)
class Shapes:
    """Shapes of one kind; the figure's frames check their corners.

    Attributes:
        label: what they are; those of one kind, label and colour share one legend entry.
        shapes: the corners of each.
        colour: place in the palette, from 0; wraps round.

    Raises:
        RangeError: if `colour` is negative.
    """

    label: str
    shapes: tuple[Corners, ...]
    colour: int = 0
    least: ClassVar[int]
    """The fewest corners of a shape."""

    def __post_init__(self) -> None:
        with within(type(self).__name__):
            palette_place(self.colour)

    def check_corners(self, argument: str, dimensions: int) -> None:
        """Raises ShapeError or RangeError unless all shapes have enough corners, finite and in this space."""
        coordinates(argument, self.shapes, self.least, dimensions, self.label)


@dataclass(frozen=True, eq=False)
class SpacePoints(Shapes):
    """Points: all corners of all shapes. The colour is also a place among the shapes of points."""

    least: ClassVar[int] = 1


@dataclass(frozen=True, eq=False)
class Polylines(Shapes):
    """Lines, such as a decision boundary or the edges of a sector, solid or `dashed`."""

    dashed: bool = False
    least: ClassVar[int] = 2


@dataclass(frozen=True, eq=False)
class SpaceFaces(Shapes):
    """Flat and convex faces, such as those of a sector, their corners in order; drawn translucent."""

    least: ClassVar[int] = 3
