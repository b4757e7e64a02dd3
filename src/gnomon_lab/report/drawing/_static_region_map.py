"""Region maps as matplotlib draws them: up to three frames side by side."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure as Drawing
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from gnomon_lab.figures import Corners, Points, Polylines, RegionFrame, RegionMap
from gnomon_lab.report.drawing import _layout, _region_layout, _scatter_layout
from gnomon_lab.report.drawing._matplotlib import (
    POINT,
    above_frames,
    canvas,
    colour_bar,
    draw_legend,
    frame_title,
    handle,
    line_style,
    marker_style,
    plain,
)

# Sizes in CSS pixels, as in `_layout`.
_MARGIN_LEFT, _MARGIN_RIGHT, _BETWEEN = 62, 24, 22
_TALLEST = 620


def draw_region_map(regions: RegionMap) -> Drawing:
    """Draws the frames side by side, and the colour bar."""
    (wide, tall), marks = _sides(regions), _region_layout.marks(regions)
    top = above_frames(marks)
    whole = top + round(tall) + _layout.X_AXIS + _scatter_layout.BAR_ROOM
    drawing = canvas(whole, regions.title)
    draw_legend(drawing, [handle(mark, _look(mark)) for mark in marks], whole, handlelength=2.0)
    bottom = (whole - top - tall) / whole
    for i, frame in enumerate(regions.still):
        left = _MARGIN_LEFT + i * (wide + _BETWEEN)
        axes = drawing.add_axes((left / _layout.WIDTH, bottom, wide / _layout.WIDTH, tall / whole))
        _draw_frame(axes, regions, frame)
        axes.set_xlabel(regions.x_label, labelpad=6, parse_math=False)
        if i == 0:
            axes.set_ylabel(regions.y_label, labelpad=6, parse_math=False)
        else:
            axes.tick_params(axis="y", labelleft=False)
    _draw_bar(drawing, regions, whole)
    return drawing


def _sides(regions: RegionMap) -> tuple[float, float]:
    """Width and height of each frame, of the shape of the box."""
    left, right, bottom, top = regions.box
    frames = len(regions.still)
    wide = (_layout.WIDTH - _MARGIN_LEFT - _MARGIN_RIGHT - (frames - 1) * _BETWEEN) / frames
    tall = min(wide * (top - bottom) / (right - left), _TALLEST)
    return tall * (right - left) / (top - bottom), tall


def _draw_frame(axes: Axes, regions: RegionMap, frame: RegionFrame) -> None:
    for level in _region_layout.levels(regions, frame):
        if level.polygons:
            joined = _joined(level.polygons)
            edge = (*(channel / 255 for channel in level.edge), _region_layout.EDGE_OPACITY)
            axes.add_patch(PathPatch(joined, facecolor=level.colour, edgecolor=edge, lw=_region_layout.EDGE * POINT))
    for lines in frame.lines:
        for line in lines.shapes:
            axes.plot(*line.T, **_look(lines), label=lines.label)
    for points in frame.points:
        axes.plot(points.x, points.y, **_look(points), label=points.label)
    left, right, bottom, top = regions.box
    axes.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    for axis in (axes.xaxis, axes.yaxis):
        plain(axis, 5)
    axes.tick_params(length=0)
    frame_title(axes, frame.label)


def _joined(polygons: tuple[Corners, ...]) -> Path:
    """One path with a closed part for each polygon."""
    corners = np.concatenate([np.vstack([polygon, polygon[:1]]) for polygon in polygons])
    codes = np.full(len(corners), Path.LINETO)
    ends = np.cumsum([len(polygon) + 1 for polygon in polygons])
    codes[ends - 1] = Path.CLOSEPOLY
    codes[[0, *ends[:-1]]] = Path.MOVETO
    return Path(corners, codes)


def _look(mark: Points | Polylines) -> dict[str, Any]:
    if isinstance(mark, Polylines):
        return line_style(mark, 1.3)
    return marker_style(_scatter_layout.shape(mark)[0], mark.colour, _scatter_layout.MARKER, 1.0)


def _draw_bar(drawing: Drawing, regions: RegionMap, whole: int) -> None:
    scale = ListedColormap(_region_layout.level_colours(regions))
    colours = ScalarMappable(Normalize(*_region_layout.bar_ends(regions)), scale)
    inner = _layout.WIDTH - _MARGIN_LEFT - _MARGIN_RIGHT
    bottom = _scatter_layout.BAR_ROOM - _scatter_layout.BAR_LABEL - _scatter_layout.BAR
    place = (_MARGIN_LEFT / _layout.WIDTH, bottom / whole, inner / 2 / _layout.WIDTH, _scatter_layout.BAR / whole)
    bar = colour_bar(drawing, colours, place, regions.value_label)
    ticks, labels = _region_layout.bar_ticks(regions)
    bar.set_ticks(list(ticks), labels=labels, parse_math=False)
