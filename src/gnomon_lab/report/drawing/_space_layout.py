"""What both renderers of films in space share: legend, shapes, viewpoint. Pure."""

import numpy as np
import numpy.typing as npt

from gnomon_lab.figures import Space, SpaceMark, SpacePoints
from gnomon_lab.report.drawing._legend import kinds

# Plotly draws them in space as characters: its cross is thin, and its "x" is missing from many fonts.
SHAPES = (("o", "circle", 5), ("s", "square", 7), ("D", "diamond", 5))
"""As matplotlib and as plotly name them, and the size at which plotly draws them equally large."""
FACE_OPACITY = 0.28


def marks(space: Space) -> tuple[SpaceMark, ...]:
    """What the legend shows: the marks of all frames, the first of each kind, label and colour."""
    return kinds(mark for frame in space.frames for mark in frame.marks)


def shape(points: SpacePoints) -> tuple[str, str, int]:
    """The shape at the points' place, for matplotlib and for plotly, and its size there."""
    return SHAPES[points.colour % len(SHAPES)]


def towards(space: Space) -> npt.NDArray[np.floating]:
    """The direction from the middle to the eye, of length 1."""
    above, around = np.deg2rad(space.view)
    return np.array([np.cos(above) * np.cos(around), np.cos(above) * np.sin(around), np.sin(above)])
