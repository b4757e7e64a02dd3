"""Figures for a paper, drawn with matplotlib, which comes with the extra `plot`: histories, readings, regions, spectra.

Each function takes `ax`, the axes to draw into (default: those of a new figure), and returns the figure and its axes.
"""

from gnomon._extras import missing

try:
    import matplotlib  # noqa: F401
except Exception as cause:
    raise missing("gnomon.plot", "matplotlib", "plot", cause) from cause

from gnomon.plot._classes import classes
from gnomon.plot._histories import histories
from gnomon.plot._images import image_gap, images, mosaic
from gnomon.plot._kernel import kernel
from gnomon.plot._quantities import quantities
from gnomon.plot._regions import decision_boundary, regions
from gnomon.plot._similar_runs import similar_runs
from gnomon.plot._spectrum import spectrum

__all__ = [
    "classes",
    "decision_boundary",
    "histories",
    "image_gap",
    "images",
    "kernel",
    "mosaic",
    "quantities",
    "regions",
    "similar_runs",
    "spectrum",
]
