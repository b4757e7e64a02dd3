"""The exact partition that a piecewise affine network makes of a two-dimensional slice of its input space."""

from gnomon.regions.partition import Regions
from gnomon.regions.plane import Plane, plane_through
from gnomon.regions.slice_regions import slice_regions

__all__ = ["Plane", "Regions", "plane_through", "slice_regions"]
