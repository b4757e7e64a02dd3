"""Gradient flow of one truncation map on one cluster: the effective equations of the cumulative bias and weight."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.dynamics._general_flow import GeneralFlow
from gnomon.dynamics._integration import require_float64
from gnomon.dynamics._truncation_orbit import TruncationOrbit
from gnomon.errors import ShapeError


class TruncationFlow(GeneralFlow):
    r"""Gradient flow of the truncation map $\tau(x) = R^\top\operatorname{relu}(R(x + \beta)) - \beta$ of one cluster.

    $\dot\beta = -R^\top(1 - P)c$ and $\dot R = \Omega R$ with $\Omega = \frac1{2n}\sum_i[H_i, cc^\top - a_ia_i^\top]$

    on the loss $\frac1{2n}\sum_i\|\tau(x_i) - \tilde y\|^2$, with $c = R(\beta + \tilde y)$, $a_i = R(x_i - \tilde y)$,
    the diagonal matrix $H_i$ with 1 where $R(x_i + \beta) > 0$ and 0 elsewhere, and P their mean. The metric on the
    orthogonal matrices is $\operatorname{Tr}A^\top B$. Where the truncations of several clusters are separated, each
    flows independently.

    This is the case of one layer and one cluster of `GeneralFlow`. The points enter through moments alone, the means
    over them of $h_{ir}$ and of $h_{ir}(x_i - \tilde y)(x_i - \tilde y)^\top$, constant from one event at a
    discontinuity surface to the next. A point on a surface at the start counts as truncated unless it is driven up.
    Where both sides of a surface drive a point to it, it slides along the surface: Filippov's solution, still a
    descent.

    Source:
        Chen, arXiv:2501.07400, theorem 3.2 and corollary 3.5. Departs from (3.25), whose $\Omega$ lacks
        $-\frac12[H, xx^\top]$, so that second moments enter, and from the factors and signs of (3.41), (4.1) and (4.3)
        (docs/errata.md).
    Args:
        points: the cluster, (n q). In float64.
        target: $\tilde y$, (q): where the truncated points should be.
    Raises:
        ShapeError: if the points are not (n q), or the target not (q).
        EmptyError: if there are no points.
        RangeError: if they are not in float64, or hold NaN or infinity.
    Example:
        >>> import torch, gnomon
        >>> cluster = gnomon.TruncationFlow(torch.tensor([[0.0], [1.0]]).double(), torch.tensor([2.0]).double())
        >>> orbit = cluster.flow(torch.zeros(1).double(), torch.eye(1).double(), torch.tensor([0.0, 3.0]).double())
        >>> torch.testing.assert_close(orbit.collapse, 2 * torch.tensor(2.0).double().log())
    """

    @full_precision
    def __init__(self, points: Float[Tensor, "n q"], target: Float[Tensor, "q"]) -> None:
        _checks.samples(points=points)
        if points.ndim != 2 or target.shape != points.shape[1:]:
            raise ShapeError(
                "target",
                "points (n, q) and a target (q,)",
                f"{_checks.shape_of(points)} and {_checks.shape_of(target)}",
                "Pass one target for the whole cluster.",
            )
        require_float64(points=points, target=target)
        self.points, self.target = points.detach().clone(), target.detach().clone()
        self.targets = self.target[None]
        self.labels = torch.zeros(len(points), dtype=torch.long, device=points.device)
        self._centre()

    @full_precision
    def flow(
        self,
        beta: Float[Tensor, "q"],
        rotation: Float[Tensor, "q q"],
        times: Float[Tensor, "t"],
        *,
        rtol: float = 1e-12,
    ) -> TruncationOrbit:
        """As `GeneralFlow.flow`, for one β and one R.

        Args:
            beta: β at time 0; unit: of the points.
            rotation: R at time 0, orthogonal; reflections are allowed.
            times: from 0 on, strictly increasing, the last above 0; unit: of gradient flow on `loss`.
            rtol: the integrator's relative tolerance; its absolute one is a hundredth of it, for β in units of the
                largest height of a point or a target at the start.
        Returns:
            The orbit, without axes of layers and clusters.
        Cost: for each step, which an event ends, 25 to 50 right-hand sides, O(q⁴) each, and 15 to 40 passes over all
            points, O(n q²); both 40 to 65 times m + 1 while m surfaces are slid along; once, at the start, O(n q³).
        """
        orbit = self._flow(beta[None], rotation[None], times, rtol)
        beta, rotation, truncated = orbit.beta[:, 0], orbit.rotation[:, 0], orbit.truncated[:, 0, 0]
        return replace(orbit, beta=beta, rotation=rotation, truncated=truncated)

    @full_precision
    def velocity_at(
        self, beta: Float[Tensor, "q"], rotation: Float[Tensor, "q q"]
    ) -> tuple[Float[Tensor, "q"], Float[Tensor, "q q"]]:
        """The right-hand sides at a β and an R, points on surfaces counted as truncated; errors as in `flow`."""
        of_beta, of_rotation = self._velocity_at(beta[None], rotation[None])
        return of_beta[0], of_rotation[0]

    @full_precision
    def clearance(self, others: Float[Tensor, "m q"], orbit: TruncationOrbit) -> Float[Tensor, "t"]:
        """The least height of other points over the surfaces, at each time; where above 0, they are left unchanged.

        Clusters flow independently as long as each map leaves unchanged the images of the clusters before it, and the
        points of the clusters after it.

        Args:
            others: (m q). In float64.
            orbit: what `flow` returned.
        Raises:
            ShapeError: if the points are not (m q), or the orbit not one of a single map of this width.
            EmptyError: if there are no points.
            RangeError: if they are not in float64, or hold NaN or infinity.
        """
        _checks.samples(others=others)
        if not others.shape[1:] == orbit.beta.shape[1:] == self.target.shape:
            raise ShapeError(
                "others, orbit",
                f"(m, {len(self.target)}) and an orbit with beta (t, {len(self.target)})",
                f"{_checks.shape_of(others)} and beta {_checks.shape_of(orbit.beta)}",
                "Pass points of this space, and what this flow returned.",
            )
        require_float64(others=others)
        heights = (others + orbit.beta[:, None]) @ orbit.rotation.mT
        return heights.amin((1, 2))
