"""Gradient flow of truncation maps one after the other, each acting on all clusters."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.dynamics._faces import Sides, State
from gnomon.dynamics._piecewise import Crossings, Reading, Walk, in_float64, increasing, initial_state
from gnomon.errors import EmptyError, ShapeError


@dataclass(frozen=True)
class GeneralOrbit:
    r"""Truncation maps on their way, at the times that were asked for.

    Attributes:
        times: (t).
        beta: (t l q), the cumulative biases.
        rotation: (t l q q), the orthogonal cumulative weights R.
        loss: (t).
        rates: (t 2), at which all β and all R change the loss: $-\sum_l\|\dot\beta_l\|^2$, $-\sum_l\|\dot R_l\|_F^2$.
        decrease: (t 2), by how much they have lowered it: their sum is the first loss less `loss`.
        truncated: (t l k q), how many points of each cluster each layer truncates in each coordinate, those on the face
            among them.
        crossings: what happened at the faces up to the last time.
    """

    times: Float[Tensor, "t"]
    beta: Float[Tensor, "t l q"]
    rotation: Float[Tensor, "t l q q"]
    loss: Float[Tensor, "t"]
    rates: Float[Tensor, "t 2"]
    decrease: Float[Tensor, "t 2"]
    truncated: Int[Tensor, "t l k q"]
    crossings: Crossings


class GeneralFlow:
    r"""Gradient flow of L truncation maps one after the other.

    $\tau_l(x) = R_l^\top\operatorname{relu}(R_l(x + \beta_l)) - \beta_l$,
    $\dot\beta_l = \sum_iw_iR_l^\top(1 - H_l)R_l\,g_l$ and $\dot R_l = \Omega_lR_l$,
    $\quad\Omega_l = -\frac12\sum_iw_i[H_l,\; R_lg_lv_l^\top R_l^\top + R_lv_lg_l^\top R_l^\top]$

    on the loss $\frac12\sum_iw_i\|\tau(x_i) - \tilde y_i\|^2$ of $\tau = \tau_L\circ\dots\circ\tau_1$, where $w_i$ is
    one over the size of the point's cluster. For each point $v_l$ is what comes to layer l plus $\beta_l$, $H_l$ the
    diagonal of 1 where $R_lv_l > 0$ and 0 elsewhere, and
    $g_l = (R_{l+1}^\top H_{l+1}R_{l+1})\cdots(R_L^\top H_LR_L)(\tau(x) - \tilde y)$, taken from the last layer back.

    A point on a face at the start counts as truncated unless it is driven up. Where both sides of a face drive a point
    to it, it slides along: Filippov's solution, still a descent. Points that slide together share one side. With one
    layer and one cluster this is `TruncationFlow`.

    Source:
        Chen, arXiv:2501.07400, theorem 5.1. Departs from (5.4): the projector is that of layer l, the sum runs over all
        clusters, and the sign is plus (docs/errata.md).
    Args:
        points: (n q), of all clusters. In float64.
        labels: (n), the cluster of each.
        targets: (k q), $\tilde y$ of each cluster; no cluster may be empty.
    Raises:
        ShapeError: if points, labels and targets do not fit.
        EmptyError: if there are no points, or none in a cluster.
        RangeError: if points or targets are not in float64, or hold NaN or infinity, or at a label that is no cluster.
    Example:
        >>> import torch, gnomon
        >>> points, target = torch.tensor([[0.0], [1.0]]).double(), torch.tensor([[2.0]]).double()
        >>> clusters = gnomon.GeneralFlow(points, torch.tensor([0, 0]), target)
        >>> one = torch.eye(1).double()[None]
        >>> orbit = clusters.flow(0 * one[0], one, torch.tensor([1.0]).double())
        >>> torch.testing.assert_close(orbit.beta[0, 0, 0] + 2, 2 * torch.tensor(-0.5).double().exp())
    """

    @full_precision
    def __init__(self, points: Float[Tensor, "n q"], labels: Int[Tensor, "n"], targets: Float[Tensor, "k q"]) -> None:
        where = "GeneralFlow"
        _checks.samples(where, points=points)
        _checks.samples(where, targets=targets)
        if points.ndim != 2 or targets.shape[1:] != points.shape[1:]:
            raise ShapeError(
                "targets",
                "points (n, q) and targets (k, q)",
                f"{_checks.shape_of(points)} and {_checks.shape_of(targets)}",
                "Pass one target for each cluster.",
                where=where,
            )
        in_float64(where, points=points, targets=targets)
        _checks.class_labels(where, labels, len(points), len(targets))
        labels = labels.long()
        sizes = torch.bincount(labels, minlength=len(targets))
        if not sizes.all():
            raise EmptyError(
                "labels",
                "points in every cluster",
                f"none in {int(sizes.argmin())}",
                "Leave its target out, and count the clusters from 0.",
                where=where,
            )
        self.points, self.labels, self.targets = points.detach(), labels, targets.detach()
        self._at, self._to = self.points.cpu().numpy(), self.targets[labels].cpu().numpy()
        self._places = np.unique(self._at, axis=0, return_inverse=True)[1].ravel()
        self._weights = (1 / sizes.double())[labels, None].cpu().numpy()
        self._members = torch.nn.functional.one_hot(labels.long(), len(targets)).T.cpu().numpy()

    @full_precision
    def flow(
        self,
        beta: Float[Tensor, "l q"],
        rotation: Float[Tensor, "l q q"],
        times: Float[Tensor, "t"],
        *,
        rtol: float = 1e-12,
    ) -> GeneralOrbit:
        """The flow from time 0, by SciPy's Runge-Kutta method of order 8 from one crossing of a face to the next.

        Each R is the polar factor of what is integrated, orthogonal to rounding. Not differentiable.

        Args:
            beta: β of each layer at time 0, as many layers as wanted; unit: of the points.
            rotation: R of each at time 0, orthogonal; a reflection is one.
            times: from 0 on, strictly increasing, the last above 0; unit: of gradient flow on `loss`.
            rtol: the integrator's relative tolerance; its absolute one is a hundredth of it, for β in units of the
                largest height at the start.
        Returns:
            The orbit; it turns and shifts with the data. A crossing to and fro within an eighth of a step is not seen.
        Raises:
            ShapeError: if β and R do not fit the points.
            RangeError: if an R is not orthogonal, or the times are not so, or anything is NaN, infinite or beyond
                1e70, or rtol is not from 1e-13 to 0.001.
            ConvergenceError: if the integrator gives up, or needs more than 50,000 right sides, or no way on is found
                where many points meet at faces, as those of a lattice may.
        Cost: for each crossing some fifty passes forwards and back, O(l n q²) each.
        """
        where = "GeneralFlow.flow"
        moments = increasing(where, times)
        _checks.settings(where, ("rtol", rtol, "from 1e-13 to 0.001", 1e-13 <= rtol <= 1e-3))
        start = initial_state(where, beta, rotation, self.points.shape[1])
        walk = Walk(where, self, start, self.sides(start), rtol)
        readings: list[Reading] = []
        for time in moments:
            while walk.now < time:
                walk.step(time)
            readings.append(walk.reading())
        return self.seen(walk, readings)

    @full_precision
    def velocity_at(
        self, beta: Float[Tensor, "l q"], rotation: Float[Tensor, "l q q"]
    ) -> tuple[Float[Tensor, "l q"], Float[Tensor, "l q q"]]:
        """The right sides at given β and R, a point on a face taken as truncated; arguments and errors as in `flow`."""
        state = initial_state("GeneralFlow.velocity_at", beta, rotation, self.points.shape[1])
        velocity = torch.from_numpy(self.velocity(self.sides(state))(state)).to(self.points)
        return velocity[:, 0], velocity[:, 1:]

    def sides(self, state: State) -> Sides:
        """1 above the faces, 0 on and below them."""
        images, sides = self._at, []
        for layer in state:
            heights = (images + layer[0]) @ layer[1:].T
            sides.append((heights > 0).astype(float))
            images = np.maximum(heights, 0) @ layer[1:] - layer[0]
        return np.stack(sides)

    def heights(self, state: State, sides: Sides) -> Sides:
        """R(x + β) of what comes to each layer."""
        return self.passed(state, sides)[0]

    def passed(self, state: State, sides: Sides) -> tuple[Sides, Shaped[np.ndarray, "_ _"]]:
        """The heights in each layer, (l n q), and the images after the last, (n q)."""
        images, heights = self._at, []
        for layer, side in zip(state, sides, strict=True):
            heights.append((images + layer[0]) @ layer[1:].T)
            images = (side * heights[-1]) @ layer[1:] - layer[0]
        return np.stack(heights), images

    def velocity(self, sides: Sides) -> Callable[[State], State]:
        """The right side for these sides."""

        def at(state: State) -> State:
            heights, images = self.passed(state, sides)
            pull, velocity = self._weights * (images - self._to), np.empty_like(state)
            for index in reversed(range(len(state))):
                rotation, side, height = state[index, 1:], sides[index], heights[index]
                turned = pull @ rotation.T
                kept = side * turned
                change = (side * height).T @ turned + kept.T @ height
                velocity[index, 0] = (turned - kept).sum(0) @ rotation
                velocity[index, 1:] = (change.T - change) / 2 @ rotation
                pull = kept @ rotation
            return velocity

        return at

    def places(self, sides: Sides) -> Int[np.ndarray, "l n"]:
        """Points are in one place if they coincide, and behind a layer that truncates them fully; sides part them."""
        places, found = self._places, []
        for side in sides:
            found.append(places)
            rows = np.column_stack([places * side.any(1), side])
            places = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
        return np.stack(found)

    def seen(self, walk: Walk, readings: list[Reading]) -> GeneralOrbit:
        """The orbit."""
        states = np.stack([reading.state for reading in readings])
        squares = np.stack([reading.velocity**2 for reading in readings])
        errors = np.stack([self.passed(state, self.sides(state))[1] for state in states]) - self._to
        numbers = {
            "times": [reading.time for reading in readings],
            "beta": states[:, :, 0],
            "rotation": states[:, :, 1:],
            "loss": (self._weights * errors**2).sum((1, 2)) / 2,
            "rates": -np.stack([squares[:, :, 0].sum((1, 2)), squares[:, :, 1:].sum((1, 2, 3))], 1),
            "decrease": [reading.spent for reading in readings],
        }
        truncated = np.stack([self._members @ (reading.sides < 1) for reading in readings])
        return GeneralOrbit(
            **{name: torch.from_numpy(np.asarray(value)).to(self.points) for name, value in numbers.items()},
            truncated=torch.from_numpy(truncated).to(self.points.device),
            crossings=Crossings.of(walk.crossings, self.points),
        )
