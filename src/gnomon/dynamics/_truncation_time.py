"""By when a cluster is fully truncated: the hypotheses checked on data, and the bound that they give."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision, in_single
from gnomon.dynamics._bias_flow import require_one_cluster
from gnomon.linalg import identity, root

Estimates = Literal["sharp", "printed"]
"""Which of the proof's estimates: the sharp ones, or those that the paper prints."""

STEPS = 100
"""How often the radius of the rotations is enlarged before giving up; five to ten are usual."""


@dataclass(frozen=True)
class TruncationTimeBound:
    r"""The constants of proposition 4.2 on given data, and its bound.

    Attributes:
        bound: an upper bound on the time $s_1$ from which the whole cluster is truncated; infinite if a hypothesis
            fails.
        eta0: $\eta_0$, the share of points that are not certain to be truncated, in the worst component.
        eta1: $\eta_1$, the mean length of $R(x + \beta)$ over the points that are not certain to be truncated in all
            components, with 0 for the others; unit: of points.
        eta1_prime: $\eta_1'$, an upper bound on the norm of the rotation's generator; unit: of points, squared.
        eta2: $\eta_2$, an upper bound on how far the rotation moves, in operator norm.
        gamma: $\gamma$, the share of the distance at time 0 within which all points are truncated, at most 1; 0 or
            below where (4.16) fails.
        failed: the hypothesis that fails, in words; None if all hold. The constants are then those at which it failed.
    """

    bound: Float[Tensor, ""]
    eta0: Float[Tensor, ""]
    eta1: Float[Tensor, ""]
    eta1_prime: Float[Tensor, ""]
    eta2: Float[Tensor, ""]
    gamma: Float[Tensor, ""]
    failed: str | None


@full_precision
def truncation_time_bound(
    points: Float[Tensor, "n q"],
    target: Float[Tensor, "q"],
    beta: Float[Tensor, "q"],
    rotation: Float[Tensor, "q q"],
    *,
    estimates: Estimates = "sharp",
) -> TruncationTimeBound:
    r"""A time by which the effective gradient flow of one cluster has truncated all its points, if one is guaranteed.

    Write D for the distance $|\beta + \tilde y|$ at time 0. If, for all biases with
    $|\beta + \tilde y| \le D$ and all rotations with $\|R - R(0)\| \le \eta_2$,

    - each component truncates all but a share $\eta_0$ of the points (4.14),
    - the points in mixed sectors contribute at most $\eta_1$ to the mean of $|R(x + \beta)|$ (4.15), and
    - all points are truncated where $|\beta + \tilde y| \le \gamma D$ (4.16),

    then $|\beta + \tilde y|$ decays at the rate $1 - \eta_0$ or faster and R rotates at a speed of at most
    $\frac12\eta_1|\beta + \tilde y|$, so that from $s_1$ on all points are truncated and R is at rest:

    $s_1 \le \frac1{1 - \eta_0}\log\frac1\gamma$, $\quad\eta_1' = \frac12D\eta_1$,
    $\quad\eta_2 = \frac{1 - \gamma}{1 - \eta_0}\,\eta_1'$ ("sharp")

    The paper considers biases within 1.1 D and subtracts the rotation's speed from the rate:

    $s_1 \le \frac1{1 - \eta_0 - \eta_1'}\log\frac1\gamma$, $\quad\eta_1' = 1.1\,D\eta_1$,
    $\quad\eta_2 = \frac{\eta_1'}{1 - \eta_0 - \eta_1'}\log\frac1\gamma$ ("printed")

    The constants are bounds over all these biases and rotations, taken separately for each point and component:
    $(R(x - \tilde y))_r$ is at most $|x - \tilde y|\cos(\theta - \varphi)$, where $\theta$ is the angle between
    $x - \tilde y$ and row r of R(0), and $\varphi = 2\arcsin\frac{\eta_2}2$. At $\eta_2 = 0$, $\eta_0$ and $\gamma$ are
    exact and $\eta_1$ is an upper bound; beyond that, different points may be given different rotations. All constants
    get worse with $\eta_2$, and $\eta_2$ with them: the least radius that contains the rotation's path is found from 0
    upwards, and no other gives a smaller bound.

    Source:
        Chen, arXiv:2501.07400, proposition 4.2 and its proof, with $\eta_1'$ in both places in $\eta_2$, which 4.13 and
        4.32 print in two other ways. The proof does not use the limits of 1/10 on $\eta_0$, $\eta_1$ and $\gamma$, so
        they are left out. "sharp" uses that the rotation's generator is antisymmetric, that the distance never grows,
        and the factor 1/2 in the generator (docs/errata.md).
    Args:
        points: the samples of the cluster.
        target: $\tilde y$, the label's preimage in input space.
        beta: the cumulative bias at time 0.
        rotation: R(0), orthogonal.
        estimates: "sharp" or "printed".
    Returns:
        A bound of 0 where all points are truncated at time 0 and stay so. Everything is invariant under rotations of
        the input space. The bound depends on the unit of points, since R rotates at a speed proportional to its square:
        the smaller the points, the more easily the hypotheses hold.
    Raises:
        ShapeError: if points are not (n q), or if target, beta and rotation do not have their width.
        EmptyError: if there are no points.
        RangeError: at NaN or infinity, mixed dtypes, a rotation that is not orthogonal to half the digits of its dtype,
            a bias that is minus the target from the start, distances whose squares are beyond the result's dtype, or
            unknown estimates.
    Cost: O(n q²) for each enlargement of the radius. Precision: that of the dtype: a point within rounding of its cut
        may count as truncated. Half precision is computed in float32, which the result stays in.
    Example:
        >>> import torch, gnomon
        >>> points = torch.tensor([[-0.05], [-0.4], [-0.4], [-0.4]])
        >>> found = gnomon.truncation_time_bound(points, torch.zeros(1), torch.full((1,), 0.1), torch.eye(1))
        >>> found.eta0, found.gamma, found.bound  # log(2) / (1 - 1/4)
        (tensor(0.2500), tensor(0.5000), tensor(0.9242))
    """
    require_one_cluster(points=points, target=target, beta=beta, rotation=rotation)
    # In half precision a point may be rounded onto its cut, and the bound to below the time.
    points, target, beta, rotation = map(in_single, (points, target, beta, rotation))
    distance = torch.linalg.vector_norm(beta + target)
    _checks.settings(
        ("distance of beta from minus the target", float(distance.detach()), "above 0", bool(distance > 0)),
        ("estimates", estimates, "'sharp' or 'printed'", estimates in ("sharp", "printed")),
    )
    farthest = distance + torch.linalg.vector_norm(points - target, dim=1).amax()
    _checks.held("points, target, beta", "squares of distances", farthest**2)
    eta2 = torch.zeros_like(distance)
    for _ in range(STEPS):
        found = _at_radius(points - target, rotation, distance, eta2, estimates)
        if found.failed is not None or found.eta2 <= eta2:
            return found
        # A little more than needed, so that a radius that contains the path is reached and not only approached.
        eta2 = found.eta2 * (1 + 1e-6)
    return replace(found, bound=torch.full_like(distance, torch.inf), failed="no eta_2 holds the rotation's way (4.29)")


