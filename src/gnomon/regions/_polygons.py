"""Convex polygons as arrays, and cutting many of them at once, each by its own line."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Polygons:
    """Convex polygons in the plane, vertices counter-clockwise, in rows padded to the longest.

    Attributes:
        vertices: (p v 2); beyond a polygon's `count` its first vertex is repeated, so that sums and signs need no mask.
        count: the number of vertices, (p).
        labels: (p v); what lies on the edge from each vertex to the next.
    """

    vertices: Float[Tensor, "p v 2"]
    count: Int[Tensor, "p"]
    labels: Int[Tensor, "p v"]

    def __len__(self) -> int:
        return len(self.count)

    def __getitem__(self, rows: Tensor | slice) -> "Polygons":
        """Some of the polygons."""
        return Polygons(self.vertices[rows], self.count[rows], self.labels[rows])

    @property
    def valid(self) -> Bool[Tensor, "p v"]:
        """Which vertices are real, not padding."""
        return torch.arange(self.vertices.shape[1], device=self.count.device) < self.count[:, None]

    def following(self) -> Int[Tensor, "p v"]:
        """The place of the vertex that follows each vertex."""
        places = torch.arange(self.vertices.shape[1], device=self.count.device).expand(len(self), -1)
        return torch.where(places + 1 < self.count[:, None], places + 1, 0)

    def rolled(self) -> Float[Tensor, "p v 2"]:
        """The vertex that follows each vertex."""
        return self.vertices.gather(1, self.following()[..., None].expand(-1, -1, 2))

    def areas(self) -> Float[Tensor, "p"]:
        """By the shoelace formula around the first vertex, so that small polygons far out keep their digits."""
        first = self.vertices[:, :1]
        one, next_one = self.vertices - first, self.rolled() - first
        return 0.5 * cross(one, next_one).sum(1)

    def centroids(self) -> Float[Tensor, "p 2"]:
        """Centres of mass; of a polygon without area, the mean of its vertices."""
        first = self.vertices[:, :1]
        one, next_one = self.vertices - first, self.rolled() - first
        weights = cross(one, next_one)
        total = weights.sum(1, keepdim=True)
        moment = ((one + next_one) * weights[..., None]).sum(1) / (3 * torch.where(total > 0, total, 1))
        mean = one.sum(1) / self.count[:, None]
        return first[:, 0] + torch.where(total > 0, moment, mean)


def cross(one: Float[Tensor, "... 2"], other: Float[Tensor, "... 2"]) -> Float[Tensor, "..."]:
    """The area that two vectors span, positive if the second lies to the left of the first."""
    return one[..., 0] * other[..., 1] - one[..., 1] * other[..., 0]


def join(parts: list[Polygons]) -> Polygons:
    """All polygons together, padded alike."""
    parts = [part for part in parts if len(part)] or parts[:1]
    widest = max(part.vertices.shape[1] for part in parts)

    def padded(tensor: Tensor) -> Tensor:
        missing = widest - tensor.shape[1]
        return torch.cat([tensor, tensor[:, :1].expand(-1, missing, *tensor.shape[2:])], 1) if missing else tensor

    return Polygons(
        torch.cat([padded(part.vertices) for part in parts]),
        torch.cat([part.count for part in parts]),
        torch.cat([padded(part.labels) for part in parts]),
    )


def halve(polygons: Polygons, heights: Float[Tensor, "p v"], labels: Int[Tensor, "p"]) -> tuple[Polygons, Polygons]:
    """The parts of each polygon where a function, affine in the plane, is at least 0, and where it is at most 0.

    Args:
        polygons: what to cut; each has a vertex where the function is positive and one where it is negative.
        heights: the function's values at the vertices, exactly 0 where a vertex lies on its line.
        labels: the label of each new edge.
    """
    beyond = heights.gather(1, polygons.following())
    crosses = heights * beyond < 0
    share = torch.where(crosses, heights / torch.where(crosses, heights - beyond, 1), 0)
    crossing = torch.lerp(polygons.vertices, polygons.rolled(), share[..., None])
    points = torch.stack([polygons.vertices, crossing], 2).flatten(1, 2)

    def side(heights: Tensor, beyond: Tensor) -> Polygons:
        kept = torch.stack([polygons.valid & (heights >= 0), crosses], 2).flatten(1, 2)
        # The cut begins where the boundary leaves this side: at a crossing, or at a vertex on the line.
        leaves = torch.stack([(heights == 0) & (beyond < 0), crosses & (heights > 0)], 2).flatten(1, 2)
        names = torch.where(leaves, labels[:, None], polygons.labels.repeat_interleave(2, 1))
        return _gathered(points, kept, names)

    return side(heights, beyond), side(-heights, -beyond)


def _gathered(points: Float[Tensor, "p q 2"], kept: Bool[Tensor, "p q"], labels: Int[Tensor, "p q"]) -> Polygons:
    """Polygons of the points that are kept."""
    count = kept.sum(1)
    width = int(count.max()) if len(count) else 0
    rows, places = kept.nonzero(as_tuple=True)
    slots = (kept.cumsum(1) - 1)[rows, places]
    first = kept.long().argmax(1, keepdim=True)
    source = first.expand(-1, width).clone()
    source[rows, slots] = places
    return Polygons(points.gather(1, source[..., None].expand(-1, -1, 2)), count, labels.gather(1, source))
