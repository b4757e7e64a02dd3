"""What draws figures for a run's page: with matplotlib as SVG, with plotly for turning and stepping through them."""

from gnomon_lab.report.drawing._interactive import interactive
from gnomon_lab.report.drawing._static import draw, save

__all__ = ["draw", "interactive", "save"]