def _at_radius(
    offsets: Float[Tensor, "n q"],
    rotation: Float[Tensor, "q q"],
    distance: Float[Tensor, ""],
    radius: Float[Tensor, ""],
    estimates: Estimates,
) -> TruncationTimeBound:
    """The bound for rotations within a radius; `eta2` is how far the rotation moves, which the radius has to cover."""
    printed = estimates == "printed"
    reach = 1.1 * distance if printed else distance
    length = torch.linalg.vector_norm(offsets, dim=1, keepdim=True)
    highest = _highest_components(offsets, length, rotation, radius)
    unsure = highest + reach > 0
    eta0 = unsure.to(offsets.dtype).mean(0).amax()
    eta1 = (unsure.any(1, keepdim=True) * (length + reach)).mean()
    gamma = (-highest.amax() / distance).clamp(max=1)
    eta1_prime = eta1 * reach if printed else eta1 * reach / 2
    rate = 1 - eta0 - eta1_prime if printed else 1 - eta0
    if gamma <= 0:
        failed = "translation of all points into the negative sector (4.16)"
    elif eta0 >= 1:
        failed = "concentration in the complement of the positive sector (4.14): eta_0 is not below 1"
    elif rate <= 0:
        failed = "a small first moment in mixed sectors (4.15): eta_0 + eta_1' is not below 1"
    else:
        bound = (1 / gamma).log() / rate
        way = eta1_prime * (bound if printed else (1 - gamma) / rate)
        return TruncationTimeBound(bound, eta0, eta1, eta1_prime, way, gamma, None)
    none = torch.full_like(distance, torch.inf)
    return TruncationTimeBound(none, eta0, eta1, eta1_prime, radius, gamma, failed)


def _highest_components(
    offsets: Float[Tensor, "n q"],
    length: Float[Tensor, "n 1"],
    rotation: Float[Tensor, "q q"],
    radius: Float[Tensor, ""],
) -> Float[Tensor, "n q"]:
    """The largest that each component of each rotated offset can be, for rotations within a radius of the given one."""
    along = offsets @ rotation.mT
    # From the other components, since length² - along² would cost half the digits.
    across = root(along**2 @ (1 - identity(rotation)))
    # A row of the rotation turns by this angle at most, and towards the offset no further than onto it.
    angle = 2 * torch.asin(radius.clamp(max=2) / 2)
    onto = torch.atan2(across, along) <= angle
    return torch.where(onto, length, along * torch.cos(angle) + across * torch.sin(angle))
