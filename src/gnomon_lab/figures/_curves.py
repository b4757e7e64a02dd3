"""What curves show, as plain data: panels over one x axis, with lines and moments."""

import math
from dataclasses import dataclass

from gnomon.errors import EmptyError, RangeError, public
from gnomon_lab.figures._checks import above_0, all_finite, as_many, palette_place, some


@dataclass(frozen=True)
class Line:
    """One curve.

    Attributes:
        label: what it is; lines of one label, colour and dash share one legend entry over all panels.
        x: where it was measured, in the unit of the figure's x axis.
        y: what was measured there; as long as `x`.
        dashed: dashed instead of solid.
        colour: place in the palette, from 0; wraps round, with other dashes.

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

    @public
    def __post_init__(self) -> None:
        as_many(self.x, self.label, y=self.y)
        palette_place(self.colour)


@dataclass(frozen=True)
class Mark:
    """A moment: a vertical line with its label, such as "baseline memorised, step 40".

    Attributes:
        label: what happened; a mark that several panels share is labelled only in the first of them.
        x: when, in the unit of the figure's x axis.
        colour: place in the palette, from 0; wraps round.

    Raises:
        RangeError: if `x` is NaN or infinite, or `colour` is negative.
    """

    label: str
    x: float
    colour: int = 0

    @public
    def __post_init__(self) -> None:
        all_finite("x", (self.x,), self.label)
        palette_place(self.colour)


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
        RangeError: if `y_range` is not increasing, or a logarithmic axis cannot show a point.
    """

    title: str
    y_label: str
    lines: tuple[Line, ...]
    marks: tuple[Mark, ...] = ()
    y_range: tuple[float, float] | None = None
    log_y: bool = False

    @public
    def __post_init__(self) -> None:
        some("lines", self.lines, "line", self.title)
        if self.y_range is not None:
            all_finite("y_range", self.y_range, self.title)
            if self.y_range[0] >= self.y_range[1]:
                raise RangeError("y_range", "(lower, upper)", f"{self.y_range} in {self.title!r}", "Swap or widen it.")
        if self.log_y:
            above_0(
                "log_y",
                [y for ys in (*(line.y for line in self.lines), self.y_range or ()) for y in ys],
                "y",
                self.title,
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
        panel_height: the height of each panel's axes (CSS pixels).
        zero: the x above 0 at which x = 0 is drawn on a logarithmic axis: hovering there says 0; None for nowhere.

    Raises:
        EmptyError: if there is no panel, or no point that the axis can show.
        RangeError: if `panel_height` is below 1, or `zero` not above 0.
    """

    name: str
    title: str
    caption: str
    x_label: str
    panels: tuple[Panel, ...]
    log_x: bool = True
    panel_height: int = 190
    zero: float | None = None

    @public
    def __post_init__(self) -> None:
        some("panels", self.panels, "panel", self.name)
        if self.panel_height < 1:
            got = f"{self.panel_height} in {self.name!r}"
            raise RangeError("panel_height", "at least 1 pixel", got, "Leave it out for the usual height.")
        if self.zero is not None and not 0 < self.zero < math.inf:
            got = f"{self.zero} in {self.name!r}"
            raise RangeError("zero", "a place above 0", got, "Leave it out if x = 0 is not drawn.")
        if self.log_x and not any(x > 0 for panel in self.panels for line in panel.lines for x in line.x):
            expected = "a point at x > 0 for a logarithmic axis"
            raise EmptyError("panels", expected, f"none in {self.name!r}", "Set log_x=False.")
