"""What a map of regions shows, as plain data: polygons coloured by a value or a class, with points and lines on top."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gnomon.errors import RangeError, ShapeError, public
from gnomon_lab.figures._checks import above_0, all_finite, coordinates, some
from gnomon_lab.figures._frames import check_frames, side_by_side
from gnomon_lab.figures._scatter import Points
from gnomon_lab.figures._shapes import Corners, Polylines


@dataclass(frozen=True, eq=False)
class RegionFrame:
    """The regions at one moment.

    Attributes:
        label: the moment, such as "step 100".
        polygons: the corners of each region, in order, of shape (v, 2), at least three.
        values: what the colours show of each region, of shape (p,).
        lines: drawn on top of the regions.
        points: drawn on top of the lines, each in the one colour of its place in the palette.

    Raises:
        EmptyError: if there is no polygon.
        ShapeError: if a polygon has fewer than three corners, a line fewer than two, or there are not as many values.
        RangeError: if a number is NaN or infinite, or points have values or bars, or are joined.
    """

    label: str
    polygons: tuple[Corners, ...]
    values: npt.NDArray[np.floating]
    lines: tuple[Polylines, ...] = ()
    points: tuple[Points, ...] = ()

    @public
    def __post_init__(self) -> None:
        some("polygons", self.polygons, "region", self.label)
        coordinates("polygons", self.polygons, 3, 2, self.label)
        if self.values.shape != (len(self.polygons),):
            got = f"{self.values.shape} in {self.label!r}"
            raise ShapeError("values", f"shape {(len(self.polygons),)}", got, "Pass one value for each polygon.")
        all_finite("values", self.values.tolist(), self.label)
        for lines in self.lines:
            lines.check_corners("lines", 2)
        for points in self.points:
            if points.values is not None or points.bars or points.joined:
                expected, advice = "points without values or bars, unjoined", "The colours are the regions'."
                raise RangeError("points", expected, f"others in {points.label!r}", advice)


@dataclass(frozen=True, eq=False)
class RegionMap:
    """A plane cut into coloured regions, one frame for each moment; both axes have the same scale.

    Attributes:
        name: the figure's file name, without suffix.
        title: one line that says what to see.
        caption: what is drawn, in sentences.
        x_label: the first axis and its unit.
        y_label: the second axis and its unit.
        value_label: what the colours are, and their unit.
        frames: in order of time; all have the same colour scale and the same pair of axes.
        classes: short names of classes, for the colour bar; values are then places among them, from 0.
        log_values: logarithmic colour bar; every value must be above 0.
        value_range: values at the ends of the colour bar, in whose colours values beyond are drawn; None fits all
            values.
        beside: places of up to three frames that a still figure shows side by side; None takes first, middle and last.

    Raises:
        EmptyError: if there is no frame.
        RangeError: if a value is not the place of a class, or the colour bar cannot show it; if `value_range` is
            decreasing; or if `beside` has no frame, more than three, or one that does not exist.
    """

    name: str
    title: str
    caption: str
    x_label: str
    y_label: str
    value_label: str
    frames: tuple[RegionFrame, ...]
    classes: tuple[str, ...] = ()
    log_values: bool = False
    value_range: tuple[float, float] | None = None
    beside: tuple[int, ...] | None = None

    @public
    def __post_init__(self) -> None:
        check_frames(self.frames, self.beside, self.name)
        values = self._values()
        places = np.arange(len(self.classes))
        if self.classes and not np.isin(values, places).all():
            got = f"{values[~np.isin(values, places)][0]:g} in {self.name!r}"
            raise RangeError("classes", f"values among the places 0 to {len(places) - 1}", got, "Name every class.")
        low, high = self.value_range or (values.min(), values.max())
        if not (np.isfinite([low, high]).all() and low <= high):
            got = f"{self.value_range} in {self.name!r}"
            raise RangeError("value_range", "(lower, upper)", got, "Swap or widen it.")
        if self.log_values:
            above_0("log_values", (low, values.min()), "values", self.name)

    def _values(self) -> npt.NDArray[np.floating]:
        return np.concatenate([frame.values for frame in self.frames])

    @property
    def value_span(self) -> tuple[float, float]:
        """The values at the ends of the colour bar."""
        values = self._values()
        return self.value_range or (float(values.min()), float(values.max()))

    @property
    def box(self) -> tuple[float, float, float, float]:
        """What the axes show: the left, right, lower and upper end of all polygons."""
        corners = np.concatenate([polygon for frame in self.frames for polygon in frame.polygons])
        (left, bottom), (right, top) = corners.min(0).tolist(), corners.max(0).tolist()
        return left, right, bottom, top

    @property
    def still(self) -> tuple[RegionFrame, ...]:
        """The frames that a still figure shows side by side."""
        return side_by_side(self.frames, self.beside)
