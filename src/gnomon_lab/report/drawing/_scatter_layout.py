"""What both renderers of scatter plots share: colours, shapes, pixel sizes, ends of axes. Pure."""

import math

from gnomon.plot import style
from gnomon_lab.figures import Points, Scatter, ScatterPanel
from gnomon_lab.report.drawing import _layout
from gnomon_lab.report.drawing._legend import kinds

SHAPES = (("o", "circle"), ("s", "square"), ("D", "diamond"), ("^", "triangle-up"))
"""As matplotlib and as plotly name them."""

# Sizes in CSS pixels, as in `_layout`.
PLOT, MARKER, ROW = 250, 9, 27
BAR_LABEL, BAR, BAR_ROOM = 20, 12, 58


def shape(points: Points) -> tuple[str, str]:
    """The shape at the points' place, for matplotlib and for plotly."""
    return SHAPES[points.colour % len(SHAPES)]


def fill(points: Points) -> str:
    """The one colour for points without values, and for the legend."""
    if points.values is not None:
        return style.MUTED
    return "white" if points.hollow else style.colour(points.colour)


def edge(points: Points) -> str:
    """The colour around each point."""
    if points.values is not None:
        return style.MUTED
    return style.colour(points.colour) if points.hollow else "white"


def edge_width(points: Points) -> float:
    """Its width (pixels)."""
    return 1.6 if points.hollow else 0.8


def legend(scatter: Scatter) -> tuple[Points, ...]:
    """The first points of each legend entry: those of one label and colour share one."""
    return kinds(points for panel in scatter.panels for points in panel.points)


def height(panel: ScatterPanel) -> int:
    """The height of a panel's axes (pixels)."""
    return ROW * len(panel.rows) if panel.rows else PLOT


def names(scatter: Scatter) -> int:
    """The room that the names of rows need next to the axes (pixels)."""
    longest = max((len(name) for panel in scatter.panels for name in panel.rows), default=0)
    return math.ceil(_layout.LABEL_CHARACTER * longest) + 8 * bool(longest)


def stack(scatter: Scatter) -> tuple[int, tuple[int, ...], int]:
    """The height of all panels but for the last x axis, and how far below its top each panel and the bar begin (px).

    The colour bar with its label is below the x axis of the last panel that has values.
    """
    valued = [i for i, panel in enumerate(scatter.panels) if any(points.values for points in panel.points)]
    tops, y, bar = [], 0, 0
    for i in range(len(scatter.panels)):
        tops.append(y + _layout.PANEL_TITLE)
        y += _layout.PANEL_TITLE + height(scatter.panels[i]) + _layout.X_AXIS
        if valued and i == valued[-1]:
            bar, y = y, y + BAR_ROOM
    return y - _layout.X_AXIS, tuple(tops), bar


def span(panel: ScatterPanel, axis: str) -> tuple[float, float]:
    """Both ends of an axis, "x" or "y": all points and bars, and 5 % on either side; all rows, the first at the top."""
    if axis == "y" and panel.rows:
        return len(panel.rows) - 0.5, -0.5
    numbers = [number for points in panel.points for number in (points.ends if axis == "x" else points.y)]
    return _layout.padded(min(numbers), max(numbers), 0.05, log=logarithmic(panel, axis))


def logarithmic(panel: ScatterPanel, axis: str) -> bool:
    """Whether an axis, "x" or "y", is logarithmic."""
    return panel.log_x if axis == "x" else panel.log_y


def bar_ends(scatter: Scatter) -> tuple[float, float]:
    """The values at the ends of the colour bar; distinct even if all values are equal."""
    return _layout.distinct(*(scatter.value_span or (0.0, 1.0)))
