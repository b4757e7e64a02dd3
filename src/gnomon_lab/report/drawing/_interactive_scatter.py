"""Scatter plots as plotly draws them: hover, one legend and one colour bar for all panels."""

from typing import Any

import plotly.graph_objects as go

from gnomon.plot import style
from gnomon_lab.figures import Points, Scatter, ScatterPanel
from gnomon_lab.report.drawing import _layout, _scatter_layout
from gnomon_lab.report.drawing._plotly import (
    Y_NUMBERS,
    axis_title,
    below_legend,
    colour_axis,
    dtick,
    number,
    text,
    title,
)

_LEFT, _RIGHT = 62, 26
_WIDER = 16
"""More room for names, since the reader's font may be wider (pixels)."""


def interactive_scatter(scatter: Scatter) -> go.Figure:
    """Draws the panels below each other, without the figure's title."""
    stacked, tops, _ = _scatter_layout.stack(scatter)
    left = max(_LEFT, _WIDER + _scatter_layout.names(scatter))
    entries = _scatter_layout.legend(scatter)
    labels = [points.label for points in entries]
    room = _layout.WIDTH - left - _RIGHT  # plotly gives a legend no more room
    layout = below_legend("scatter", labels, room, stacked, left, _RIGHT, _layout.X_AXIS)
    layout["annotations"] = [
        title(panel.title, f"y{number(i)}", left, _layout.RISE) for i, panel in enumerate(scatter.panels)
    ]
    for i, (panel, edge) in enumerate(zip(scatter.panels, tops, strict=True)):
        domain = (max(0.0, 1 - (edge + _scatter_layout.height(panel)) / stacked), 1 - edge / stacked)
        layout[f"xaxis{number(i)}"] = _axis(panel, "x", i) | {"domain": [0, 1]}
        layout[f"yaxis{number(i)}"] = _axis(panel, "y", i) | {"domain": list(domain)}
    if scatter.value_span:
        layout["coloraxis"] = _colours(scatter)
    traces = [_trace(points, scatter, i) for i, panel in enumerate(scatter.panels) for points in panel.points]
    return go.Figure([*traces, *map(_legend_entry, entries)], layout)


def _colours(scatter: Scatter) -> dict[str, Any]:
    """The colour scale and its bar."""
    stacked, _, top = _scatter_layout.stack(scatter)
    scale = [(i / (len(style.VALUES) - 1), stop) for i, stop in enumerate(style.VALUES)]
    words = {"text": text(scatter.value_label), "side": "top", "font": {"size": 13}}
    ends, ticks = _scatter_layout.bar_ends(scatter), {"nticks": 5, "tickformat": ".3~g"}
    return colour_axis(ends, scale, 1 - top / stacked, title=words, **ticks)


def _axis(panel: ScatterPanel, name: str, i: int) -> dict[str, Any]:
    words = panel.x_label if name == "x" else panel.y_label
    axis: dict[str, Any] = {
        "gridcolor": style.GRID, "linecolor": style.AXIS, "showline": True, "zeroline": False, "ticks": "",
        "anchor": f"{'y' if name == 'x' else 'x'}{number(i)}", "tickformat": ",~r", "tickangle": 0,
        "title": axis_title(words, 10 if name == "x" else 6),
    }  # fmt: skip
    ends = _scatter_layout.span(panel, name)
    if name == "y" and panel.rows:
        places = {"tickvals": [*range(len(panel.rows))], "ticktext": [text(row) for row in panel.rows]}
        return axis | {"type": "linear", "range": list(ends), **places}
    if _scatter_layout.logarithmic(panel, name):
        return axis | {"type": "log", "range": list(_layout.exponents(*ends)), "dtick": dtick(*ends)}
    if name == "y":
        return axis | {"type": "linear", "range": list(ends), "nticks": 6, "tickformat": ""} | Y_NUMBERS
    return axis | {"type": "linear", "range": list(ends), "nticks": 9}


def _marker(points: Points) -> dict[str, Any]:
    return {
        "size": _scatter_layout.MARKER, "symbol": _scatter_layout.shape(points)[1],
        "color": _scatter_layout.fill(points),
        "line": {"color": _scatter_layout.edge(points), "width": _scatter_layout.edge_width(points)},
    }  # fmt: skip


def _line(points: Points) -> dict[str, Any]:
    """Nothing where there is no line: the page brightens lines on a dark background."""
    return {"line": {"color": style.colour(points.colour), "width": 2}} if points.joined else {}


def _bars(points: Points) -> dict[str, Any]:
    """Nothing where points have no bars."""
    if not points.bars:
        return {}
    look = {"color": style.colour(points.colour), "thickness": 2, "width": 0, "symmetric": False}
    below, above = zip(
        *((x - low, high - x) for x, (low, high) in zip(points.x, points.bars, strict=True)), strict=True
    )
    return {"customdata": points.bars, "error_x": {"array": above, "arrayminus": below, **look}}


def _group(points: Points) -> str:
    return repr((points.label, points.colour))


def _trace(points: Points, scatter: Scatter, i: int) -> go.Scatter:
    rows = [text(name) for name in scatter.panels[i].rows]  # whole, where a phone's axis cuts them
    shown = f"{text(points.label)}<br>%{{x:.4~g}}, %{{y:.4~g}}"
    if rows:
        shown = f"{text(points.label)}<br>%{{text}}<br>%{{x:.4~g}}"
    marker = _marker(points)
    if points.bars:
        shown += "<br>%{customdata[0]:.4~g} to %{customdata[1]:.4~g}"
    if points.values is not None:
        marker |= {"color": points.values, "coloraxis": "coloraxis"}
        shown += f"<br>{text(scatter.value_label)}: %{{marker.color:.4~g}}"
    return go.Scatter(
        x=points.x, y=points.y, name=text(points.label), mode="lines+markers" if points.joined else "markers",
        marker=marker, legendgroup=_group(points), showlegend=False, hovertemplate=f"{shown}<extra></extra>",
        text=[rows[min(round(y), len(rows) - 1)] for y in points.y] if rows else None,
        xaxis=f"x{number(i)}", yaxis=f"y{number(i)}", **_line(points), **_bars(points),
    )  # fmt: skip


def _legend_entry(points: Points) -> go.Scatter:
    """A trace without points: in the legend, points with values would have the colour of the first of them."""
    return go.Scatter(
        x=[None], y=[None], name=text(points.label), mode="lines+markers" if points.joined else "markers",
        marker=_marker(points), legendgroup=_group(points), **_line(points),
    )  # fmt: skip
