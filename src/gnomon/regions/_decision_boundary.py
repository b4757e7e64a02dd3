"""Where a network's predicted class changes on a plane."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gnomon._budget import DEFAULT_BUDGET
from gnomon._precision import full_precision
from gnomon.regions._partition import Regions
from gnomon.regions._polygons import Polygons, cross
from gnomon.regions._split import evaluate, split_by_maximum

BOUNDARY = -2
"""The label of an edge between two classes."""
NEAR = 1e-9
"""Relative difference below which places, and outputs, count as equal."""
CELLS = 2**14
"""Cells whose outputs are compared at once."""


@full_precision
def decision_boundary(regions: Regions) -> list[Float[Tensor, "s 2"]]:
    """The lines on which the largest output changes, exactly; for a network with one output, where it is 0.

    Args:
        regions: the linear regions on the plane.

    Returns:
        Polylines in the plane's coordinates; a closed one ends where it begins. Where two outputs are equal on a whole
        region, the first of them is the class, so the line runs around the region.

    Cost: O(regions c), and for each unit the square of the number of its edges on which outputs are equal.
    """
    outputs = torch.cat([regions.slopes.mT, regions.offsets[:, None]], 1)
    if outputs.shape[2] == 1:
        # The class is 1 where the output is positive.
        outputs = torch.cat([torch.zeros_like(outputs), outputs], 2)
    outputs = outputs[:, :, _contending(regions.polygons, outputs)]
    all_of_them = torch.arange(outputs.shape[2], device=outputs.device)[None]
    label = torch.tensor([BOUNDARY], device=outputs.device)
    none = torch.zeros_like(outputs[0, 0])
    split = split_by_maximum(
        regions.polygons, outputs, all_of_them, label, none, allow=lambda pieces: None, room=DEFAULT_BUDGET
    )
    cells, classes = split.children, split.state(slice(None))[:, 0]
    sides = torch.stack([cells.vertices, cells.rolled()], 2)
    level = _level_edges(cells, outputs, split.parent)
    owners = classes[:, None].expand_as(cells.labels)
    along = _changes(sides[level], cells.labels[level], owners[level])
    return _chained(torch.cat([sides[cells.valid & (cells.labels == BOUNDARY)], along]))


def _contending(polygons: Polygons, outputs: Float[Tensor, "r 3 c"]) -> Bool[Tensor, "c"]:
    """The outputs that in some region are not below another one throughout: those that are masked may be huge there."""
    found = torch.zeros_like(outputs[0, 0], dtype=torch.bool)
    for rows in torch.split(torch.arange(len(polygons), device=outputs.device), CELLS):
        heights = evaluate(polygons[rows], outputs[rows])
        found |= (heights.amax(1) >= heights.amin(1).amax(1, keepdim=True)).any(0)
    return found


def _level_edges(cells: Polygons, outputs: Float[Tensor, "r 3 c"], parent: Int[Tensor, "q"]) -> Bool[Tensor, "q v"]:
    """The edges made by the network's units on which two outputs are the largest: the class may change there."""
    found = []
    for rows in torch.split(torch.arange(len(cells), device=parent.device), CELLS):
        part = cells[rows]
        heights = evaluate(part, outputs[parent[rows]])
        largest = heights >= heights.amax(2, keepdim=True) - NEAR * heights.abs().amax()
        both = largest & largest.gather(1, part.following()[..., None].expand_as(largest))
        found.append((both.sum(2) > 1) & part.valid & (part.labels >= 0))
    return torch.cat(found)


def _changes(
    edges: Float[Tensor, "e 2 2"], labels: Int[Tensor, "e"], classes: Int[Tensor, "e"]
) -> Float[Tensor, "s 2 2"]:
    """The parts of edges that have another class on their other side; both sides of an edge have the same label."""
    order = torch.argsort(labels)
    groups = torch.split(order, torch.unique_consecutive(labels[order], return_counts=True)[1].tolist())
    near = NEAR * float(edges.abs().max()) if len(edges) else 0.0
    found = [edges[:0]]
    for group in groups:
        if (classes[group] == classes[group[0]]).all():  # as for a last layer of zeros, where every edge is level
            continue
        start, end = edges[group].unbind(1)
        length = torch.linalg.vector_norm(end - start, dim=1)
        along = (end - start) / length[:, None]
        # Row i: where the other edges begin and end, along edge i and away from it.
        begins, ends = (
            torch.stack([(along[:, None] * apart).sum(2), cross(along[:, None], apart)])
            for apart in (end[None] - start[:, None], start[None] - start[:, None])
        )
        low, high = begins[0].clamp_min(0), torch.minimum(ends[0], length[:, None])
        beside = (begins[1].abs() <= near) & (ends[1].abs() <= near) & (high - low > near)
        i, j = (beside & (classes[group][:, None] < classes[group])).nonzero(as_tuple=True)
        points = torch.stack([low[i, j], high[i, j]], 1)[..., None]
        found.append(start[i, None] + points * along[i, None])
    return torch.cat(found)


def _chained(segments: Float[Tensor, "s 2 2"]) -> list[Float[Tensor, "_ 2"]]:
    """Segments, some present twice, once in each direction, joined where they meet."""
    if not len(segments):
        return []
    scale = float(segments.abs().max())
    keys = torch.round(segments / (NEAR * scale)).long().tolist()
    ways: dict[tuple[int, ...], dict[tuple[int, ...], tuple[Tensor, Tensor]]] = {}
    for (start, end), (a, b) in zip(keys, segments, strict=True):
        ways.setdefault(tuple(start), {})[tuple(end)] = (a, b)
        ways.setdefault(tuple(end), {})[tuple(start)] = (b, a)
    lines = []
    # Ends and crossings first, so that a closed line is what is left.
    for start in sorted(ways, key=lambda place: len(ways[place]) == 2):
        while ways[start]:
            lines.append(_follow(ways, start))
    return lines


def _follow(
    ways: dict[tuple[int, ...], dict[tuple[int, ...], tuple[Tensor, Tensor]]], start: tuple[int, ...]
) -> Float[Tensor, "_ 2"]:
    """Follows segments, removing each, to the next end or crossing, or back to where it started."""
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
