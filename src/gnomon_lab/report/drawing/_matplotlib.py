"""What all figures that matplotlib draws share."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from gnomon.plot import scales, style
from gnomon_lab.report.drawing import _layout, _legend
from gnomon_lab.report.drawing._legend import Mark

# Sizes in CSS pixels, as in `_layout`.
EDGE, TITLE = 16, 42
DPI = 96
POINT = 72 / DPI  # of a pixel
Box = tuple[float, float, float, float]


class Lines(Mark, Protocol):
    """Lines of one kind."""

    @property
    def dashed(self) -> bool:
        """Whether they are dashed."""


def canvas(height: int, title: str) -> Drawing:
    """An empty figure, so many pixels high, with its title."""
    drawing = Drawing(figsize=(_layout.WIDTH / DPI, height / DPI), dpi=DPI, facecolor="white")
    drawing.text(EDGE / _layout.WIDTH, 1 - 14 / height, title, size=13, weight="bold", va="top", parse_math=False)
    return drawing


def legend_px(labels: Sequence[str]) -> int:
    """The height of the legend; 0 where there is nothing to show."""
    return _legend.height(labels, _layout.WIDTH - 2 * EDGE) if labels else 0


def above_frames(marks: Sequence[Mark]) -> int:
    """The height of what is above frames side by side: title, legend and the frames' own titles."""
    return TITLE + legend_px([mark.label for mark in marks]) + _layout.PANEL_TITLE


def draw_legend(drawing: Drawing, handles: Sequence[Line2D | Patch], whole: int, handlelength: float) -> None:
    """Draws the legend below the title of a figure `whole` pixels high; nothing if there are no handles."""
    if not handles:
        return
    columns = _legend.columns([str(handle.get_label()) for handle in handles], _layout.WIDTH - 2 * EDGE)
    # Matplotlib fills columns: in this order it shows them row by row.
    by_rows = [handle for column in range(columns) for handle in handles[column::columns]]
    box = drawing.legend(
        handles=by_rows, loc="upper left", bbox_to_anchor=(8 / _layout.WIDTH, 1 - (TITLE - 4) / whole),
        ncols=columns, frameon=False, handlelength=handlelength, columnspacing=2.0, borderpad=0.3,
    )  # fmt: skip
    for text in box.get_texts():
        text.set_parse_math(False)


def line_style(lines: Lines, width: float) -> dict[str, Any]:
    """How lines of one kind are drawn."""
    dashes = (0, (3, 2)) if lines.dashed else "-"
    return {"color": style.colour(lines.colour), "lw": width, "ls": dashes, "solid_capstyle": "round"}


def marker_style(shape: str, place: int, size: float, rim: float) -> dict[str, Any]:
    """How points of the palette's colour at `place` are drawn, `size` pixels wide."""
    return {
        "ls": "none", "marker": shape, "markersize": size * POINT, "markerfacecolor": style.colour(place),
        "markeredgecolor": "white", "markeredgewidth": rim,
    }  # fmt: skip


def handle(mark: Mark, look: Mapping[str, Any]) -> Line2D:
    """A mark's entry in the legend."""
    return Line2D([], [], **look, label=mark.label)


def plain(axis: Axis, ticks: int, whole: float = 1e9) -> None:
    """Plain numbers on an axis, in at most so many steps; whole ones are written in full up to there."""
    axis.set_major_locator(MaxNLocator(ticks))
    axis.set_major_formatter(scales.Plain(whole))


def frame_title(axes: Axes, words: str, **place: Any) -> None:  # noqa: ANN401 - matplotlib's own
    """The moment of a frame, above its upper left corner."""
    axes.set_title(words, loc="left", size=10.5, weight="bold", pad=7 * POINT, parse_math=False, **place)


def colour_bar(drawing: Drawing, colours: ScalarMappable, place: Box, words: str) -> Colorbar:
    """A horizontal colour bar, with what it shows above it."""
    bar = drawing.colorbar(colours, cax=drawing.add_axes(place), orientation="horizontal")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)
    bar.ax.set_title(words, loc="left", pad=4, size=9.5, parse_math=False)
    return bar
