"""What a film in three-dimensional space shows, as plain data: points, lines and translucent faces."""

from dataclasses import dataclass

import numpy as np

from gnomon.errors import EmptyError, RangeError, public
from gnomon_lab.figures._checks import all_finite
from gnomon_lab.figures._frames import check_frames, side_by_side
from gnomon_lab.figures._shapes import Corners, Polylines, SpaceFaces, SpacePoints

SpaceMark = SpacePoints | Polylines | SpaceFaces


@dataclass(frozen=True, eq=False)
class SpaceFrame:
    """What is shown in space at one moment.

    Attributes:
        label: the moment, such as "s = 1.5".
        marks: points, lines and faces, in the order of the legend.

    Raises:
        EmptyError: if there is none.
        ShapeError: if corners are not of shape (v, 3), or too few: one of points, two of lines, three of faces.
        RangeError: if a coordinate is NaN or infinite.
    """

    label: str
    marks: tuple[SpaceMark, ...]

    @public
    def __post_init__(self) -> None:
        if not any(mark.shapes for mark in self.marks):
            raise EmptyError("marks", "points, lines or faces", f"none in {self.label!r}", "Leave the frame out.")
        for mark in self.marks:
            mark.check_corners("marks", 3)


@dataclass(frozen=True, eq=False)
class Space:
    """Three-dimensional space, one frame for each moment; the three axes have the same scale.

    Attributes:
        name: the figure's file name, without suffix.
        title: one line that says what to see.
        caption: what is drawn, in sentences.
        x_label: the first axis and its unit.
        y_label: the second axis and its unit.
        z_label: the third axis, which points upwards, and its unit.
        frames: in order of time; all have the same three axes.
        beside: places of up to three frames that a still figure shows side by side; None takes first, middle and last.
        view: the initial viewpoint, in degrees: above the plane of the first two axes, from 0 to below 90, and round
            the third axis from the first towards the second.

    Raises:
        EmptyError: if there is no frame.
        RangeError: if `beside` has no frame, more than three, or one that does not exist; or if `view` is not finite,
            or from below or straight from above.
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

    @public
    def __post_init__(self) -> None:
        check_frames(self.frames, self.beside, self.name)
        all_finite("view", self.view, self.name)
        if not 0 <= self.view[0] < 90:
            expected, got = "degrees above the plane from 0 to below 90", f"{self.view[0]:g} in {self.name!r}"
            raise RangeError("view", expected, got, "Look a little from the side.")

    @property
    def box(self) -> tuple[Corners, Corners]:
        """What the axes show: the lower and the upper end of each, of shape (3,).

        Everything that is drawn in any frame, and 5 % on either side; no axis is shorter than a fifth of the longest.
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
