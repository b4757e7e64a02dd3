"""What the figures of a page show, as plain data: nothing here draws, and both renderers draw the same."""

from gnomon_lab.figures._curves import Curves, Line, Mark, Panel
from gnomon_lab.figures._images import ImageFrame, ImageRow, ImageSlider
from gnomon_lab.figures._region_map import RegionFrame, RegionMap
from gnomon_lab.figures._scatter import Points, Scatter, ScatterPanel
from gnomon_lab.figures._shapes import Corners, Polylines, SpaceFaces, SpacePoints
from gnomon_lab.figures._space import Space, SpaceFrame, SpaceMark

Figure = Curves | ImageSlider | Scatter | RegionMap | Space

__all__ = [
    "Corners",
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
    "SpaceMark",
    "SpacePoints",
]
