"""How far a sample is from the boundary of its linear region."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.autodiff import DEFAULT_BUDGET
from gnomon.regions._operations import Affine, Maximum, PiecewiseLinear, Planes, on_pieces, picked
from gnomon.regions._steps import Network, network_of
from gnomon.regions._windows import windows


@full_precision
def boundary_distance(
    model: nn.Module, x: Float[Tensor, "n *d"], *, memory: float | int | None = None
) -> Float[Tensor, "n"]:
    r"""The Euclidean distance from each sample to the boundary of its linear region, in the whole input space.

    $\min_u |z_u(x)| / \lVert\nabla z_u(x)\rVert$

    over all units, with z a unit's distance from where it bends: exact, since the region is the polytope in which every
    unit, continued affinely from the sample, keeps its side.

    Source:
        The radius of the largest ball inside the region (the "knot" distances of Humayun et al., arXiv:2402.15555).
    Args:
        model: a piecewise affine network, as `slice_regions` takes them. It is copied to float64.
        x: the samples.
        memory: bytes to use; default: 512 MiB.
    Returns:
        At least 0, in the unit of x and its dtype; 0 on a boundary, infinite for an affine network.
    Raises:
        UnsupportedModuleError: naming the first part that is not piecewise affine, and its place.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity; if the network is on another device than x.
    Cost: as a forward pass of n (d + 1) samples.
    Example:
        >>> import torch
        >>> relu = torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False), torch.nn.ReLU())
        >>> relu[0].weight.data = torch.tensor([[3.0, 4.0]])
        >>> boundary_distance(relu.eval(), torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([5., 0.])
    """
    _checks.floating(x=x)
    _checks.samples(1, x=x)
    _checks.finite(x=x)
    budget = DEFAULT_BUDGET if memory is None else memory
    _checks.settings(("memory", budget, "above 0", budget > 0))
    size = x[0].numel()
    _checks.entries(x=x)
    with torch.no_grad():
        network = network_of(model, x[:1])
        one = _nearest(network, x[:1])[1]
        parts = torch.split(x, max(1, int(budget) // (8 * (size + 1) * 4 * one)))
        return torch.cat([_nearest(network, part)[0] for part in parts]).to(x.dtype)


def _flats(x: Float[Tensor, "n *d"]) -> Planes:
    """All directions of the input space, and last the samples, as origins."""
    size = x[0].numel()
    directions = torch.eye(size, dtype=torch.float64, device=x.device).expand(len(x), -1, -1)
    return torch.cat([directions, x.double().flatten(1)[:, None]], 1).view(len(x), size + 1, *x.shape[1:])


def _nearest(network: Network, x: Float[Tensor, "n *d"]) -> tuple[Float[Tensor, "n"], int]:
    """The distances, and the most entries that a step holds."""
    planes = _flats(x)
    held, most = {network.source: planes}, 0
    distance = torch.full((len(x),), torch.inf, dtype=planes.dtype, device=planes.device)
    for place, step in enumerate(network.steps):
        given = [held[name] for name in step.inputs]
        if isinstance(step.operation, Affine):
            value = step.operation.apply(*given)
        elif isinstance(step.operation, PiecewiseLinear):
            breaks = torch.tensor(step.operation.breaks, dtype=planes.dtype, device=planes.device)
            heights = given[0][:, -1, ..., None] - breaks
            slopes = torch.linalg.vector_norm(given[0][:, :-1], dim=1)[..., None]
            distance = torch.minimum(distance, _smallest(heights, slopes))
            value = on_pieces(given[0], step.operation, (heights > 0).sum(-1))
        else:
            value, gap = _maximum(step.operation, given[0])
            distance = torch.minimum(distance, gap)
        needed = network.needed_after(place)
        held = {name: planes for name, planes in (held | {step.name: value}).items() if name in needed}
        most = max(most, sum(planes[0, 0].numel() for planes in held.values()))
    network.hold_against(x.double(), held[network.result][:, -1])
    return distance, most


def _maximum(operation: Maximum, planes: Planes) -> tuple[Float[Tensor, "p k *e"], Float[Tensor, "p"]]:
    """What comes out of a maximum, and the distance to where another entry of a window becomes the largest."""
    entries = planes.flatten(2)
    looked_at, shape = windows(operation.window, planes.shape[2:], planes.device)
    candidates = entries[:, :, looked_at.clamp_min(0)]
    there = looked_at >= 0
    state = candidates[:, -1].masked_fill(~there, -torch.inf).argmax(2)
    value = picked(entries, looked_at, state)
    behind = value[..., None] - candidates
    slopes = torch.linalg.vector_norm(behind[:, :-1], dim=1)
    # Entries that are the same function nearby never take over.
    gap = _smallest(behind[:, -1].masked_fill(~there, torch.inf), slopes)
    return value.view(*planes.shape[:2], *shape), gap


def _smallest(heights: Tensor, slopes: Tensor) -> Float[Tensor, "n"]:
    """The smallest distance to a zero of affine functions; constant ones have none."""
    distance = heights.abs() / torch.where(slopes > 0, slopes, 1)
    return torch.where(slopes > 0, distance, torch.inf).flatten(1).amin(1)
