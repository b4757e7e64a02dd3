"""What a scatter plot shows, as plain data: points, the colours of their values, lines through them."""

from dataclasses import dataclass

from gnomon.errors import EmptyError, RangeError, ShapeError
from gnomon_lab.figures._checks import all_finite, palette_place


@dataclass(frozen=True)
class Points:
    """Points of one kind.

    Attributes:
        label: what they are; points of one label and colour share one legend entry over all panels.
        x: their first coordinates.
        y: their second coordinates; as many.
        values: what the colour bar tells of each point; as many. None draws all in the palette's colour.
        joined: whether a line in the palette's colour runs through them, in the order given.
        colour: place in the palette and among the shapes of points, from 0; wraps round.

    Raises:
        ShapeError: if `x`, `y` and `values` differ in length.
        EmptyError: if there is no point.
        RangeError: if a number is NaN or infinite, or `colour` is negative.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    values: tuple[float, ...] | None = None
    joined: bool = False
    colour: int = 0

    def __post_init__(self) -> None:
        if not self.x:
            raise EmptyError(
                "x", "at least one point", f"none for {self.label!r}", "Leave the points out.", where="Points"
            )
        for name, numbers in (("x", self.x), ("y", self.y), ("values", self.values)):
            if numbers is None:
                continue
            if len(numbers) != len(self.x):
                raise ShapeError(
                    name,
                    f"as many as x has, {len(self.x)}",
                    f"{len(numbers)} for {self.label!r}",
                    "Pass one for each point.",
                    where="Points",
                )
            all_finite(f"Points({name})", numbers, self.label)
        palette_place("Points(colour)", self.colour)


@dataclass(frozen=True)
class ScatterPanel:
    """One of the panels of `Scatter`, with axes of its own.

    Attributes:
        title: what the panel shows.
        x_label: the x axis and its unit.
        y_label: the y axis and its unit.
        points: drawn in this order.
        log_x: logarithmic x axis; every x must be above 0.
        log_y: logarithmic y axis; every y must be above 0.
        rows: names that stand at y = 0, 1, 2, ..., from the top down, in place of numbers; the panel is as high as they
            need.

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

    def __post_init__(self) -> None:
        if not self.points:
            raise EmptyError(
                "points", "some points", f"none in {self.title!r}", "Leave the panel out.", where="ScatterPanel"
            )
        for axis, log in (("x", self.log_x), ("y", self.log_y)):
            least = min(min(getattr(points, axis)) for points in self.points)
            if log and least <= 0:
                raise RangeError(
                    f"log_{axis}",
                    f"{axis} above 0 everywhere",
                    f"{least:g} in {self.title!r}",
                    f"Set log_{axis}=False, or leave that point out.",
                    where="ScatterPanel",
                )
        if self.rows:
            lines = [y for points in self.points for y in points.y]
            least, most = min(lines), max(lines)
            if self.log_y or least < -0.5 or most > len(self.rows) - 0.5:
                raise RangeError(
                    "rows",
                    f"a linear axis and every y from -0.5 to {len(self.rows) - 0.5:g}",
                    f"{('a logarithmic one' if self.log_y else f'{least:g} to {most:g}')} in {self.title!r}",
                    "Number the rows from 0, from the top down.",
                    where="ScatterPanel",
                )


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

    def __post_init__(self) -> None:
        if not self.panels:
            raise EmptyError("panels", "at least one panel", f"none in {self.name!r}", "Add a panel.", where="Scatter")
        if self.value_span is not None and not self.value_label:
            raise EmptyError(
                "value_label",
                "words for the colour bar",
                f"none in {self.name!r}",
                "Say what the values are.",
                where="Scatter",
            )

    @property
    def value_span(self) -> tuple[float, float] | None:
        """The lowest and the highest value, which the ends of the colour bar show; None where no point has one."""
        values = [value for panel in self.panels for points in panel.points for value in points.values or ()]
        return (min(values), max(values)) if values else None
