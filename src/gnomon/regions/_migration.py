"""How linear regions moved between two moments of training."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.errors import RangeError
from gnomon.regions._partition import Regions
from gnomon.regions._plane import require_coordinates


@dataclass(frozen=True, eq=False)
class Migration:
    """What happened to the regions around points of a plane.

    Attributes:
        distance_before: from each point to the boundary of its region, in the plane's coordinates.
        distance_after: the same, later.
        area_before: of the region around each point, as far as it lies in the box.
        area_after: the same, later.
    """

    distance_before: Float[Tensor, "n"]
    distance_after: Float[Tensor, "n"]
    area_before: Float[Tensor, "n"]
    area_after: Float[Tensor, "n"]


@full_precision
def migration(before: Regions, after: Regions, points: Float[Tensor, "n 2"]) -> Migration:
    """How far the regions' boundaries moved away from points, between two slices by one plane and box.

    Reading:
        Low, high: More after than before: the regions around the points have grown.
        Generalising: Says little: on digits 0.88 times the area at initialisation in a network that generalises, after
            1.9 in between, and 0.66 in one that memorised.
        Misleads: Few regions decide it: it is noisy. They end where any unit bends, even where its bend does not reach
            the outputs, in front of a max-pool or of dead units.

    As a network groks its regions leave the data for the decision boundary: around the samples distances and areas
    grow.

    Source:
        After the region migration of Humayun et al., arXiv:2402.15555.
    Args:
        before: the regions at the earlier checkpoint.
        after: the regions at the later one, in the same box of the same plane.
        points: in the plane's coordinates, `plane.project(x)` for inputs.
    Returns:
        For each point its distance from the boundary of its region, and the region's area, before and after: at least
        0, in the plane's coordinates, in float64. Areas end at the box; for distances see
        `Regions.boundary_distance`.
    Raises:
        ShapeError: if the points are not (n, 2).
        RangeError: at NaN or infinity, if the planes or the boxes differ or are on different devices, or a point lies
            outside of the box.
    """
    require_coordinates(points)
    _checks.finite(points=points)
    _checks.one_device(before=before.plane.origin, after=after.plane.origin)
    same = torch.equal(before.plane.origin, after.plane.origin)
    if not (same and torch.equal(before.plane.directions, after.plane.directions)):
        raise RangeError("after", "the plane of `before`", "another", "Slice both by one plane.")
    # The corners in one order, wherever they begin.
    if not torch.equal(torch.unique(before.box, dim=0), torch.unique(after.box, dim=0)):
        raise RangeError("after", "the box of `before`", "another", "Slice both in one box.")
    where = [regions.region_of_points(points) for regions in (before, after)]
    outside = (where[0] < 0) | (where[1] < 0)
    if outside.any():
        raise RangeError(
            "points",
            "points inside the box",
            f"one outside at index {int(outside.nonzero()[0])}",
            "Take a larger box.",
        )
    return Migration(
        before.boundary_distance(points),
        after.boundary_distance(points),
        before.areas[where[0]],
        after.areas[where[1]],
    )
