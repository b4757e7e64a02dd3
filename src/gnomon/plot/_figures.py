"""What a figure shows, as plain data: no renderer is imported here, and both renderers draw the same."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gnomon.errors import EmptyError, RangeError, ShapeError
from gnomon.plot._checks import all_finite, palette_place
from gnomon.plot._region_map import RegionMap
from gnomon.plot._scatter import Scatter
from gnomon.plot._space import Space


@dataclass(frozen=True)
class Line:
    """One curve.

    Attributes:
        label: what it is; lines of one label, colour and dash share one legend entry over all panels.
        x: where it was measured, in the unit of the figure's x axis.
        y: what was measured there; as long as `x`.
        dashed: dashed instead of solid.
        colour: place in the palette, from 0; wraps round.

    Raises:
        ShapeError: if `x` and `y` differ in length.
        EmptyError: if there is no point.
        RangeError: if a number is NaN or infinite, or `colour` is negative.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    dashed: bool = False
    colour: int = 0

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ShapeError(
                f"Line(y): expected as many values as x has, {len(self.x)}, got {len(self.y)} for {self.label!r}. "
                "Pass one y for each x."
            )
        if not self.x:
            raise EmptyError(f"Line(x): expected at least one point, got none for {self.label!r}. Leave the line out.")
        all_finite("Line(x)", self.x, self.label)
        all_finite("Line(y)", self.y, self.label)
        palette_place("Line(colour)", self.colour)


@dataclass(frozen=True)
class Mark:
    """A moment: a vertical line with its label, such as "baseline memorised, step 40".

    Attributes:
        label: what happened; a mark that several panels share is labelled in the first of them only.
        x: when, in the unit of the figure's x axis.
        colour: place in the palette, from 0; wraps round.

    Raises:
        RangeError: if `x` is NaN or infinite, or `colour` is negative.
    """

    label: str
    x: float
    colour: int = 0

    def __post_init__(self) -> None:
        all_finite("Mark(x)", (self.x,), self.label)
        palette_place("Mark(colour)", self.colour)


@dataclass(frozen=True)
class Panel:
    """One of the small multiples of `Curves`.

    Attributes:
        title: what the panel shows.
        y_label: the quantity and its unit.
        lines: the curves, drawn in this order.
        marks: the moments.
        y_range: lower and upper end of the y axis; None fits the lines.
        log_y: logarithmic y axis; every y, and the lower end of `y_range`, must be above 0.

    Raises:
        EmptyError: if there is no line.
        RangeError: if `y_range` does not rise, or a logarithmic axis cannot show a point.
    """

    title: str
    y_label: str
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...] = ()
    y_range: tuple[float, float] | None = None
    log_y: bool = False

    def __post_init__(self) -> None:
        if not self.lines:
            raise EmptyError(
                f"Panel(lines): expected at least one line, got none in {self.title!r}. Leave the panel out."
            )
        if self.y_range is not None:
            all_finite("Panel(y_range)", self.y_range, self.title)
            if self.y_range[0] >= self.y_range[1]:
                raise RangeError(
                    f"Panel(y_range): expected (lower, upper), got {self.y_range} in {self.title!r}. Swap or widen it."
                )
        least = min(y for ys in (*(line.y for line in self.lines), self.y_range or ()) for y in ys)
        if self.log_y and least <= 0:
            raise RangeError(
                f"Panel(log_y): expected y above 0 everywhere, got {least:g} in {self.title!r}. "
                "Set log_y=False, or leave that point out."
            )


@dataclass(frozen=True)
class Curves:
    """Small multiples over one shared x axis.

    Attributes:
        name: the figure's file name, without suffix.
        title: one line that says what to see.
        caption: what is drawn, in sentences.
        x_label: the x axis and its unit.
        panels: from top to bottom.
        log_x: logarithmic x axis, on which points and marks at x <= 0 are left out.
        panel_height: of each panel's axes (CSS pixels).

    Raises:
        EmptyError: if there is no panel, or no point that the axis can show.
        RangeError: if `panel_height` is below 1.
    """

    name: str
    title: str
    caption: str
    x_label: str
    panels: tuple[Panel, ...]
    log_x: bool = True
    panel_height: int = 190

    def __post_init__(self) -> None:
        if not self.panels:
            raise EmptyError(f"Curves(panels): expected at least one panel, got none in {self.name!r}. Add a panel.")
        if self.panel_height < 1:
            raise RangeError(
                f"Curves(panel_height): expected at least 1 pixel, got {self.panel_height} in {self.name!r}. "
                f"Leave it out for the usual height."
            )
        if self.log_x and not any(x > 0 for panel in self.panels for line in panel.lines for x in line.x):
            raise EmptyError(
                f"Curves(panels): expected a point at x > 0 for a logarithmic axis, got none in {self.name!r}. "
                "Set log_x=False."
            )


