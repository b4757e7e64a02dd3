"""Region maps as plotly draws them: a slider over the frames, and one path for all regions of a colour."""

from collections.abc import Iterable
from typing import Any

import plotly.graph_objects as go

from gnomon.plot import _layout, _region_layout, _scatter_layout
from gnomon.plot._plotly import base, slider, text
from gnomon.plot.region_map import Corners, Polylines, RegionFrame, RegionMap
from gnomon.plot.scatter import Points

_LEFT, _RIGHT = 62, 26
_TALLEST, _SLIDER = 600, 120
Path = tuple[list[float | None], list[float | None]]
"""The coordinates of corners, None where the pen is lifted."""


def interactive_region_map(regions: RegionMap) -> go.Figure:
    """Draws the frames, without the figure's title."""
    room = _layout.WIDTH - _LEFT - _RIGHT  # plotly gives a legend no more
    left, right, low, high = regions.box
    plot = min(_TALLEST, round(room * (high - low) / (right - left)))
    stacked = _layout.PANEL_TITLE + plot
    below = _layout.X_AXIS + _scatter_layout.BAR_ROOM - _scatter_layout.BAR_LABEL
    several = len(regions.frames) > 1
    top, bottom = _region_layout.legend_px(regions, room), below + several * _SLIDER
    marks, entry_px = _region_layout.marks(regions), _region_layout.entry_px(regions)
    columns = _region_layout.legend_columns(regions, room)
    meta = {
        "kind": "regions",
        "entries": max(1, len(marks)),
        "entry_px": entry_px,
        "plot_px": stacked,
        "row_px": _layout.LEGEND_ROW,
        # What a page needs to draw it at another width.
        "aspect": (high - low) / (right - left),
        "tallest_px": _TALLEST,
        "title_px": _layout.PANEL_TITLE,
        "axis_px": _layout.X_AXIS,
    }
    layout = base(top + stacked + bottom, meta, l=_LEFT, r=_RIGHT, t=top, b=bottom)
    layout |= {"hovermode": "closest", "hoverlabel": {"namelength": -1}, "showlegend": True}
    layout["legend"] = {
        "orientation": "h", "x": 0, "xref": "container", "xanchor": "left", "y": 1, "yref": "container",
        "yanchor": "top", "bgcolor": "rgba(0,0,0,0)", "entrywidthmode": "pixels", "itemsizing": "trace",
        "entrywidth": max(entry_px, room // (columns + 1) + 1) - 40, "tracegroupgap": 0,
        "itemclick": False, "itemdoubleclick": False,
    }  # fmt: skip
    layout["annotations"] = [_title(regions)]
    layout["xaxis"] = _axis(regions.x_label, (left, right), "left", 10)
    layout["yaxis"] = _axis(regions.y_label, (low, high), "top", 6) | {
        "scaleanchor": "x",
        "domain": [0, plot / stacked],
    }
    layout["coloraxis"] = _colours(regions, stacked)
    moving, bar = _traces(regions), {"color": [0.0], "coloraxis": "coloraxis"}
    # Traces of no points, which stay: the frames' own come and go.
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
    """Above the axes what the colours are."""
    return {
        "text": f"<b>{text(regions.value_label)}</b>", "showarrow": False, "font": {"size": 14}, "borderpad": 0,
        "xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": 1, "yanchor": "top",
    }  # fmt: skip


def _axis(words: str, ends: tuple[float, float], towards: str, standoff: int) -> dict[str, Any]:
    return {
        "range": list(ends), "constrain": "domain", "constraintoward": towards, "tickformat": ",~r", "nticks": 7,
        "showgrid": False, "zeroline": False, "showline": False, "ticks": "", "tickangle": 0,
        "title": {"text": text(words), "standoff": standoff, "font": {"size": 13}},
    }  # fmt: skip


def _paths(regions: RegionMap, frame: RegionFrame) -> list[Path]:
    """What moves, as many paths in every frame: a path for each colour, then one for each kind of lines and points."""
    paths = [_path(level.polygons, closed=True) for level in _region_layout.levels(regions, frame)]
    for kind in _region_layout.marks(regions):
        if isinstance(kind, Polylines):
            paths.append(_path(line for mark in frame.lines if _same(mark, kind) for line in mark.lines))
        else:
            points = [mark for mark in frame.points if _same(mark, kind)]
            paths.append(([x for mark in points for x in mark.x], [y for mark in points for y in mark.y]))
    return paths


def _same(mark: Polylines | Points, kind: Polylines | Points) -> bool:
    return (mark.label, mark.colour) == (kind.label, kind.colour)


def _path(shapes: Iterable[Corners], *, closed: bool = False) -> Path:
    """All shapes as one path, with a gap behind each."""
    x: list[float | None] = []
    y: list[float | None] = []
    for corners in shapes:
        for path, numbers in zip((x, y), corners.T.tolist(), strict=True):
            path += [*numbers, *(numbers[:1] if closed else ()), None]
    return x, y


def _traces(regions: RegionMap) -> list[go.Scatter]:
    """The paths of the first frame, with how they are drawn."""
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
    colour, said = _layout.colour(mark.colour), {"name": text(mark.label), "hoverinfo": "name"}
    if isinstance(mark, Polylines):
        dash = "5px,3px" if mark.dashed else "solid"
        return said | {"mode": "lines", "line": {"color": colour, "width": 1.8, "dash": dash}}
    shape = {"size": _scatter_layout.MARKER + 2, "symbol": _scatter_layout.shape(mark)[1]}
    return said | {"mode": "markers", "marker": shape | {"color": colour, "line": {"color": "white", "width": 1.2}}}


def _colours(regions: RegionMap, stacked: int) -> dict[str, Any]:
    """The colour scale in steps, and its bar."""
    (low, high), (places, words) = _region_layout.bar_ends(regions), _region_layout.bar_ticks(regions)
    bar = {
        "orientation": "h", "thickness": _scatter_layout.BAR, "outlinewidth": 0, "ticks": "", "tickangle": 0,
        "tickvals": places, "ticktext": [text(word) for word in words],
        "x": 0, "xanchor": "left", "xpad": 0, "len": 0.5, "y": -_layout.X_AXIS / stacked, "yanchor": "top", "ypad": 0,
    }  # fmt: skip
    colours = _region_layout.level_colours(regions)
    # Each colour holds from one end of its level to the other.
    scale = [[(i + side) / len(colours), colour] for i, colour in enumerate(colours) for side in (0, 1)]
    return {"cmin": low, "cmax": high, "colorscale": scale, "colorbar": bar}
