"""The flow of a cumulative bias at a fixed rotation, event by event: points are cut away and the rate rises."""

from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import HALF, full_precision, in_single, narrowed
from gnomon.errors import RangeError, ShapeError
from gnomon.linalg import identity


@dataclass(frozen=True)
class BiasFlowRun:
    r"""The flow at the requested times, and its events. Components are those of the rotated space.

    Attributes:
        times: (t).
        beta: (t q), the cumulative bias.
        rate: (t q), the share $n_r/N$ of points that each component truncates from this time on.
        loss: (t), $\frac1{2N}\sum_i|\tau(x_i) - \tilde y|^2$.
        passed: (n q), the time at which the cut passes the point: 0 if it has passed it at the start, infinity if it
            never does. A rising component truncates the point from then on, a falling one until then.
        rising: (q), whether the cut rises to its target: if so, points can only be gained, otherwise only lost.
        limit: (q), the limit of the cumulative bias as time grows.
    """

    times: Float[Tensor, "t"]
    beta: Float[Tensor, "t q"]
    rate: Float[Tensor, "t q"]
    loss: Float[Tensor, "t"]
    passed: Float[Tensor, "n q"]
    rising: Bool[Tensor, "q"]
    limit: Float[Tensor, "q"]


@full_precision
def bias_flow(
    points: Float[Tensor, "n q"],
    target: Float[Tensor, "q"],
    beta: Float[Tensor, "q"],
    rotation: Float[Tensor, "q q"],
    times: Float[Tensor, "t"],
) -> BiasFlowRun:
    r"""Gradient flow of the cumulative bias on the Euclidean loss of one cluster, at a fixed rotation, exactly.

    $\dot\beta = -R^\top\operatorname{diag}\big(\tfrac{n_r}N\big)R\,(\beta + \tilde y)$,
    $\quad n_r = \#\{i : (R(x_i + \beta))_r \le 0\}$

    In rotated coordinates the components decouple. Each has a cut $c = -(R\beta)_r$ and truncates the points
    $u_i = (Rx_i)_r \le c$, while $v - c$, with $v = (R\tilde y)_r$, decays at the rate n / N. The cut moves towards v
    without reaching it, and the time from one point to the next is $\frac Nn\log\frac{v - u_{(k)}}{v - u_{(k+1)}}$.

    - It rises where c < v: each point passed is truncated, and the rate grows. Points at v and beyond are never
      reached, and the rate tends to the share below v.
    - It falls where c > v: each point passed is released, and the rate falls. If no point lies at v or below, the cut
      stops in finite time on the lowest one, short of the target. (Below it the loss is constant; the flow stays there
      in the sense of Filippov, as the limit of small gradient steps.)
    - It rests where nothing is truncated, and where c = v.

    A point at the cut is truncated, as ReLU's derivative at 0 is 0; where the cut falls, it is released at once.

    Source:
        Chen, arXiv:2501.07400, section 4.3, equations 4.42 to 4.50, which treat the rising case, from a cut that lies
        on a point, with all points below the target (docs/errata.md).
    Args:
        points: the samples $x_i$ of the cluster.
        target: $\tilde y$, the label's preimage in input space.
        beta: the cumulative bias at time 0.
        rotation: R, orthogonal.
        times: from 0 on, in any order; unit: of gradient flow on the loss.
    Returns:
        The flow; beta in the unit of points. It rotates with the input space, and its times do not depend on the unit.
    Raises:
        ShapeError: if points are not (n q), if target, beta and rotation do not have their width, or if times are not
            (t).
        EmptyError: if there are no points or no times.
        RangeError: at NaN or infinity, a negative time, mixed dtypes, a rotation that is not orthogonal to half the
            digits of its dtype, or a loss beyond what that can hold.
    Cost: O(q n log n + q t log n) time, O(q (n + t)) memory, in addition to the rotations. Precision: that of the
        dtype, in distances to the target; half precision is computed in float32.
    Example:
        >>> import math, torch, gnomon
        >>> points, one = torch.tensor([[0.0], [1.0], [3.0]]), torch.ones(1)
        >>> flow = gnomon.bias_flow(points, 2 * one, 0 * one, torch.eye(1), torch.tensor([0.0, 3 * math.log(2)]))
        >>> flow.passed.flatten()  # at the cut, 3 log 2, beyond the target
        tensor([0.0000, 2.0794,    inf])
        >>> flow.beta.flatten(), flow.rate.flatten()
        (tensor([ 0., -1.]), tensor([0.3333, 0.6667]))
    """
    require_one_cluster(points=points, target=target, beta=beta, rotation=rotation)
    _checks.one_axis(times=times)
    _checks.finite(times=times)
    earliest = float(times.detach().min())
    _checks.settings(
        ("times", earliest, "from 0 on", earliest >= 0),
        ("times", times.dtype, f"in {points.dtype} as points", times.dtype == points.dtype),
    )
    dtype, given = points.dtype, (points, target, beta, rotation, times.to(points.device))
    points, target, beta, rotation, times = map(in_single, given)
    # All positions are relative to the cut at time 0, so that a point that lies there carries no rounding error.
    seen = (torch.cat([points, target[None]]) + beta) @ rotation.mT
    goal = seen[-1]
    rising = goal >= 0
    sign = torch.where(rising, 1, -1).to(goal.dtype)
    # The cut meets the points in order of decreasing distance to its target, starting from its own distance.
    distance, order = ((goal - seen[:-1]) * sign).mT.sort(dim=1, descending=True, stable=True)
    start = goal.abs()[:, None]
    legs = torch.cat([start, distance.clamp(max=start)], 1)
    met = torch.arange(len(points) + 1, device=goal.device)
    share = torch.where(rising[:, None], met, len(points) - met).to(goal.dtype) / len(points)
    passed = _durations(legs, share).cumsum(1)
    begin = torch.cat([torch.zeros_like(start), passed], 1)

    at = torch.searchsorted(passed.detach(), times.detach().expand(len(goal), -1).contiguous(), right=True)
    rate = share.gather(1, at)
    left = legs.gather(1, at) * torch.exp(-rate * (times - begin.gather(1, at)))
    # The cut ends at its target if any point is still truncated there, and otherwise at the last one it met.
    last = passed.isfinite().sum(1, keepdim=True)
    rest = torch.where(share.gather(1, last) > 0, 0, legs.gather(1, last))
    loss = (rate * left**2 + _mean_squares_kept(distance, rising).gather(1, at)).sum(0) / 2
    _checks.held("points, target, beta", "a loss", loss)
    flow = BiasFlowRun(
        times=times,
        beta=beta - (goal - (sign[:, None] * left).mT) @ rotation,
        rate=rate.mT,
        loss=loss,
        passed=torch.zeros_like(distance).scatter(1, order, passed).mT,
        rising=rising,
        limit=beta - (goal - sign * rest[:, 0]) @ rotation,
    )
    return cast(BiasFlowRun, narrowed(flow, {torch.float32}, dtype)) if dtype in HALF else flow


