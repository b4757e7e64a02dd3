"""The exact partition that a piecewise affine network makes of a two-dimensional slice of its input space."""

from gnomon.regions._boundary_distance import boundary_distance
from gnomon.regions._decision_boundary import decision_boundary
from gnomon.regions._local_complexity import local_complexity
from gnomon.regions._migration import Migration, migration
from gnomon.regions._partition import Regions
from gnomon.regions._plane import Plane, plane_through
from gnomon.regions._polygons import Polygons
from gnomon.regions._slice_regions import slice_regions

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
