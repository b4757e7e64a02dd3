"""The linear regions of a network on a plane."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.errors import RangeError
from gnomon.measure.singular_values import singular_values
from gnomon.regions.plane import Plane
from gnomon.regions.polygons import Polygons, cross

OUTSIDE = -1
"""The label of an edge that lies on the box, and the region of a point beyond it."""
LAYER_BITS = 40
"""The label of an edge is the place of the layer that made it, times two to this power, plus the unit."""
POINTS = 2**22
"""Pairs of a point and a corner that are looked at together."""


@dataclass(frozen=True, eq=False)
class Regions:
    r"""The linear regions of a network in a part of a plane.

    In region i the network is $f(o + u e_1 + v e_2) = A_i\,(u, v)^\top + b_i$.

    Attributes:
        model: the network in float64.
        plane: the slice.
        polygons: the regions' corners, counter-clockwise, with what made each edge.
        slopes: $A_i$, the derivative along the plane, (r c 2).
        offsets: $b_i$, the affine map's value at the plane's origin, (r c).
        pattern: a hash, 64 bits, of the states of all units: equal in regions of one activation pattern, and in others
            with a chance of $2^{-64}$ a pair.
        layers: the names of the layers, by the number that `edges` gives.
        by_depth: how many regions the network has up to each bending layer, in the order of the layers.
    """

    model: nn.Module
    plane: Plane
    polygons: Polygons
    slopes: Float[Tensor, "r c 2"]
    offsets: Float[Tensor, "r c"]
    pattern: Int[Tensor, "r"]
    layers: tuple[str, ...]
    by_depth: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.pattern)

    @cached_property
    def areas(self) -> Float[Tensor, "r"]:
        """In the unit of the plane's directions; they sum to the box's area."""
        return self.polygons.areas()

    @cached_property
    def centroids(self) -> Float[Tensor, "r 2"]:
        """The centres of mass, in the plane's coordinates. Not the centroids of the spline theory, which are inputs."""
        return self.polygons.centroids()

    @cached_property
    @full_precision
    def norms(self) -> Float[Tensor, "r"]:
        """The Frobenius norm of the whole input Jacobian in each region, taken at its centre of mass."""
        with torch.no_grad():
            return torch.linalg.vector_norm(singular_values(self.model, self.plane.embed(self.centroids)), dim=1)

    def unit_of(self, labels: Int[Tensor, "e"]) -> tuple[Int[Tensor, "e"], Int[Tensor, "e"]]:
        """The layer, as a place in `layers`, and the unit that made edges of the polygons; -1 for the box's edges."""
        layer, unit = labels >> LAYER_BITS, labels & (2**LAYER_BITS - 1)
        return layer, torch.where(labels == OUTSIDE, OUTSIDE, unit)

    @full_precision
    def region_of(self, x: Float[Tensor, "n *d"]) -> Int[Tensor, "n"]:
        """The region in which each input of the plane lies, -1 outside of the box.

        Raises:
            RangeError: if an input does not lie in the plane, within 1e-6 of its distance from the plane's origin and
                the rounding of its dtype; or at NaN or infinity.
        """
        _checks.floating("region_of", x=x)
        _checks.finite("region_of", x=x)
        points = self.plane.project(x.double())
        off = torch.linalg.vector_norm((x.double() - self.plane.embed(points)).flatten(1), dim=1)
        reach = torch.linalg.vector_norm((x.double() - self.plane.origin.double()).flatten(1), dim=1)
        rounding = torch.finfo(x.dtype).eps * torch.linalg.vector_norm(x.double().flatten(1), dim=1)
        if (far := off > 1e-6 * reach + rounding).any():
            i = int(far.nonzero()[0])
            raise RangeError(
                f"region_of(x): expected inputs in the plane, got one {off[i]:.3g} away from it at index {i}. "
                f"Take a plane through it, or look at the nearest point, region_of_points(plane.project(x))."
            )
        return self.region_of_points(points)

    @full_precision
    def boundary_distance(self, points: Float[Tensor, "n 2"]) -> Float[Tensor, "n"]:
        """The distance in the plane's coordinates from each point to the boundary of its region; the box is none.

        Infinite where a region has no boundary but the box's, NaN outside of the box.
        """
        region = self.region_of_points(points)
        polygons = self.polygons[region.clamp_min(0)]
        start, sides = polygons.vertices, polygons.rolled() - polygons.vertices
        apart = points.to(start)[:, None] - start
        along = (apart * sides).sum(2) / sides.square().sum(2).clamp_min(torch.finfo(start.dtype).tiny)
        distance = torch.linalg.vector_norm(apart - along.clamp(0, 1)[..., None] * sides, dim=2)
        distance = distance.masked_fill(~polygons.valid | (polygons.labels == OUTSIDE), torch.inf).amin(1)
        return torch.where(region >= 0, distance, torch.nan)

    @full_precision
    def region_of_points(self, points: Float[Tensor, "n 2"]) -> Int[Tensor, "n"]:
        """The region in which each point of the plane lies, -1 outside of the box; on an edge one of its two.

        Cost: O(n corners).
        """
        start = self.polygons.vertices
        sides = self.polygons.rolled() - start
        length = torch.linalg.vector_norm(sides, dim=2)
        # Nearly coincident lines leave edges without length, which have no side.
        proper = self.polygons.valid & (length > 0)
        found = []
        for part in torch.split(points.to(start), max(1, POINTS // length.numel())):
            left = cross(sides, part[:, None, None] - start) / torch.where(proper, length, 1)
            inside = left.masked_fill(~proper, torch.inf).amin(2).masked_fill(~proper.any(1), -torch.inf)
            slack, region = inside.max(1)
            found.append(torch.where(slack >= -1e-12 * length.max(), region, OUTSIDE))
        return torch.cat(found)
