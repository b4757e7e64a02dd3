"""What a film in three-dimensional space shows, as plain data: points, lines and translucent faces."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gnomon.errors import EmptyError, RangeError
from gnomon_lab.figures._checks import all_finite, coordinates, palette_place
from gnomon_lab.figures._frames import check_beside, side_by_side

Places = npt.NDArray[np.floating]
"""Of shape (v, 3)."""


@dataclass(frozen=True, eq=False)
class SpacePoints:
    """Points of one kind.

    Attributes:
        label: what they are; points of one label and colour share one legend entry.
        points: of shape (v, 3), at least one.
        colour: place in the palette and among the shapes of points, from 0; wraps round.

    Raises:
        ShapeError: if the points are not of shape (v, 3), or there is none.
        RangeError: if a number is NaN or infinite, or `colour` is negative.
    """

    label: str
    points: Places
    colour: int = 0

    def __post_init__(self) -> None:
        coordinates("SpacePoints(points)", self.shapes, 1, 3, self.label)
        palette_place("SpacePoints(colour)", self.colour)

    @property
    def shapes(self) -> tuple[Places, ...]:
        """The points as the one shape that they are."""
        return (self.points,)


@dataclass(frozen=True, eq=False)
class SpaceLines:
    """Lines of one kind, such as the edges of a sector.

    Attributes:
        label: what they are; lines of one label and colour share one legend entry.
        lines: the corners of each, of shape (v, 3), at least two.
        dashed: dashed instead of solid.
        colour: place in the palette, from 0; wraps round.

    Raises:
        ShapeError: if a line is not of shape (v, 3) with two corners or more.
        RangeError: if a number is NaN or infinite, or `colour` is negative.
    """

    label: str
    lines: tuple[Places, ...]
    dashed: bool = False
    colour: int = 0

    def __post_init__(self) -> None:
        coordinates("SpaceLines(lines)", self.lines, 2, 3, self.label)
        palette_place("SpaceLines(colour)", self.colour)

    @property
    def shapes(self) -> tuple[Places, ...]:
        """The lines."""
        return self.lines


@dataclass(frozen=True, eq=False)
class SpaceFaces:
    """Faces of one kind, such as those of a sector, drawn translucent.

    Attributes:
        label: what they are; faces of one label and colour share one legend entry.
        faces: the corners of each, in order, of shape (v, 3), at least three; flat and convex.
        colour: place in the palette, from 0; wraps round.

    Raises:
        ShapeError: if a face is not of shape (v, 3) with three corners or more.
        RangeError: if a number is NaN or infinite, or `colour` is negative.
    """

    label: str
    faces: tuple[Places, ...]
    colour: int = 0

    def __post_init__(self) -> None:
        coordinates("SpaceFaces(faces)", self.faces, 3, 3, self.label)
        palette_place("SpaceFaces(colour)", self.colour)

    @property
    def shapes(self) -> tuple[Places, ...]:
        """The faces."""
        return self.faces


SpaceMark = SpacePoints | SpaceLines | SpaceFaces


@dataclass(frozen=True, eq=False)
class SpaceFrame:
    """What stands in space at one moment.

    Attributes:
        label: the moment, such as "s = 1.5".
        marks: points, lines and faces, in the order of the legend.

    Raises:
        EmptyError: if there is none.
    """

    label: str
    marks: tuple[SpaceMark, ...]

    def __post_init__(self) -> None:
        if not any(mark.shapes for mark in self.marks):
            raise EmptyError(
                "marks", "points, lines or faces", f"none at {self.label!r}", "Leave the frame out.", where="SpaceFrame"
            )


@dataclass(frozen=True, eq=False)
class Space:
    """Three-dimensional space, one frame for each moment; the three axes have one scale.

    Attributes:
        name: the figure's file name, without suffix.
        title: one line that says what to see.
        caption: what is drawn, in sentences.
        x_label: the first axis and its unit.
        y_label: the second axis and its unit.
        z_label: the third axis, which points upwards, and its unit.
        frames: in order of time; all have the same three axes.
        beside: places of up to three frames that a still figure shows side by side; None takes first, middle and last.
        view: from where it is seen first, in degrees: above the plane of the first two axes, from 0 to below 90, and
            round the third axis from the first towards the second.

    Raises:
        EmptyError: if there is no frame.
        RangeError: if `beside` has no frame, more than three, or one that is not there; or if `view` is not finite, or
            from below or straight from above.
    """

    name: str
    title: str
    caption: str
    x_label: str
    y_label: str
    z_label: str
    frames: tuple[SpaceFrame, ...]
    beside: tuple[int, ...] | None = None
    view: tuple[float, float] = (20.0, -60.0)

    def __post_init__(self) -> None:
        if not self.frames:
            raise EmptyError("frames", "at least one frame", f"none in {self.name!r}", "Add one.", where="Space")
        check_beside("Space(beside)", self.beside, len(self.frames), self.name)
        all_finite("Space(view)", self.view, self.name)
        if not 0 <= self.view[0] < 90:
            raise RangeError(
                "view",
                "degrees above the plane from 0 to below 90",
                f"{self.view[0]:g} in {self.name!r}",
                "Look a little from the side.",
                where="Space",
            )

    @property
    def box(self) -> tuple[Places, Places]:
        """What the axes show: the lower and the upper end of each, of shape (3,).

        All that is drawn in any frame and 5 % on either side; no axis is shorter than a fifth of the longest.
        """
        shapes = [shape for frame in self.frames for mark in frame.marks for shape in mark.shapes]
        corners = np.concatenate(shapes).astype(np.float64)
        low, high = corners.min(0), corners.max(0)
        reach = 0.55 * (high - low)
        reach = np.maximum(reach, reach.max() / 5 or 0.5)
        return (low + high) / 2 - reach, (low + high) / 2 + reach

    @property
    def still(self) -> tuple[SpaceFrame, ...]:
        """The frames that a still figure shows side by side."""
        return side_by_side(self.frames, self.beside)
