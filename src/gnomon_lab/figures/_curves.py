"""What curves show, as plain data: panels over one x axis, with lines and moments."""

from dataclasses import dataclass

from gnomon.errors import EmptyError, RangeError, ShapeError
from gnomon_lab.figures._checks import all_finite, palette_place


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
                "y",
                f"as many values as x has, {len(self.x)}",
                f"{len(self.y)} for {self.label!r}",
                "Pass one y for each x.",
                where="Line",
            )
        if not self.x:
            raise EmptyError("x", "at least one point", f"none for {self.label!r}", "Leave the line out.", where="Line")
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
                "lines", "at least one line", f"none in {self.title!r}", "Leave the panel out.", where="Panel"
            )
        if self.y_range is not None:
            all_finite("Panel(y_range)", self.y_range, self.title)
            if self.y_range[0] >= self.y_range[1]:
                raise RangeError(
                    "y_range", "(lower, upper)", f"{self.y_range} in {self.title!r}", "Swap or widen it.", where="Panel"
                )
        least = min(y for ys in (*(line.y for line in self.lines), self.y_range or ()) for y in ys)
        if self.log_y and least <= 0:
            raise RangeError(
                "log_y",
                "y above 0 everywhere",
                f"{least:g} in {self.title!r}",
                "Set log_y=False, or leave that point out.",
                where="Panel",
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
            raise EmptyError("panels", "at least one panel", f"none in {self.name!r}", "Add a panel.", where="Curves")
        if self.panel_height < 1:
            raise RangeError(
                "panel_height",
                "at least 1 pixel",
                f"{self.panel_height} in {self.name!r}",
                "Leave it out for the usual height.",
                where="Curves",
            )
        if self.log_x and not any(x > 0 for panel in self.panels for line in panel.lines for x in line.x):
            raise EmptyError(
                "panels",
                "a point at x > 0 for a logarithmic axis",
                f"none in {self.name!r}",
                "Set log_x=False.",
                where="Curves",
            )
