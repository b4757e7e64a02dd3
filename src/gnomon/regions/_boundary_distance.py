"""How far a sample is from the boundary of its linear region."""

from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from gnomon import _checks
from gnomon._budget import budget_of
from gnomon._precision import full_precision, narrowed
from gnomon.regions._memory_plan import NUMBER
from gnomon.regions._operations import Affine, Bend, PiecewiseLinear, Planes, bent, state_at_origin, straight
from gnomon.regions._steps import Network, network_of
from gnomon.regions._windows import windows


@full_precision
def boundary_distance(
    model: nn.Module, x: Float[Tensor, "n *d"], *, memory: float | int | None = None
) -> Float[Tensor, "n"]:
    r"""The Euclidean distance from each sample to the boundary of its linear region, in the whole input space.

    Reading:
        Low, high: Low: the region around the sample is narrow.
        Generalising: Says nothing at the end of training: on digits 0.0024 in a network that generalises, 0.0031 in one
            that memorised. On the way, while the training digits are fitted, it falls to a quarter in the first and to
            a ninth in the second. On MNIST it grows from there to generalisation, four- to sevenfold at the paper's
            setting, twofold in a smaller network (regions).
        Misleads: It may end where it was before training, as on digits and in that smaller network: compare with
            memorisation, not with initialisation. The function need not bend there: a unit counts even where its bend
            does not reach the outputs, in front of a max-pool or of dead units. Compare networks of one architecture.

    $\min_u |z_u(x)| / \lVert\nabla z_u(x)\rVert$

    over all units, with z a unit's distance from where it bends: exact, since the region is the polytope in which every
    unit, continued affinely from the sample, keeps its side.

    Source:
        The radius of the largest ball inside the region (the "knot" distances of Humayun et al., arXiv:2402.15555).
    Args:
        model: a piecewise affine network, as for `slice_regions`. It is copied to float64.
        x: the samples.
        memory: bytes to use beyond the network's copy, but at least enough for one sample and one direction of the
            input at a time; default: 512 MiB.
    Returns:
        At least 0, in the unit and dtype of x, without a graph; 0 on a boundary, infinite for an affine network. A unit
        that changes by less than 1e-12 of its terms, its rounding errors, counts as constant.
    Raises:
        UnsupportedModuleError: as `slice_regions`.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity; if the network is on another device than x; if the dtype of x does not hold a
            distance.
    Cost: that of a forward pass of n (d + 1) samples.
    Example:
        >>> import torch
        >>> relu = torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False), torch.nn.ReLU())
        >>> relu[0].weight.data = torch.tensor([[3.0, 4.0]])
        >>> boundary_distance(relu.eval(), torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([5., 0.])
    """
    _checks.samples(1, x=x)
    _checks.finite(x=x)
    budget = budget_of(memory)
    _checks.entries(x=x)
    with torch.no_grad():
        network = network_of(model, x[:1])
        samples, directions = _together(network, x[0].numel(), budget)
        found = torch.cat([_nearest(network, part, directions) for part in torch.split(x, samples)])
        return cast(Tensor, narrowed(found, {torch.float64}, x.dtype))


