"""Where a network's predicted class changes on a plane."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon.regions.partition import Regions
from gnomon.regions.polygons import Polygons
from gnomon.regions.split import split_by_maximum

BOUNDARY = -2
"""The label of an edge between two classes."""


def decision_boundary(regions: Regions) -> list[Float[Tensor, "s 2"]]:
    """The lines on which the largest output changes, exactly; for a network with one output, where it is 0.

    Args:
        regions: the linear regions on the plane.

    Returns:
        Polylines in the plane's coordinates; a closed one ends where it begins. Where two outputs are equal on a whole
        region there is no line, and the first of them is the class; nor is there one where the class changes just
        where the network bends, as at the zeros of an output that ends in a ReLU.

    Cost: O(regions c²).
    """
    cells, _ = class_cells(regions)
    edges = cells.labels == BOUNDARY
    segments = torch.stack([cells.vertices[edges], cells.rolled()[edges]], 1)
    return chained(segments)


def class_cells(regions: Regions) -> tuple[Polygons, Int[Tensor, "q"]]:
    """The regions cut where the class changes, and the class of each piece; of one output, 1 where it is positive."""
    outputs = torch.cat([regions.slopes.mT, regions.offsets[:, None]], 1)
    if outputs.shape[2] == 1:
        outputs = torch.cat([torch.zeros_like(outputs), outputs], 2)
    there = torch.ones(1, outputs.shape[2], dtype=torch.bool)
    split = split_by_maximum(regions.polygons, outputs[:, :, None], there, torch.tensor([BOUNDARY]))
    return split.children, split.state(slice(None))[:, 0]


def chained(segments: Float[Tensor, "s 2 2"]) -> list[Float[Tensor, "_ 2"]]:
    """Segments, each there twice, one way and the other, joined where they meet."""
    if not len(segments):
        return []
    scale = float(segments.abs().max())
    keys = torch.round(segments / (1e-9 * scale)).long().tolist()
    ways: dict[tuple[int, ...], dict[tuple[int, ...], tuple[Tensor, Tensor]]] = {}
    for (start, end), (a, b) in zip(keys, segments, strict=True):
        ways.setdefault(tuple(start), {})[tuple(end)] = (a, b)
        ways.setdefault(tuple(end), {})[tuple(start)] = (b, a)
    lines = []
    # Ends and crossings first, so that a closed line is what is left.
    for start in sorted(ways, key=lambda place: len(ways[place]) == 2):
        while ways[start]:
            lines.append(follow(ways, start))
    return lines


def follow(
    ways: dict[tuple[int, ...], dict[tuple[int, ...], tuple[Tensor, Tensor]]], start: tuple[int, ...]
) -> Float[Tensor, "_ 2"]:
    """Goes along segments, taking each away, to the next end or crossing, or back to where it started."""
    points: list[Tensor] = []
    here = start
    while True:
        there, (a, b) = ways[here].popitem()
        ways[there].pop(here, None)
        points = points or [a]
        points.append(b)
        here = there
        if here == start or len(ways[here]) != 1:
            return torch.stack(points)
