"""Scatter plots as matplotlib draws them."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D

from gnomon.plot import scales, style
from gnomon_lab.figures import Points, Scatter, ScatterPanel
from gnomon_lab.report.drawing import _layout, _scatter_layout
from gnomon_lab.report.drawing._matplotlib import EDGE, POINT, TITLE, canvas, colour_bar, draw_legend, legend_px, plain

# Sizes in CSS pixels, as in `_layout`.
_MARGIN_LEFT, _MARGIN_RIGHT = 70, 24


def draw_scatter(scatter: Scatter) -> Drawing:
    """Draws all panels below each other, and the colour bar."""
    stacked, tops, bar_top = _scatter_layout.stack(scatter)
    whole = _top(scatter) + stacked + _layout.X_AXIS
    drawing = canvas(whole, scatter.title)
    handles = [
        Line2D([], [], **_line_style(points), **_marker_style(points), markerfacecolor=_scatter_layout.fill(points),
               label=points.label)
        for points in _scatter_layout.legend(scatter)
    ]  # fmt: skip
    draw_legend(drawing, handles, whole, handlelength=2.4)
    margin = max(_MARGIN_LEFT, EDGE + _scatter_layout.names(scatter))
    inner = _layout.WIDTH - margin - _MARGIN_RIGHT

    def box(left: int, top: int, width: int, tall: int) -> tuple[float, float, float, float]:
        bottom = whole - _top(scatter) - top - tall
        return left / _layout.WIDTH, bottom / whole, width / _layout.WIDTH, tall / whole

    colours = ScalarMappable(
        Normalize(*_scatter_layout.bar_ends(scatter)),
        LinearSegmentedColormap.from_list("gnomon values", list(style.VALUES)),
    )
    for panel, top in zip(scatter.panels, tops, strict=True):
        axes = drawing.add_axes(box(margin, top, inner, _scatter_layout.height(panel)))
        for points in panel.points:
            _draw_points(axes, points, colours)
        _draw_axes(axes, panel, inner)
    if scatter.value_span:
        below = box(margin, bar_top + _scatter_layout.BAR_LABEL, inner // 2, _scatter_layout.BAR)
        colour_bar(drawing, colours, below, scatter.value_label)
    return drawing


def _top(scatter: Scatter) -> int:
    return TITLE + legend_px([points.label for points in _scatter_layout.legend(scatter)])


def _line_style(points: Points) -> dict[str, Any]:
    return {
        "color": style.colour(points.colour),
        "linestyle": "-" if points.joined else "none",
        "linewidth": 1.6,
    }


def _marker_style(points: Points) -> dict[str, Any]:
    return {
        "marker": _scatter_layout.shape(points)[0],
        "markersize": _scatter_layout.MARKER * POINT,
        "markeredgecolor": _scatter_layout.edge(points),
        "markeredgewidth": _scatter_layout.edge_width(points) * POINT,
    }


def _draw_points(axes: Axes, points: Points, colours: ScalarMappable) -> None:
    if points.joined:
        axes.plot(points.x, points.y, **_line_style(points), solid_capstyle="round")
    for y, (low, high) in zip(points.y, points.bars, strict=False):
        line = _line_style(points)
        axes.hlines(y, low, high, line["color"], linewidth=line["linewidth"])
    style = _marker_style(points)
    drawn = axes.scatter(
        points.x, points.y, s=style["markersize"] ** 2, marker=style["marker"], label=points.label,
        edgecolors=style["markeredgecolor"], linewidths=style["markeredgewidth"], zorder=3,
        c=_scatter_layout.fill(points) if points.values is None else points.values,
    )  # fmt: skip
    drawn.set_cmap(colours.cmap)
    drawn.set_norm(colours.norm)


def _draw_axes(axes: Axes, panel: ScatterPanel, inner: int) -> None:
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        low, high = _scatter_layout.span(panel, name)
        if _scatter_layout.logarithmic(panel, name):
            scales.logarithmic(axes, name, low, high)
        else:
            plain(axis, 5 if name == "y" else 8)
        axes.set(**{f"{name}lim": (low, high)})
    if panel.rows:
        axes.set_yticks(range(len(panel.rows)), panel.rows, color=style.INK, parse_math=False)
    style.frame(axes)
    axes.set_xlabel(panel.x_label, labelpad=6, parse_math=False)
    axes.set_ylabel(panel.y_label, labelpad=8, parse_math=False)
    axes.yaxis.set_label_coords(-48 / inner, 0.5)
    left = (EDGE + inner + _MARGIN_RIGHT - _layout.WIDTH) / inner
    above = 1 + _layout.RISE / _scatter_layout.height(panel)
    axes.text(left, above, panel.title, transform=axes.transAxes, size=10.5, weight="bold", parse_math=False)