@dataclass(frozen=True, eq=False)
class ImageRow:
    """Images side by side. Each is drawn scaled by its own largest |value|.

    Attributes:
        label: what the images are.
        images: shape (n, h, w).

    Raises:
        ShapeError: if the array is not three-dimensional.
        EmptyError: if it has no pixel.
        RangeError: if a pixel is NaN or infinite.
    """

    label: str
    images: npt.NDArray[np.floating]

    def __post_init__(self) -> None:
        if self.images.ndim != 3:
            raise ShapeError(
                f"ImageRow(images): expected shape (n, h, w), got {self.images.shape} for {self.label!r}. "
                "Reshape to one image per entry."
            )
        if self.images.size == 0:
            raise EmptyError(
                f"ImageRow(images): expected at least one pixel, got shape {self.images.shape} for {self.label!r}. "
                "Leave the row out."
            )
        finite = np.isfinite(self.images)
        if not finite.all():
            where = tuple(int(i) for i in np.argwhere(~finite)[0])
            raise RangeError(
                f"ImageRow(images): expected finite pixels, got {self.images[where]} at {where} of {self.label!r}. "
                "Look for the step at which training diverged."
            )


@dataclass(frozen=True)
class ImageFrame:
    """The rows of images at one moment.

    Attributes:
        label: the moment, such as "step 100".
        rows: from top to bottom.

    Raises:
        EmptyError: if there is no row.
    """

    label: str
    rows: tuple[ImageRow, ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise EmptyError(f"ImageFrame(rows): expected at least one row, got none at {self.label!r}. Add a row.")


@dataclass(frozen=True)
class ImageSlider:
    """Rows of images, one frame for each moment of training; what is interactive opens at the last one.

    Attributes:
        name: the figure's file name, without suffix.
        title: one line that says what to see.
        caption: what is drawn, in sentences.
        frames: in order of time; every frame has the same rows, and all rows have one shape.
        diverging: blue, white, red around 0; False draws white to black from 0, for images without negative pixels.

    Raises:
        EmptyError: if there is no frame.
        ShapeError: if rows differ between frames in label, or anywhere in shape.
        RangeError: if `diverging` is False and a pixel is negative.
    """

    name: str
    title: str
    caption: str
    frames: tuple[ImageFrame, ...]
    diverging: bool = True

    def __post_init__(self) -> None:
        if not self.frames:
            raise EmptyError(f"ImageSlider(frames): expected at least one frame, got none in {self.name!r}. Add one.")
        labels = [row.label for row in self.frames[0].rows]
        shape = self.frames[0].rows[0].images.shape
        for frame in self.frames:
            if (here := [row.label for row in frame.rows]) != labels:
                raise ShapeError(
                    f"ImageSlider(frames): expected the rows {labels} in every frame, got {here} at {frame.label!r}. "
                    "Give every frame the same rows."
                )
            for row in frame.rows:
                self._check_row(row, shape, frame.label)

    @property
    def how_to_read(self) -> str:
        """The sentence that explains the colours."""
        if self.diverging:
            return "Each image is scaled by its own largest absolute value: blue is negative, white zero, red positive."
        return "Each image is scaled by its own largest value: white is zero, black the largest."

    def _check_row(self, row: ImageRow, shape: tuple[int, ...], at: str) -> None:
        if row.images.shape != shape:
            raise ShapeError(
                f"ImageSlider(frames): expected images of shape {shape} in every row, got {row.images.shape} "
                f"for {row.label!r} at {at!r}. Show as many images, of one size, in each row."
            )
        if not self.diverging and row.images.min() < 0:
            raise RangeError(
                f"ImageSlider(diverging): expected no negative pixel, got {row.images.min():.3g} for {row.label!r} "
                f"at {at!r}. Set diverging=True."
            )


Figure = Curves | ImageSlider | Scatter | RegionMap | Space
