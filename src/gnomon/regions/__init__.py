"""The exact partition that a piecewise affine network makes of a two-dimensional slice of its input space."""

from gnomon.regions.boundary_distance import boundary_distance
from gnomon.regions.decision_boundary import decision_boundary
from gnomon.regions.local_complexity import local_complexity
from gnomon.regions.migration import Migration, migration
from gnomon.regions.partition import Regions
from gnomon.regions.plane import Plane, plane_through
from gnomon.regions.polygons import Polygons
from gnomon.regions.slice_regions import slice_regions

__all__ = [
    "Migration",
    "Plane",
    "Polygons",
    "Regions",
    "boundary_distance",
    "decision_boundary",
    "local_complexity",
    "migration",
    "plane_through",
    "slice_regions",
]
