"""What a scatter plot shows, as plain data: points, the colours of their values, lines through them."""

from dataclasses import dataclass

from gnomon.errors import EmptyError, RangeError, public
from gnomon_lab.figures._checks import above_0, as_many, palette_place, some


@dataclass(frozen=True)
class Points:
    """Points of one kind.

    Attributes:
        label: what they are; points of one label and colour share one legend entry over all panels.
        x: their first coordinates.
        y: their second coordinates; one for each x.
        values: what the colour bar shows of each point; one for each x. None draws all in the palette's colour.
        joined: whether a line in the palette's colour runs through them, in the order given.
        colour: place in the palette and among the shapes of points, from 0; wraps round.
        low: the lower ends of bars along the x axis, one for each x; None lets them begin at the points.
        high: their upper ends, one for each x; None lets them end at the points.
        hollow: whether they are white with an edge of the palette's colour; without values only.

    Raises:
        ShapeError: if `x` and the other values of the points differ in length.
        EmptyError: if there is no point.
        RangeError: if a number is NaN or infinite, `colour` is negative, or a point is not on its bar.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    values: tuple[float, ...] | None = None
    joined: bool = False
    colour: int = 0
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    hollow: bool = False

    @public
    def __post_init__(self) -> None:
        as_many(self.x, self.label, y=self.y, values=self.values, low=self.low, high=self.high)
        palette_place(self.colour)
        for x, (low, high) in zip(self.x, self.bars, strict=False):
            if not low <= x <= high:
                got = f"{x:g} on a bar from {low:g} to {high:g} in {self.label!r}"
                raise RangeError("low, high", "bars on which their points are", got, "Pass the ends in that order.")

    @property
    def bars(self) -> tuple[tuple[float, float], ...]:
        """The two ends of each point's bar; empty if there are no bars."""
        return tuple(zip(self.low or self.x, self.high or self.x, strict=True)) if self.low or self.high else ()

    @property
    def ends(self) -> tuple[float, ...]:
        """All that the x axis has to show."""
        return (*self.x, *(end for bar in self.bars for end in bar))


@dataclass(frozen=True)
class ScatterPanel:
    """One of the panels of `Scatter`, with its own axes.

    Attributes:
        title: what the panel shows.
        x_label: the x axis and its unit.
        y_label: the y axis and its unit.
        points: drawn in this order.
        log_x: logarithmic x axis; every x must be above 0.
        log_y: logarithmic y axis; every y must be above 0.
        rows: names shown at y = 0, 1, 2, ..., from the top down, instead of numbers; the panel is as high as they need.

    Raises:
        EmptyError: if there are no points.
        RangeError: if a logarithmic axis, or the rows, cannot show a point.
    """

    title: str
    x_label: str
    y_label: str
    points: tuple[Points, ...]
    log_x: bool = False
    log_y: bool = False
    rows: tuple[str, ...] = ()

    @public
    def __post_init__(self) -> None:
        some("points", self.points, "kind of points", self.title)
        for axis, of, log in (("x", "ends", self.log_x), ("y", "y", self.log_y)):
            if log:
                above_0(f"log_{axis}", [at for points in self.points for at in getattr(points, of)], axis, self.title)
        if self.rows:
            lines = [y for points in self.points for y in points.y]
            least, most = min(lines), max(lines)
            if self.log_y or least < -0.5 or most > len(self.rows) - 0.5:
                expected = f"a linear axis and every y from -0.5 to {len(self.rows) - 0.5:g}"
                got = f"{'a logarithmic one' if self.log_y else f'{least:g} to {most:g}'} in {self.title!r}"
                raise RangeError("rows", expected, got, "Number the rows from 0, from the top down.")


@dataclass(frozen=True)
class Scatter:
    """Scatter plots, one below the other, with one colour bar for all.

    Attributes:
        name: the figure's file name, without suffix.
        title: one line that says what to see.
        caption: what is drawn, in sentences.
        panels: from top to bottom.
        value_label: what the colours are, and their unit; needed where points have values.

    Raises:
        EmptyError: if there is no panel, or points have values and the colour bar no label.
    """

    name: str
    title: str
    caption: str
    panels: tuple[ScatterPanel, ...]
    value_label: str = ""

    @public
    def __post_init__(self) -> None:
        some("panels", self.panels, "panel", self.name)
        if self.value_span is not None and not self.value_label:
            got = f"none in {self.name!r}"
            raise EmptyError("value_label", "words for the colour bar", got, "Say what the values are.")

    @property
    def value_span(self) -> tuple[float, float] | None:
        """The lowest and the highest value, which the ends of the colour bar show; None if no point has one."""
        values = [value for panel in self.panels for points in panel.points for value in points.values or ()]
        return (min(values), max(values)) if values else None
