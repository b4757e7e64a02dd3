"""Films in space as plotly draws them: rotatable by hand, with a slider over the frames."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from gnomon.plot import style
from gnomon_lab.figures import Corners, Polylines, Space, SpaceFaces, SpaceFrame, SpaceMark, SpacePoints
from gnomon_lab.report.drawing import _layout, _legend, _space_layout
from gnomon_lab.report.drawing._plotly import below_legend, path, slider, text

_SIDE, _TALLEST, _BELOW, _SLIDER = 8, 600, 12, 108
# The distance of the eye from the centre of the box, whose diagonal is the square root of 3, and how much lower than
# the centre it looks: the titles of the axes are below.
_AWAY, _CENTRE = 1.95, -0.1
_LINE = 5
_DIGITS = 4
"""How many decimals of the longest axis are written."""


def interactive_space(space: Space) -> go.Figure:
    """Draws the frames, without the figure's title."""
    marks, several = _space_layout.marks(space), len(space.frames) > 1
    room = _layout.WIDTH - 2 * _SIDE
    plot = min(room, _TALLEST)
    layout = below_legend(
        "space", [mark.label for mark in marks], room, plot, _SIDE, _SIDE, _BELOW + several * _SLIDER,
        aspect=1, tallest_px=_TALLEST, title_px=0,
    )  # fmt: skip
    layout["scene"] = _scene(space)
    layout["legend"]["itemsizing"] = "constant"  # sizes in space are not in pixels
    low, high = space.box
    digits = _DIGITS - int(np.floor(np.log10((high - low).max())))
    shown = [_shown(frame, marks, digits) for frame in space.frames]
    traces = [data | _style(mark) for data, mark in zip(shown[0], marks, strict=True)]
    frames = []
    if several:
        layout |= slider([frame.label for frame in space.frames], _BELOW)
        places = list(range(len(marks)))
        frames = [go.Frame(name=str(k), data=data, traces=places) for k, data in enumerate(shown)]
    return go.Figure(traces, layout, frames=frames)


def _scene(space: Space) -> dict[str, Any]:
    low, high = space.box
    ratio = (high - low) * np.sqrt(3) / np.linalg.norm(high - low)
    words = (space.x_label, space.y_label, space.z_label)
    axes = zip("xyz", words, low.tolist(), high.tolist(), strict=True)
    return {f"{axis}axis": _axis(label, *ends) for axis, label, *ends in axes} | {
        "aspectmode": "manual", "aspectratio": dict(zip("xyz", ratio.tolist(), strict=True)),
        "camera": {"eye": dict(zip("xyz", (_AWAY * _space_layout.towards(space)).tolist(), strict=True)),
                   "center": {"x": 0, "y": 0, "z": _CENTRE}},
        "uirevision": "turned by hand", "dragmode": "turntable",
    }  # fmt: skip


def _axis(words: str, low: float, high: float) -> dict[str, Any]:
    return {
        "range": [low, high], "nticks": 6, "tickformat": ",~r", "gridcolor": style.GRID, "linecolor": style.AXIS,
        "showline": True, "zeroline": False, "showspikes": False, "ticks": "", "tickangle": 0, "tickfont": {"size": 11},
        "title": {"text": text(words), "font": {"size": 13}},
    }  # fmt: skip


def _shown(frame: SpaceFrame, kinds: tuple[SpaceMark, ...], digits: int) -> list[dict[str, Any]]:
    """A trace's data for each kind, equally many in every frame; numbers with so many decimals."""
    data = []
    for kind in kinds:
        alike = [mark for mark in frame.marks if _legend.key(mark) == _legend.key(kind)]
        shapes = [shape.astype(np.float64).round(digits) for mark in alike for shape in mark.shapes]
        data.append(_mesh(shapes) if isinstance(kind, SpaceFaces) else _path(shapes))
    return data


def _path(shapes: Sequence[Corners]) -> dict[str, Any]:
    x, y, z = path(shapes, 3)
    # A trace without data would leave the legend.
    return {"type": "scatter3d", "x": x or [None], "y": y or [None], "z": z or [None]}


def _mesh(faces: Sequence[Corners]) -> dict[str, Any]:
    """Each face as a fan of triangles about its first corner."""
    x, y, z = path(faces, 3)
    triangles = []
    first = 0
    for face in faces:
        triangles += [(first, first + corner, first + corner + 1) for corner in range(1, len(face) - 1)]
        first += len(face) + 1  # with the gap after it
    i, j, k = np.array(triangles, dtype=int).reshape(-1, 3).T.tolist()
    return {"type": "mesh3d", "x": x or [None], "y": y or [None], "z": z or [None], "i": i, "j": j, "k": k}


def _style(mark: SpaceMark) -> dict[str, Any]:
    colour, name = style.colour(mark.colour), text(mark.label)
    named: dict[str, Any] = {"name": name, "hoverinfo": "name", "showlegend": True}
    match mark:
        case SpacePoints():
            _, symbol, size = _space_layout.shape(mark)
            shape = {"symbol": symbol, "size": size, "color": colour, "opacity": 1}
            there = f"{name}<br>%{{x:.4~g}}, %{{y:.4~g}}, %{{z:.4~g}}<extra></extra>"
            return named | {"mode": "markers", "marker": shape | {"line": {"color": "white", "width": 1}},
                           "hovertemplate": there}  # fmt: skip
        case Polylines():
            dash = "dash" if mark.dashed else "solid"
            return named | {"mode": "lines", "line": {"color": colour, "width": _LINE, "dash": dash}}
        case SpaceFaces():
            light = {"ambient": 0.85, "diffuse": 0.3, "specular": 0, "fresnel": 0}
            return named | {"color": colour, "opacity": _space_layout.FACE_OPACITY, "flatshading": True,
                           "lighting": light}  # fmt: skip
