"""The exact partition that a piecewise affine network makes of a plane."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnomon import _checks
from gnomon._budget import DEFAULT_BUDGET, budget_of
from gnomon._precision import full_precision
from gnomon.errors import RangeError, ShapeError
from gnomon.regions._memory_plan import memory_plan
from gnomon.regions._partition import OUTSIDE, Regions
from gnomon.regions._plane import Plane
from gnomon.regions._polygons import Polygons, cross, join
from gnomon.regions._propagation import Piece, Propagation
from gnomon.regions._rounding import rounding_of
from gnomon.regions._split import THIN
from gnomon.regions._steps import Network, network_of

MOST = 1_000_000
"""Regions, by default."""
CHECKED = 256
"""Regions that are compared with the network at the end."""
LOST = 1e-6
"""The share of the box that pieces too thin to keep may fill together."""
FAR = 100_000
"""How many times its width, and its height, a box may be away from the plane's origin: further out small regions are
lost in the rounding of its corners."""
THINNEST = 1e-9
"""The width of a box, as a share of its corners' coordinates, below which its regions are lost in their rounding."""
Box = Sequence[float | int] | Sequence[Sequence[float | int]]
"""Left, right, bottom, top; or corners."""
Progress = Callable[[int, float], object]
"""Called with the number of regions found so far, and the share of the box's area that they fill."""


@full_precision
def slice_regions(
    model: nn.Module,
    plane: Plane,
    box: Float[Tensor, "v 2"] | Box,
    *,
    max_regions: int = MOST,
    memory: float | int | None = None,
    progress: Progress | None = None,
) -> Regions:
    r"""The linear regions of a network in a convex polygon of a plane, exactly, in float64.

    The network restricted to the plane is followed layer by layer. Inside a cell of the previous layers, every unit is
    an affine function of the plane's two coordinates; the lines where units bend, or where the argument of a maximum
    changes, cut the cell into convex pieces, and each piece goes on to the next layer with its own affine functions.

    A region is the inputs with one activation pattern, each unit on one of its linear pieces, each maximum taken by one
    entry. Neighbours may have the same affine map, as units also cut where their bend does not reach the outputs, in
    front of a max-pool or of dead units: how many there are depends on how a function is written, too.

    Source:
        The quantity is that of SplineCam (Humayun et al., CVPR 2023) and figure 1 of Walker et al., arXiv:2506.12284;
        the way of computing it, all polygons at once, each by one line at a time, is gnomon's.
    Args:
        model: a network of affine layers, ReLU and similar functions, and maxima, in eval mode, written in any way: its
            forward pass is followed call by call. It is copied to float64; yours is not changed.
        plane: the slice.
        box: the part of the plane to partition: the corners of a convex polygon, in order, or (left, right, bottom,
            top).
        max_regions: more regions than this are an error; default: 1,000,000.
        memory: bytes for what is carried along beyond the result and the network's copy; default: 512 MiB. It
            determines how many polygons are processed together, not the result.
        progress: called with the number of regions so far and the share of the box's area that is done.
    Returns:
        The regions. A unit that is zero within rounding (1e-12 of its terms, 1e-15 of those that cancelled before)
        everywhere on a piece counts as inactive, and cuts nothing; several units on the same line cut once; a line
        through a corner cuts there. What is smaller than about 1e-11 of the box's coordinates is lost, also around the
        plane's origin, and the maps there are then wrong: take a box of the size of what it is to show.
    Raises:
        UnsupportedModuleError: naming the first part that is not piecewise affine, with its module and line; if the
            network makes decisions based on its data, mixes samples or does not run in float64; or if its outputs
            differ from those of the parts that were found.
        ConvergenceError: with more than `max_regions` regions, saying how far it got.
        ShapeError: if the network does not accept the plane's inputs, or its outputs are not (n, c).
        RangeError: if network and plane are on different devices; if the box is not convex, has no area, or is further
            from the plane's origin than 100,000 times its width or height, or thinner than 1e-9 of its corners'
            coordinates, where rounding hides small regions; if strips narrower than 8e-12 of their coordinates, which
            are dropped, fill more than 1e-6 of the box; if `memory` is too little for one polygon, saying before the
            work how much is needed.
    Cost: O(regions x units), as a cell is cut only by the units that meet it. Precision: float64 throughout; corners
        are as exact as the crossing of two lines allows.
    Example:
        >>> import torch
        >>> from gnomon.regions import Plane, slice_regions
        >>> relu = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.ReLU())
        >>> relu[0].weight.data = torch.eye(2)
        >>> regions = slice_regions(relu.eval(), Plane(torch.zeros(2), torch.eye(2)), (-1, 1, -1, 1))
        >>> len(regions), regions.areas.sum().item()
        (4, 4.0)
    """
    budget = budget_of(memory)
    _checks.settings(("max_regions", max_regions, "at least 1", max_regions >= 1))
    with torch.no_grad():
        network = network_of(model, plane.origin[None])
        return regions_of(network, plane, box, max_regions=max_regions, budget=budget, progress=progress)


