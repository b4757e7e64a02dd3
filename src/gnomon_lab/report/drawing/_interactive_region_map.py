"""Region maps as plotly draws them: a slider over the frames, and one path for all regions of a colour."""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from gnomon.plot import style
from gnomon_lab.figures import Points, Polylines, RegionFrame, RegionMap
from gnomon_lab.report.drawing import _layout, _legend, _region_layout, _scatter_layout
from gnomon_lab.report.drawing._plotly import axis_title, below_legend, colour_axis, path, slider, text

_LEFT, _RIGHT = 62, 26
_TALLEST, _SLIDER = 600, 120
Path = list[list[float | None]]
"""The two coordinates of corners, None where the pen is lifted."""


def interactive_region_map(regions: RegionMap) -> go.Figure:
    """Draws the frames, without the figure's title."""
    left, right, low, high = regions.box
    aspect = (high - low) / (right - left)
    room = _layout.WIDTH - _LEFT - _RIGHT  # plotly gives a legend no more room
    plot = min(_TALLEST, round(room * (high - low) / (right - left)))
    stacked = _layout.PANEL_TITLE + plot
    below = _layout.X_AXIS + _scatter_layout.BAR_ROOM - _scatter_layout.BAR_LABEL
    several = len(regions.frames) > 1
    marks = _region_layout.marks(regions)
    layout = below_legend(
        "regions", [mark.label for mark in marks], room, stacked, _LEFT, _RIGHT, below + several * _SLIDER,
        aspect=aspect, tallest_px=_TALLEST, title_px=_layout.PANEL_TITLE, axis_px=_layout.X_AXIS,
    )  # fmt: skip
    layout["legend"] |= {"itemclick": False, "itemdoubleclick": False}
    layout["annotations"] = [_title(regions)]
    layout["xaxis"] = _axis(regions.x_label, (left, right), "left", 10)
    layout["yaxis"] = _axis(regions.y_label, (low, high), "top", 6) | {
        "scaleanchor": "x",
        "domain": [0, plot / stacked],
    }
    layout["coloraxis"] = _colours(regions, stacked)
    moving, bar = _traces(regions), {"color": [0.0], "coloraxis": "coloraxis"}
    # Traces without points, which stay: those of the frames come and go.
    still = [go.Scatter(x=[None], y=[None], **_mark(mark)) for mark in marks]
    still.append(go.Scatter(x=[None], y=[None], mode="markers", marker=bar, showlegend=False))
    frames = []
    if several:
        layout |= slider([frame.label for frame in regions.frames], below)
        places = list(range(len(moving)))
        frames = [
            go.Frame(name=str(k), data=[{"type": "scatter", "x": x, "y": y} for x, y in paths], traces=places)
            for k, paths in enumerate(_paths(regions, frame) for frame in regions.frames)
        ]
    return go.Figure([*moving, *still], layout, frames=frames)


def _title(regions: RegionMap) -> dict[str, Any]:
    """The title above the axes: what the colours are."""
    return {
        "text": f"<b>{text(regions.value_label)}</b>", "showarrow": False, "font": {"size": 14}, "borderpad": 0,
        "xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": 1, "yanchor": "top",
    }  # fmt: skip


def _axis(words: str, ends: tuple[float, float], towards: str, standoff: int) -> dict[str, Any]:
    return {
        "range": list(ends), "constrain": "domain", "constraintoward": towards, "tickformat": ",~r", "nticks": 7,
        "showgrid": False, "zeroline": False, "showline": False, "ticks": "", "tickangle": 0,
        "title": axis_title(words, standoff),
    }  # fmt: skip


def _paths(regions: RegionMap, frame: RegionFrame) -> list[Path]:
    """What moves, equally many paths in every frame: one for each colour, then one per kind of lines and points."""
    closed = [[np.vstack([p, p[:1]]) for p in level.polygons] for level in _region_layout.levels(regions, frame)]
    paths = [path(polygons, 2) for polygons in closed]
    for kind in _region_layout.marks(regions):
        if isinstance(kind, Polylines):
            lines = [mark for mark in frame.lines if _legend.key(mark) == _legend.key(kind)]
            paths.append(path((line for mark in lines for line in mark.shapes), 2))
        else:
            points = [mark for mark in frame.points if _legend.key(mark) == _legend.key(kind)]
            paths.append([[x for mark in points for x in mark.x], [y for mark in points for y in mark.y]])
    return paths


def _traces(regions: RegionMap) -> list[go.Scatter]:
    """The paths of the first frame, with their styles."""
    frame = regions.frames[0]
    styles = [_fill(regions, level) for level in _region_layout.levels(regions, frame)]
    styles += [_mark(mark) for mark in _region_layout.marks(regions)]
    paths = _paths(regions, frame)
    return [go.Scatter(x=x, y=y, showlegend=False, **style) for (x, y), style in zip(paths, styles, strict=True)]


def _fill(regions: RegionMap, level: _region_layout.Level) -> dict[str, Any]:
    return {
        "mode": "lines", "fill": "toself", "fillcolor": level.colour, "hoveron": "fills",
        "line": {"color": f"rgba{(*level.edge, _region_layout.EDGE_OPACITY)}", "width": _region_layout.EDGE,
                 "simplify": False},  # or small regions become holes
        "name": f"{text(regions.value_label)}: {text(level.words)}", "hoverinfo": "name",
    }  # fmt: skip


def _mark(mark: Polylines | Points) -> dict[str, Any]:
    colour, named = style.colour(mark.colour), {"name": text(mark.label), "hoverinfo": "name"}
    if isinstance(mark, Polylines):
        dash = "5px,3px" if mark.dashed else "solid"
        return named | {"mode": "lines", "line": {"color": colour, "width": 1.8, "dash": dash}}
    shape = {"size": _scatter_layout.MARKER + 2, "symbol": _scatter_layout.shape(mark)[1]}
    return named | {"mode": "markers", "marker": shape | {"color": colour, "line": {"color": "white", "width": 1.2}}}


def _colours(regions: RegionMap, stacked: int) -> dict[str, Any]:
    """The colour scale in steps, and its bar."""
    places, words = _region_layout.bar_ticks(regions)
    colours = _region_layout.level_colours(regions)
    # Each colour holds from one end of its level to the other.
    scale = [((i + side) / len(colours), colour) for i, colour in enumerate(colours) for side in (0, 1)]
    ticks = {"tickvals": places, "ticktext": [text(word) for word in words]}
    return colour_axis(_region_layout.bar_ends(regions), scale, -_layout.X_AXIS / stacked, **ticks)
