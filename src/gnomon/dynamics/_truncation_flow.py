"""Gradient flow of one truncation map on one cluster: the effective equations of the cumulative bias and weight."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.dynamics._faces import Sides, State
from gnomon.dynamics._piecewise import Crossings, Reading, Walk, in_float64, increasing, initial_state
from gnomon.errors import ShapeError


@dataclass(frozen=True)
class TruncationOrbit:
    r"""A truncation map on its way, at the times that were asked for.

    Attributes:
        times: (t).
        beta: (t q), the cumulative bias.
        rotation: (t q q), the orthogonal cumulative weight R.
        loss: (t).
        rates: (t 2), at which β and R change the loss, $-\|\dot\beta\|^2$ and $-\|\dot R\|_F^2$.
        decrease: (t 2), by how much β and R have lowered it: their sum is the first loss less `loss`.
        truncated: (t q), how many points are truncated in each coordinate, those on the face among them.
        crossings: what happened at the faces up to the last time.
        collapse: (), the time $s_1$ from which on all points are truncated in all coordinates for good; infinite if
            that is not so at the last time.
        equilibrium: "untruncated" if in the end no point is truncated, and nothing moves; "truncated" if all are, for
            good, so that R stays and β decays to minus the target; else None.
    """

    times: Float[Tensor, "t"]
    beta: Float[Tensor, "t q"]
    rotation: Float[Tensor, "t q q"]
    loss: Float[Tensor, "t"]
    rates: Float[Tensor, "t 2"]
    decrease: Float[Tensor, "t 2"]
    truncated: Int[Tensor, "t q"]
    crossings: Crossings
    collapse: Float[Tensor, ""]
    equilibrium: Literal["untruncated", "truncated"] | None


class TruncationFlow:
    r"""Gradient flow of the truncation map $\tau(x) = R^\top\operatorname{relu}(R(x + \beta)) - \beta$ of one cluster.

    $\dot\beta = -R^\top(1 - P)c$ and $\dot R = \Omega R$ with $\Omega = \frac1{2n}\sum_i[H_i, cc^\top - a_ia_i^\top]$

    on the loss $\frac1{2n}\sum_i\|\tau(x_i) - \tilde y\|^2$, with $c = R(\beta + \tilde y)$, $a_i = R(x_i - \tilde y)$,
    the diagonal $H_i$ of 1 where $R(x_i + \beta) > 0$ and 0 elsewhere, and P their mean. The metric of the orthogonal
    matrices is $\operatorname{Tr}A^\top B$. Where the truncations of several clusters are separated, each flows alone.

    The points enter by moments alone, the means over them of $h_{ir}$ and of
    $h_{ir}(x_i - \tilde y)(x_i - \tilde y)^\top$, constant from one crossing of a face to the next. A point on a face
    at the start counts as truncated unless it is driven up. Where both sides of a face drive a point to it, it slides
    along: Filippov's solution, still a descent.

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
        where = "TruncationFlow"
        _checks.samples(where, points=points)
        if points.ndim != 2 or target.shape != points.shape[1:]:
            raise ShapeError(
                "target",
                "points (n, q) and a target (q,)",
                f"{_checks.shape_of(points)} and {_checks.shape_of(target)}",
                "Pass one target for the whole cluster.",
                where=where,
            )
        in_float64(where, points=points, target=target)
        self.points, self.target = points.detach(), target.detach()
        self._at, self._to = self.points.cpu().numpy(), self.target.cpu().numpy()
        self._apart = self._at - self._to
        self._places = np.unique(self._at, axis=0, return_inverse=True)[1].reshape(1, -1)

    @full_precision
    def flow(
        self,
        beta: Float[Tensor, "q"],
        rotation: Float[Tensor, "q q"],
        times: Float[Tensor, "t"],
        *,
        rtol: float = 1e-12,
    ) -> TruncationOrbit:
        """The flow from time 0, by SciPy's Runge-Kutta method of order 8 from one crossing of a face to the next.

        R is the polar factor of what is integrated, orthogonal to rounding. Once all points are truncated for good the
        rest is exact: R stays, β + ỹ decays with $e^{-s}$. Not differentiable.

        Args:
            beta: β at time 0; unit: of the points.
            rotation: R at time 0, orthogonal; a reflection is one.
            times: from 0 on, strictly increasing, the last above 0; unit: of gradient flow on `loss`.
            rtol: the integrator's relative tolerance; its absolute one is a hundredth of it, for β in units of the
                largest height at the start.
        Returns:
            The orbit; it turns and shifts with the data. A crossing to and fro within an eighth of a step is not seen.
        Raises:
            ShapeError: if β or R do not fit the points.
            RangeError: if R is not orthogonal, or the times are not so, or anything is NaN, infinite or beyond
                1e70, or rtol is not from 1e-13 to 0.001.
            ConvergenceError: if the integrator gives up, or needs more than 50,000 right sides, or no way on is found
                where many points meet at faces, as those of a lattice may.
        Cost: for each crossing some twenty right sides, O(q³) each, and as many looks at all points, O(n q²).
        """
        where = "TruncationFlow.flow"
        moments = increasing(where, times)
        _checks.settings(where, ("rtol", rtol, "from 1e-13 to 0.001", 1e-13 <= rtol <= 1e-3))
        start = initial_state(where, beta[None], rotation[None], self.points.shape[1])
        walk = Walk(where, self, start, self.sides(start), rtol)
        readings: list[Reading] = []
        for time in moments:
            while walk.now < time and not self.rests(walk):
                walk.step(time)
            readings.append(walk.reading() if walk.now == time else self.decayed(walk.reading(), time))
        return self.seen(walk, readings)

    @full_precision
    def velocity_at(
        self, beta: Float[Tensor, "q"], rotation: Float[Tensor, "q q"]
    ) -> tuple[Float[Tensor, "q"], Float[Tensor, "q q"]]:
        """The right sides at a β and an R, a point on a face taken as truncated; arguments and errors as in `flow`."""
        where = "TruncationFlow.velocity_at"
        state = initial_state(where, beta[None], rotation[None], self.points.shape[1])
        velocity = torch.from_numpy(self.velocity(self.sides(state))(state)[0]).to(self.points)
        return velocity[0], velocity[1:]

    @full_precision
    def clearance(self, others: Float[Tensor, "m q"], orbit: TruncationOrbit) -> Float[Tensor, "t"]:
        """The least height of other points over the faces, at each time; where above 0, the map leaves them alone.

        Clusters flow alone as long as each map leaves the points of clusters before it as they are mapped, and of those
        after it as they are.
        """
        heights = (others + orbit.beta[:, None]) @ orbit.rotation.mT
        return heights.amin((1, 2))

    def sides(self, state: State) -> Sides:
        """1 above the faces, 0 on and below them."""
        return (self.heights(state, np.empty((0, 0, 0))) > 0).astype(float)

    def heights(self, state: State, sides: Sides) -> Sides:
        """R(x + β), whatever the sides."""
        return (self._at + state[:, :1]) @ state[:, 1:].swapaxes(1, 2)

    def velocity(self, sides: Sides) -> Callable[[State], State]:
        """The right side, from the moments for these sides."""
        kept = sides[0].mean(0)
        second = np.stack([(self._apart * side[:, None]).T @ self._apart for side in sides[0].T]) / len(self._at)

        def at(state: State) -> State:
            beta, rotation = state[0, 0], state[0, 1:]
            c = rotation @ (beta + self._to)
            pulled = np.outer(kept * c, c) - np.einsum("ri,rij,kj->rk", rotation, second, rotation)
            change = -((1 - kept) * c) @ rotation
            return np.concatenate([change[None], (pulled - pulled.T) / 2 @ rotation])[None]

        return at

    def places(self, sides: Sides) -> Int[np.ndarray, "1 n"]:
        """Points are in one place if they coincide, whatever their sides."""
        return self._places

    def rests(self, walk: Walk) -> bool:
        """Whether all points are truncated for good: now, and where β is minus the target."""
        return not walk.sides.any() and not walk.sliding.any() and bool((self._apart @ walk.state[0, 1:].T <= 0).all())

    def decayed(self, reading: Reading, time: float) -> Reading:
        """What there is at a later time, given that all points are truncated for good."""
        factor, offset = np.exp(reading.time - time), reading.state[0, 0] + self._to
        state, velocity = reading.state.copy(), np.zeros_like(reading.state)
        state[0, 0], velocity[0, 0] = factor * offset - self._to, -factor * offset
        spent = reading.spent + np.array([(1 - factor**2) * (offset @ offset) / 2, 0])
        return Reading(time, state, velocity, reading.sides, spent)

    def loss_of(self, state: State) -> float:
        """The mean over points of half the squared distance of their images to the target."""
        images = np.maximum(self.heights(state, np.empty((0, 0, 0))), 0)[0] @ state[0, 1:] - state[0, 0]
        return float(((images - self._to) ** 2).sum() / 2 / len(images))

    def seen(self, walk: Walk, readings: list[Reading]) -> TruncationOrbit:
        """The orbit."""
        states = np.stack([reading.state[0] for reading in readings])
        squares = np.stack([reading.velocity[0] ** 2 for reading in readings])
        numbers = {
            "times": [reading.time for reading in readings],
            "beta": states[:, 0],
            "rotation": states[:, 1:],
            "loss": [self.loss_of(reading.state) for reading in readings],
            "rates": -np.stack([squares[:, 0].sum(1), squares[:, 1:].sum((1, 2))], 1),
            "decrease": [reading.spent for reading in readings],
            "collapse": walk.now if self.rests(walk) else np.inf,
        }
        truncated = np.stack([(reading.sides[0] < 1).sum(0) for reading in readings])
        untruncated = bool(walk.sides.all()) and not walk.sliding.any()
        return TruncationOrbit(
            **{name: torch.from_numpy(np.asarray(value)).to(self.points) for name, value in numbers.items()},
            truncated=torch.from_numpy(truncated).to(self.points.device),
            crossings=Crossings.of(walk.crossings, self.points),
            equilibrium="untruncated" if untruncated else "truncated" if self.rests(walk) else None,
        )