def regions_of(
    network: Network,
    plane: Plane,
    box: Float[Tensor, "v 2"] | Box,
    *,
    max_regions: int = MOST,
    budget: int = DEFAULT_BUDGET,
    progress: Progress | None = None,
) -> Regions:
    """As `slice_regions`, for a network whose steps are known."""
    start = _polygon(box, plane.origin)
    shared = memory_plan(network, budget)
    together = min(shared.polygons.values(), default=CHECKED)
    image = torch.cat([plane.directions, plane.origin[None]]).double()[None, :, None]
    rounding = rounding_of(network, image, start, together)
    propagation = Propagation(network, shared, rounding, max_regions, float(start.areas()))
    leaves: list[Piece] = []
    for leaf in propagation.forward(Piece(start, {network.source.name: image}, torch.zeros_like(start.count))):
        leaves.append(leaf)
        if progress is not None:
            progress(propagation.out, propagation.share)
    outputs = torch.cat([leaf.held[network.result][:, :, 0] for leaf in leaves])
    found = Regions(
        model=network.model,
        plane=plane,
        box=start.vertices[0],
        polygons=join([leaf.polygons for leaf in leaves]),
        slopes=outputs[:, :2].mT,
        offsets=outputs[:, 2],
        pattern=torch.cat([leaf.pattern for leaf in leaves]),
        layers=tuple(step.place for step in network.steps),
        by_depth=dict(propagation.found),
    )
    _verify(network, found, propagation.area, together)
    return found


def _verify(network: Network, regions: Regions, area: float, together: int) -> None:
    """Compares some regions with the network itself, so many at a time, and the regions' area with the box's.

    Raises:
        UnsupportedModuleError: if an affine map is not the network's.
        RangeError: if the regions do not fill the box: the pieces that were too thin to keep were too many.
    """
    device = regions.pattern.device
    rows = torch.linspace(0, len(regions) - 1, min(len(regions), CHECKED), device=device).long()
    points = regions.polygons[rows].centroids()
    found = (regions.slopes[rows] @ points[..., None])[..., 0] + regions.offsets[rows]
    network.require_agreement(regions.plane.embed(points), found, together)
    missing = 1 - float(regions.areas.sum()) / area
    if not abs(missing) <= LOST:
        raise RangeError(
            "box",
            f"regions wider than {2 * THIN:g} of their coordinates",
            f"thinner ones that fill {missing:.2g} of the box",
            "Take a smaller box, on a plane whose origin is in it.",
        )


def _polygon(box: Float[Tensor, "v 2"] | Box, origin: Tensor) -> Polygons:
    """The box as a polygon on the origin's device, its corners counter-clockwise, every edge labelled as the box's.

    Raises:
        ShapeError: if it is not (v, 2) with three corners or more.
        RangeError: if it is not convex, has no area, is far away, or reaches beyond what the network can compute.
    """
    corners = _corners(box, origin)
    sides = corners.roll(-1, 0) - corners
    turns = cross(sides, sides.roll(-1, 0))
    turn = torch.atan2(turns, (sides * sides.roll(-1, 0)).sum(1)).sum()
    if not ((turns > 0).all() or (turns < 0).all()) or turn.abs() > 7:
        raise RangeError(
            "box",
            "the corners of a convex polygon with an area, in order, none on a side",
            "others",
            "Take its convex hull.",
        )
    _require_near(corners)
    corners = corners if turn > 0 else corners.flip(0)
    count = torch.tensor([len(corners)], device=origin.device)
    polygon = Polygons(corners[None], count, torch.full((1, len(corners)), OUTSIDE, device=origin.device))
    away = float(corners.abs().max())
    width = float(polygon.areas()) / float(torch.linalg.vector_norm(sides, dim=1).max())
    if width < THINNEST * away:
        raise RangeError(
            "box",
            f"one whose width is at least {THINNEST:g} of its corners' coordinates",
            f"{width:.2g} wide with corners up to {away:.2g}",
            "Take directions of other lengths.",
        )
    return polygon


def _corners(box: Float[Tensor, "v 2"] | Box, origin: Tensor) -> Float[Tensor, "v 2"]:
    """The corners of a box on the origin's device, in float64.

    Raises:
        ShapeError: if they are not (v, 2), three or more.
        RangeError: at NaN or infinity, or beyond what the network can compute.
    """
    corners = (box if isinstance(box, Tensor) else _checks.numbers("box", box)).to(origin.device, torch.float64)
    if not isinstance(box, Tensor) and corners.shape == (4,):
        left, right, bottom, top = corners
        corners = torch.stack([left, bottom, right, bottom, right, top, left, top]).view(4, 2)
    if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) < 3:
        raise ShapeError(
            "box",
            "corners of shape (v, 2), v >= 3",
            _checks.shape_of(corners),
            "Pass such, or (left, right, bottom, top).",
        )
    _checks.finite(box=corners)
    dtype = torch.promote_types(origin.dtype, torch.float32)
    if not torch.isfinite(corners.to(dtype).square().sum()):
        reach = float(corners.abs().max())
        raise RangeError("box", f"corners whose squares {dtype} holds", f"{reach:.2g}", "Take a smaller box.")
    return corners


def _require_near(corners: Float[Tensor, "v 2"]) -> None:
    """Raises RangeError if the box is much farther away than it is wide, or high."""
    away, size = corners.abs().amax(0), corners.amax(0) - corners.amin(0)
    if (away > FAR * size).any():
        axis = int((away / size).argmax())
        raise RangeError(
            "box",
            f"one at most {FAR:,} times its width and its height away from the plane's origin",
            f"{float(size[axis]):.2g} wide or high at {float(away[axis]):.2g}",
            "Take a plane whose origin is in the box, Plane(plane.embed(corner)[0], plane.directions).",
        )
