"""Films in space as matplotlib draws them: up to three frames side by side."""

from typing import Any

from matplotlib.colors import to_rgba
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from mpl_toolkits.mplot3d import Axes3D
from mpl_toolkits.mplot3d.art3d import Poly3DCollection

from gnomon.plot import style
from gnomon_lab.figures import Polylines, Space, SpaceFaces, SpaceFrame, SpaceMark, SpacePoints
from gnomon_lab.report.drawing import _layout, _space_layout
from gnomon_lab.report.drawing._matplotlib import (
    above_frames,
    canvas,
    draw_legend,
    frame_title,
    handle,
    line_style,
    marker_style,
    plain,
)

# Sizes in CSS pixels, as in `_layout`.
_SIDE, _TALLEST = 16, 560
_MARKER, _LABELS = 7, 8.5
# For each square: how large the box is, how far it is moved to the left to make room for the third axis' title, and
# how much of the height is used.
_ZOOM, _ASIDE, _TALL = 0.93, 0.06, 0.92


def draw_space(space: Space) -> Drawing:
    """Draws the frames side by side."""
    side, marks = _plot(space), _space_layout.marks(space)
    whole = above_frames(marks) + round(_TALL * side)
    drawing = canvas(whole, space.title)
    handles = [_handle(mark) for mark in marks]
    draw_legend(drawing, handles, whole, handlelength=2.0)
    room = (_layout.WIDTH - 2 * _SIDE) / len(space.still)
    for i, frame in enumerate(space.still):
        left = _SIDE + i * room + (room - side) / 2 - _ASIDE * side
        place = (left / _layout.WIDTH, 0, side / _layout.WIDTH, side / whole)
        _draw_frame(drawing.add_axes(place, projection="3d"), space, frame)
    return drawing


def _plot(space: Space) -> float | int:
    """The side of each frame's square."""
    return min((_layout.WIDTH - 2 * _SIDE) / len(space.still), _TALLEST)


def _draw_frame(axes: Axes3D, space: Space, frame: SpaceFrame) -> None:
    for mark in frame.marks:
        if isinstance(mark, SpaceFaces):
            axes.add_collection3d(Poly3DCollection(mark.shapes, facecolor=_face(mark), edgecolor="none"))
        else:
            for shape in mark.shapes:
                axes.plot(*shape.T, **_look(mark), label=mark.label)
    low, high = space.box
    axes.patch.set_visible(False)
    axes.set_box_aspect(high - low, zoom=_ZOOM)
    axes.view_init(*space.view)
    words = (space.x_label, space.y_label, space.z_label)
    for name, label, *ends in zip("xyz", words, low.tolist(), high.tolist(), strict=True):
        axis = getattr(axes, f"{name}axis")
        axes.set(**{f"{name}lim": ends})
        plain(axis, 4)
        axis.set_label_text(label, size=9, parse_math=False)
        axis.labelpad = -5
        axis.set_pane_color((1, 1, 1, 0))
        axis._axinfo["grid"] |= {"color": style.GRID, "linewidth": 0.8}  # there is no public way
    axes.tick_params(labelsize=_LABELS, pad=-2)
    frame_title(axes, frame.label, x=_ASIDE, y=_TALL)


def _look(mark: SpacePoints | Polylines) -> dict[str, Any]:
    if isinstance(mark, Polylines):
        return line_style(mark, 1.6)
    return marker_style(_space_layout.shape(mark)[0], mark.colour, _MARKER, 0.6)


def _face(faces: SpaceFaces) -> tuple[float, float, float, float]:
    return to_rgba(style.colour(faces.colour), _space_layout.FACE_OPACITY)


def _handle(mark: SpaceMark) -> Line2D | Patch:
    if isinstance(mark, SpaceFaces):
        return Patch(facecolor=_face(mark), label=mark.label)
    return handle(mark, _look(mark))
