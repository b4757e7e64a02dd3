"""The linear regions of a network on a plane."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from gnomon import _checks
from gnomon._budget import budget_of
from gnomon._precision import full_precision
from gnomon.errors import RangeError
from gnomon.measure import singular_values
from gnomon.regions._boundary_distance import boundary_distance
from gnomon.regions._plane import Plane, require_coordinates
from gnomon.regions._polygons import Polygons, cross

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OUTSIDE = -1
"""The label of an edge that lies on the box, and the region of a point beyond it."""
LAYER_BITS = 40
"""The label of an edge is the place of the layer that made it, times two to this power, plus the unit."""
PAIR, CORNER = 64, 256
"""Bytes per pair of a point and a region, and, where the region's bounding box holds the point, per corner."""


@dataclass(frozen=True, eq=False)
class Regions:
    r"""The linear regions of a network in a part of a plane.

    In region i the network is $f(o + u e_1 + v e_2) = A_i\,(u, v)^\top + b_i$.

    Attributes:
        model: the network in float64.
        plane: the slice.
        box: the corners of the part of the plane, counter-clockwise, (v 2).
        polygons: the regions' corners, counter-clockwise, with what made each edge.
        slopes: $A_i$, the derivative along the plane, (r c 2).
        offsets: $b_i$, the affine map's value at the plane's origin, (r c).
        pattern: a hash of 64 bits of the states of all units: equal in regions with the same activation pattern, and in
            others with probability $2^{-64}$ per pair.
        layers: the names of the layers, in the order in which the labels of the polygons' edges number them.
        by_depth: how many regions the network has up to each bending layer, in the order of the layers.
    """

    model: nn.Module
    plane: Plane
    box: Float[Tensor, "v 2"]
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
        """The areas, in the unit of the plane's directions; they sum to the box's, but for what is too thin."""
        return self.polygons.areas()

    @cached_property
    def centroids(self) -> Float[Tensor, "r 2"]:
        """The centres of mass, in the plane's coordinates. Not the centroids of the spline theory, which are inputs."""
        return self.polygons.centroids()

    @cached_property
    @full_precision
    def norms(self) -> Float[Tensor, "r"]:
        """The Frobenius norm of the complete input Jacobian in each region, computed at its centre of mass."""
        with torch.no_grad():
            return torch.linalg.vector_norm(singular_values(self.model, self.plane.embed(self.centroids)), dim=1)

    def decision_boundary(self) -> list[Float[Tensor, "s 2"]]:
        """`gnomon.regions.decision_boundary` of these regions: the lines on which the predicted class changes."""
        from gnomon.regions._decision_boundary import decision_boundary

        return decision_boundary(self)

    def plot(
        self,
        values: Float[Tensor, "r"] | None = None,
        *,
        ax: "Axes | None" = None,
        label: str = "",
        log_values: bool = False,
    ) -> "tuple[Figure, Axes]":
        """Draws the regions with `gnomon.plot.regions`; see there.

        Raises:
            MissingExtraError: if matplotlib is not installed.
        """
        from gnomon import plot

        return plot.regions(self, values, ax=ax, label=label, log_values=log_values)

    def unit_of(self, labels: Int[Tensor, "e"]) -> tuple[Int[Tensor, "e"], Int[Tensor, "e"]]:
        """The layer, as a place in `layers`, and the unit that made edges of the polygons; -1 for the box's edges."""
        layer, unit = labels >> LAYER_BITS, labels & (2**LAYER_BITS - 1)
        return layer, torch.where(labels == OUTSIDE, OUTSIDE, unit)

    @full_precision
    def region_of(self, x: Float[Tensor, "n *d"], *, memory: float | int | None = None) -> Int[Tensor, "n"]:
        """The region in which each input of the plane lies, -1 outside of the box; `memory` as in `region_of_points`.

        Raises:
            ShapeError: if the inputs are not of the plane's shape.
            RangeError: if an input does not lie in the plane, to within 1e-6 of its distance from the plane's origin
                plus the rounding of its dtype; or at NaN or infinity.
        """
        _checks.one_device(plane=self.plane.origin, x=x)
        self.plane.require_inputs(x)
        points = self.plane.project(x.double())
        off = torch.linalg.vector_norm((x.double() - self.plane.embed(points)).flatten(1), dim=1)
        reach = torch.linalg.vector_norm((x.double() - self.plane.origin.double()).flatten(1), dim=1)
        rounding = torch.finfo(x.dtype).eps * torch.linalg.vector_norm(x.double().flatten(1), dim=1)
        if (far := off > 1e-6 * reach + rounding).any():
            i = int(far.nonzero()[0])
            raise RangeError(
                "x",
                "inputs in the plane",
                f"one {off[i]:.3g} away from it at index {i}",
                "Take a plane through it, or look at the nearest point, region_of_points(plane.project(x)).",
            )
        return self.region_of_points(points, memory=memory)

    @full_precision
    def boundary_distance(
        self, points: Float[Tensor, "n 2"], *, memory: float | int | None = None
    ) -> Float[Tensor, "n"]:
        """The distance in the plane's coordinates from each point to the boundary of its region; the box is not one.

        Where the box is nearer than what the region has of a boundary inside it, the network is followed beyond, as by
        `gnomon.regions.boundary_distance` of the plane's coordinates. Infinite where a region has no boundary in the
        plane, NaN outside of the box; without a graph. `memory` and errors as in `region_of_points`.
        """
        require_coordinates(points)
        _checks.finite(points=points)
        points = points.detach().to(self.polygons.vertices)
        region = self.region_of_points(points, memory=memory)
        found = [points.new_empty(2, 0)]
        for some in torch.split(torch.arange(len(points), device=region.device), self._fitting(memory)):
            polygons = self.polygons[region[some].clamp_min(0)]
            start, sides = polygons.vertices, polygons.rolled() - polygons.vertices
            apart = points[some, None] - start
            along = (apart * sides).sum(2) / sides.square().sum(2).clamp_min(torch.finfo(start.dtype).tiny)
            distance = torch.linalg.vector_norm(apart - along.clamp(0, 1)[..., None] * sides, dim=2)
            on_box = polygons.labels == OUTSIDE
            kinds = (distance.masked_fill(~polygons.valid | other, torch.inf).amin(1) for other in (on_box, ~on_box))
            found.append(torch.stack([*kinds]))
        distance, to_box = torch.cat(found, 1)
        beyond = (region >= 0) & (to_box < distance)
        if beyond.any():
            distance[beyond] = boundary_distance(_AlongPlane(self.model, self.plane), points[beyond], memory=memory)
        return torch.where(region >= 0, distance, torch.nan)

    @full_precision
    def region_of_points(self, points: Float[Tensor, "n 2"], *, memory: float | int | None = None) -> Int[Tensor, "n"]:
        """The region in which each point of the plane lies, -1 outside of the box.

        On an edge it is one of the two, and in a strip that was too thin to keep the nearest.

        Args:
            points: in the plane's coordinates.
            memory: bytes to use beyond the result and a few numbers per region; default: 512 MiB.

        Raises:
            ShapeError: if the points are not (n, 2).
            RangeError: at NaN or infinity, or if `memory` is not positive.
        Cost: O(n regions), and O(corners) for each region whose bounding box holds the point.
        """
        require_coordinates(points)
        _checks.finite(points=points)
        points = points.to(self.polygons.vertices)
        rounding, fitting = 1e-12 * self.polygons.vertices.abs().amax(), self._fitting(memory)
        found = self._deepest(points, rounding, fitting)
        inside = torch.cat([self._in_box(part) for part in torch.split(points, fitting)])
        # Strips too thin to keep leave gaps, whose points belong to the nearest region.
        while (lost := inside & (found == OUTSIDE)).any():
            rounding = 8 * rounding
            found[lost] = self._deepest(points[lost], rounding, fitting)
        return found

    def _deepest(self, points: Float[Tensor, "n 2"], rounding: Float[Tensor, ""], fitting: int) -> Int[Tensor, "n"]:
        """The region in which each point is deepest, -1 if it is further than rounding from all of them."""
        low, high = self.polygons.vertices.amin(1) - rounding, self.polygons.vertices.amax(1) + rounding
        together = max(1, fitting * CORNER * self.polygons.labels.shape[1] // (PAIR * len(self)))
        found = [torch.empty(0, dtype=torch.int64, device=low.device)]
        for part in torch.split(points, together):
            beside = [(part[:, None, i] >= low[:, i]) & (part[:, None, i] <= high[:, i]) for i in (0, 1)]
            owner, region = (beside[0] & beside[1]).nonzero(as_tuple=True)
            pairs = zip(torch.split(owner, fitting), torch.split(region, fitting), strict=True)
            depth = torch.cat([part.new_empty(0), *(self._depth(part[i], j) for i, j in pairs)])
            deepest = part.new_full((len(part),), -torch.inf).scatter_reduce(0, owner, depth, "amax")
            # The first of the regions in which it is equally deep.
            first = depth == deepest[owner]
            nearest = region.new_full((len(part),), len(self)).scatter_reduce(0, owner[first], region[first], "amin")
            found.append(torch.where(deepest >= -rounding, nearest, OUTSIDE))
        return torch.cat(found)

    def _in_box(self, points: Float[Tensor, "n 2"]) -> Bool[Tensor, "n"]:
        """Whether each point is in the box."""
        return (cross(self.box.roll(-1, 0) - self.box, points[:, None] - self.box) >= 0).all(1)

    def _fitting(self, memory: float | int | None) -> int:
        """How many pairs of a point and a region's corners take half of the budget."""
        budget = budget_of(memory)
        return max(1, budget // (2 * CORNER * self.polygons.labels.shape[1]))

    def _depth(self, points: Float[Tensor, "m 2"], region: Int[Tensor, "m"]) -> Float[Tensor, "m"]:
        """How far each point is inside its given region: from the nearest of the lines along the region's sides."""
        polygons = self.polygons[region]
        sides = polygons.rolled() - polygons.vertices
        length = torch.linalg.vector_norm(sides, dim=2)
        # Nearly coincident lines leave edges without length, which have no side.
        proper = polygons.valid & (length > 0)
        left = cross(sides, points[:, None] - polygons.vertices) / torch.where(proper, length, 1)
        return left.masked_fill(~proper, torch.inf).amin(1).masked_fill(~proper.any(1), -torch.inf)


class _AlongPlane(nn.Module):
    """A network as a function of a plane's coordinates."""

    def __init__(self, model: nn.Module, plane: Plane) -> None:
        super().__init__()
        self.model, self.plane = model, plane

    def forward(self, points: Float[Tensor, "n 2"]) -> Tensor:
        """The outputs at these coordinates."""
        return self.model(self.plane.embed(points))
