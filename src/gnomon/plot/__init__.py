"""Figures: `figures` says what one shows, `static` draws it with matplotlib, `interactive` with plotly."""

from gnomon.plot._figures import Curves, Figure, ImageFrame, ImageRow, ImageSlider, Line, Mark, Panel
from gnomon.plot._region_map import Polylines, RegionFrame, RegionMap
from gnomon.plot._scatter import Points, Scatter, ScatterPanel
from gnomon.plot._space import Space, SpaceFaces, SpaceFrame, SpaceLines, SpacePoints

__all__ = [
    "Curves",
    "Figure",
    "ImageFrame",
    "ImageRow",
    "ImageSlider",
    "Line",
    "Mark",
    "Panel",
    "Points",
    "Polylines",
    "RegionFrame",
    "RegionMap",
    "Scatter",
    "ScatterPanel",
    "Space",
    "SpaceFaces",
    "SpaceFrame",
    "SpaceLines",
    "SpacePoints",
]