def _durations(legs: Float[Tensor, "q n1"], share: Float[Tensor, "q n1"]) -> Float[Tensor, "q n"]:
    """How long the distance to the target takes to decay from each leg's start to the next one's, at the leg's rate."""
    before, after = legs[:, :-1], legs[:, 1:]
    stays = before == after
    moves = ~stays & (after > 0) & (share[:, :-1] > 0)
    # The logarithm is of 1 where it is not needed, as its gradient must not be infinite there.
    ratio = torch.where(moves, (before - after) / torch.where(moves, after, 1), 0)
    taken = torch.log1p(ratio) / torch.where(moves, share[:, :-1], 1)
    return torch.where(stays | moves, taken, torch.inf)


def _mean_squares_kept(distance: Float[Tensor, "q n"], rising: Bool[Tensor, "q"]) -> Float[Tensor, "q n1"]:
    """The mean square distance of the points that are not truncated, the others counted as 0, by points met."""
    squares = distance**2 / distance.shape[1]
    zero = torch.zeros_like(squares[:, :1])
    yet_to_meet = torch.cat([squares.flip(1).cumsum(1).flip(1), zero], 1)
    behind = torch.cat([zero, squares.cumsum(1)], 1)
    return torch.where(rising[:, None], yet_to_meet, behind)


def require_one_cluster(*, points: Tensor, target: Tensor, beta: Tensor, rotation: Tensor) -> None:
    """Raises unless these are a cluster (n q), its target (q), a bias (q) and an orthogonal matrix, in one dtype."""
    _checks.samples(points=points)
    width = points.shape[1:]
    for name, tensor, wanted in (
        ("points", points, points.shape[:2]),
        ("target", target, width),
        ("beta", beta, width),
        ("rotation", rotation, (*width, *width)),
    ):
        if tensor.shape != wanted:
            raise ShapeError(
                name,
                f"shape {tuple(wanted)}",
                _checks.shape_of(tensor),
                "Pass points (n, q), target (q), beta (q) and rotation (q, q).",
            )
        if tensor.dtype != points.dtype:
            raise RangeError(name, f"{points.dtype} as points have", tensor.dtype, "Convert one of them.")
    _checks.finite(points=points, target=target, beta=beta, rotation=rotation)
    defect = float((rotation.detach() @ rotation.detach().mT - identity(rotation)).abs().max())
    if not defect <= torch.finfo(rotation.dtype).eps ** 0.5:
        raise RangeError(
            "rotation",
            "an orthogonal matrix",
            f"one whose product with its transpose is {defect:.1e} off the identity",
            "Take the polar factor of the weight.",
        )