def _together(network: Network, size: int, budget: int) -> tuple[int, int]:
    """How many samples fit a budget, with how many of the input's directions at a time; at least one of each."""
    passes, stays = [3 * size], 0
    for step, needed in zip(network.steps, network.needed_after, strict=False):
        held = sum(network.shapes[name].numel() for name in {*step.inputs, step.name, *needed})
        compared = 0
        if not isinstance(step.operation, Affine):
            compared = _compared(step.operation, network.shapes[step.inputs[0]])
            stays += 5 * compared
        passes.append(3 * (held + compared))
    each = NUMBER * max(passes)
    directions = min(size, (budget - NUMBER * stays) // each - 1)
    return max(1, budget // (each * (size + 1) + NUMBER * stays)), max(1, directions)


def _compared(operation: Bend, shape: torch.Size) -> int:
    """How many numbers say where the units of a bending operation would bend."""
    if isinstance(operation, PiecewiseLinear):
        return shape.numel() * len(operation.breaks)
    return windows(operation.window, shape, torch.device("cpu"))[0].numel()


def _nearest(network: Network, x: Float[Tensor, "n *d"], together: int) -> Float[Tensor, "n"]:
    """The distances, from this many directions at a time."""
    x = x.double()
    heights: dict[int, Tensor] = {}
    squares: dict[int, Tensor] = {}
    states: dict[int, Tensor] = {}

    def at_origin(place: int, operation: Bend, planes: Planes) -> Planes:
        states[place] = state_at_origin(operation, planes)
        value = bent(operation, planes, states[place])
        heights[place] = _behind(operation, planes, value)[:, 0]
        squares[place] = torch.zeros_like(heights[place])
        return value

    def along(place: int, operation: Bend, planes: Planes) -> Planes:
        value = bent(operation, planes, states[place])
        squares[place] += _behind(operation, planes[:, :-1], value[:, :-1], constant=False).square().sum(1)
        return value

    origins = x[:, None, None]
    network.require_agreement(x, network.run(origins, at_origin)[:, 0, 0], len(x))
    size = x[0].numel()
    for start in range(0, size, together) if heights else ():
        some = torch.arange(start, min(start + together, size), device=x.device)
        directions = torch.zeros(len(some), size, dtype=x.dtype, device=x.device).scatter_(1, some[:, None], 1.0)
        directions = directions.view(1, len(some), 1, *x.shape[1:]).expand(len(x), *[-1] * (x.ndim + 1))
        network.run(torch.cat([directions, origins], 1), along)
    distance = x.new_full((len(x),), torch.inf)
    for place, constant in _constant(network, x, states).items():
        slopes = squares[place].sqrt().masked_fill(constant, 0)
        distance = torch.minimum(distance, _smallest(heights[place], slopes))
    return distance


def _constant(
    network: Network, x: Float[Tensor, "n *d"], states: dict[int, Tensor]
) -> dict[int, Bool[Tensor, "n ..."]]:
    """Which units change along a random direction by no more than rounding: noise changes that by more than itself."""
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(x.shape[1:], generator=generator, dtype=x.dtype, device="cpu").to(x.device)
    planes = torch.stack([direction.expand_as(x), x], 1)[:, :, None]
    slopes: dict[int, list[Tensor]] = {place: [] for place in states}

    def along(place: int, operation: Bend, planes: Planes) -> Planes:
        value = bent(operation, planes, states[place])
        slopes[place].append(_behind(operation, planes[:, :1], value[:, :1], constant=False)[:, 0])
        return value

    for each in (network, network.with_noise()):
        each.run(planes, along)
    return {place: (noisy - exact).abs() > exact.abs() for place, (exact, noisy) in slopes.items()}


def _behind(operation: Bend, planes: Planes, value: Planes, constant: bool = True) -> Planes:
    """What is zero where a unit bends: its distance from its breaks, or from the other entries of its window."""
    if isinstance(operation, PiecewiseLinear):
        breaks = torch.tensor(operation.breaks, dtype=planes.dtype, device=planes.device)
        behind = planes[..., None] - breaks * constant
        # A channel of slope 1 beside others reaches none.
        return behind.masked_fill_(straight(operation, planes)[..., None], torch.inf) if constant else behind
    looked_at, _ = windows(operation.window, planes.shape[2:], planes.device)
    behind = value.flatten(2)[..., None] - planes.flatten(2)[:, :, looked_at.clamp_min(0)]
    # Beyond the rim, nothing ever becomes the largest.
    return behind.masked_fill(looked_at < 0, torch.inf if constant else 0.0)


def _smallest(heights: Tensor, slopes: Tensor) -> Float[Tensor, "n"]:
    """The smallest distance to a zero of affine functions; constant ones have none."""
    distance = heights.abs() / torch.where(slopes > 0, slopes, 1)
    return torch.where(slopes > 0, distance, torch.inf).flatten(1).amin(1)
