"""Slices of a network as plain numbers, which records keep, and the frames of a region map made from them."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gnomon import centroid
from gnomon.regions import Plane, decision_boundary, plane_through, slice_regions
from gnomon_lab.figures import Points, Polylines, RegionFrame
from gnomon_lab.papers._shared import significant


def plane_of(digits: Tensor) -> Plane:
    """The plane through three digits (3 d), its origin in the middle of what they span."""
    plane = plane_through(*digits)
    points = plane.project(digits)
    middle = (points.amin(0) + points.amax(0)) / 2
    return Plane(plane.embed(middle[None])[0], plane.directions)


def reach(digits: Tensor) -> float:
    """How far from its middle their plane is sliced: a quarter more than they span."""
    return 1.25 * float(plane_of(digits).project(digits).abs().max())


def cut(model: nn.Module, digits: Tensor, reach: float) -> dict[str, Any]:
    """The regions in a square of the plane through three digits (3 d), and the digits' centroids.

    A centroid is a direction: it is scaled to the length of its digit, and drawn where the plane comes nearest to it.
    """
    plane = plane_of(digits)
    regions = slice_regions(model, plane, (-reach, reach, -reach, reach))
    sites = centroid(regions.model, digits).detach()
    sites = sites * (digits.norm(dim=1) / sites.norm(dim=1).clamp_min(torch.finfo(sites.dtype).tiny))[:, None]
    outputs = (regions.slopes @ regions.centroids[..., None])[..., 0] + regions.offsets
    counts = regions.polygons.count.tolist()
    polygons = [corners[:count] for corners, count in zip(regions.polygons.vertices, counts, strict=True)]
    return {
        "polygons": [places(polygon) for polygon in polygons],
        "norms": significant(regions.norms, 4),
        "areas": significant(regions.areas, 4),
        "classes": outputs.argmax(1).tolist(),
        "boundary": [places(line) for line in decision_boundary(regions)],
        "points": places(plane.project(digits)),
        "centroids": places(plane.project(sites)),
        "digits": significant(digits),
        "images": significant(sites),
    }


def places(points: Tensor) -> list[list[float]]:
    """Coordinates (k 2) to a hundredth of a unit, where the planes are tens of units wide: records stay small."""
    return [[round(x, 2), round(y, 2)] for x, y in points.tolist()]


def frame(label: str, piece: dict[str, Any], values: str) -> RegionFrame:
    """One slice, coloured by what it holds under this name."""
    digits, sites = np.array(piece["points"]), np.array(piece["centroids"])
    paths = Polylines("from digit to centroid", tuple(np.stack([digits, sites], 1)), dashed=True, colour=3)
    boundary = Polylines("decision boundary", tuple(map(np.array, piece["boundary"])), colour=1)
    points = Points("digits", tuple(digits[:, 0]), tuple(digits[:, 1]), colour=1)
    centroids = Points("their centroids", tuple(sites[:, 0]), tuple(sites[:, 1]), colour=3)
    polygons = tuple(map(np.array, piece["polygons"]))
    return RegionFrame(label, polygons, np.array(piece[values]), (boundary, paths), (points, centroids))
