"""Gradient flow of truncation maps applied one after the other, each to all clusters."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.dynamics._clusters import Clusters
from gnomon.dynamics._filippov import Coefficients, Snapshot, State, SwitchingEvents, Trajectory
from gnomon.dynamics._integration import increasing_times, require_float64, require_rtol
from gnomon.dynamics._truncation_orbit import TruncationOrbit
from gnomon.errors import EmptyError, RangeError, ShapeError

DEFECT = 1e-9
"""How far R Rᵀ may be from the identity, in its largest entry, for R to be taken as orthogonal."""


class GeneralFlow:
    r"""Gradient flow of L truncation maps applied one after the other.

    $\tau_l(x) = R_l^\top\operatorname{relu}(R_l(x + \beta_l)) - \beta_l$,
    $\dot\beta_l = \sum_iw_iR_l^\top(1 - H_l)R_l\,g_l$ and $\dot R_l = \Omega_lR_l$,
    $\quad\Omega_l = -\frac12\sum_iw_i[H_l,\; R_lg_lv_l^\top R_l^\top + R_lv_lg_l^\top R_l^\top]$

    on the loss $\frac12\sum_iw_i\|\tau(x_i) - \tilde y_i\|^2$ of $\tau = \tau_L\circ\dots\circ\tau_1$, where $w_i$ is
    one over the size of the point's cluster. For each point, $v_l$ is the input of layer l plus $\beta_l$, $H_l$ the
    diagonal matrix with 1 where $R_lv_l > 0$ and 0 elsewhere, and
    $g_l = (R_{l+1}^\top H_{l+1}R_{l+1})\cdots(R_L^\top H_LR_L)(\tau(x) - \tilde y)$, computed from the last layer back.

    A point on a discontinuity surface, $(R_lv_l)_r = 0$, counts as truncated at the start unless it is driven up. Where
    both sides of a surface drive a point to it, it slides along the surface: Filippov's solution, still a descent.
    Points that slide together share one coefficient. `TruncationFlow` is the case of one layer and one cluster.

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
        RangeError: if points or targets are not in float64, or hold NaN or infinity, or at a label that is not a
            cluster.
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
        _checks.samples(points=points)
        _checks.samples(targets=targets)
        if points.ndim != 2 or targets.shape[1:] != points.shape[1:]:
            raise ShapeError(
                "targets",
                "points (n, q) and targets (k, q)",
                f"{_checks.shape_of(points)} and {_checks.shape_of(targets)}",
                "Pass one target for each cluster.",
            )
        require_float64(points=points, targets=targets)
        _checks.class_labels(labels, len(points), len(targets))
        labels = labels.clone().long()
        sizes = torch.bincount(labels, minlength=len(targets))
        if not sizes.all():
            raise EmptyError(
                "labels",
                "points in every cluster",
                f"none in {int(sizes.argmin())}",
                "Leave its target out, and count the clusters from 0.",
            )
        self.points, self.labels, self.targets = points.detach().clone(), labels, targets.detach().clone()
        self._centre()

    @full_precision
    def flow(
        self,
        beta: Float[Tensor, "l q"],
        rotation: Float[Tensor, "l q q"],
        times: Float[Tensor, "t"],
        *,
        rtol: float = 1e-12,
    ) -> TruncationOrbit:
        """The flow from time 0, by SciPy's Runge-Kutta method of order 8 from one event at a surface to the next.

        Each R is the polar factor of what is integrated, orthogonal up to rounding. Once a single map truncates all
        points permanently, the rest is exact: R stays fixed, and β decays to minus the targets' mean. Not
        differentiable.

        Args:
            beta: β of each layer at time 0, as many layers as wanted; unit: of the points.
            rotation: R of each layer at time 0, orthogonal; reflections are allowed.
            times: from 0 on, strictly increasing, the last above 0; unit: of gradient flow on `loss`.
            rtol: the integrator's relative tolerance; its absolute one is a hundredth of it, for β in units of the
                largest height of a point or a target at the start.
        Returns:
            The orbit; it rotates and shifts with the data. Two crossings of a surface within an eighth of a step are
            not detected.
        Raises:
            ShapeError: if β and R do not fit the points.
            RangeError: if an R is not orthogonal, or the times are not as described, or anything is NaN or infinite,
                or heights R(x + β) or R(ỹ + β) at the start are beyond 1e70, or rtol is not from 1e-13 to 0.001.
            ConvergenceError: if the integrator gives up, or needs more right-hand sides between two times than 20,000
                and than 30 per layer, point and coordinate, or finds no continuation where many points meet at
                surfaces, as those of a lattice may, or if rounding takes points past surfaces, or off those that they
                slide along, as at a large rtol.
        Cost: for each step, which an event ends, about thirty forward and backward passes, O(l n q²) each; while m
            surfaces are slid along, 45 to 110 times m + 1. With one layer, points enter through the clusters' moments:
            25 to 50 right-hand sides, O(k q² + q⁴) each, and 15 to 40 passes over all points, O(n q²), both 40 to 65
            times m + 1 while points slide; once, at the start, O(n q³).
        """
        return self._flow(beta, rotation, times, rtol)

    @full_precision
    def velocity_at(
        self, beta: Float[Tensor, "l q"], rotation: Float[Tensor, "l q q"]
    ) -> tuple[Float[Tensor, "l q"], Float[Tensor, "l q q"]]:
        """The right-hand sides at given β and R, points on surfaces counted as truncated; arguments as in `flow`."""
        return self._velocity_at(beta, rotation)

    def velocity(self, coefficients: Coefficients) -> Callable[[State], State]:
        """The right-hand side for these coefficients, which are the diagonals of the matrices H.

        For the integrator, as are `heights`, `scale` and `places`: the β of its states are those of the shifted data.
        """
        if len(coefficients) == 1:
            return self._clusters.velocity(coefficients[0])

        def velocity(state: State) -> State:
            heights, change = self.heights(state, coefficients), np.empty_like(state)
            pull = self._clusters.weights * (_images(state[-1], coefficients[-1] * heights[-1]) - self._clusters.goals)
            for index in reversed(range(len(state))):
                rotation, alpha, height = state[index, 1:], coefficients[index], heights[index]
                turned = pull @ rotation.T
                kept = alpha * turned
                turning = (alpha * height).T @ turned + kept.T @ height
                change[index, 0] = (turned - kept).sum(0) @ rotation
                change[index, 1:] = (turning.T - turning) / 2 @ rotation
                pull = kept @ rotation
            return change

        return velocity

    def heights(self, state: State, coefficients: Coefficients) -> Coefficients:
        """R(x + β) for the inputs x of each layer, (l n q)."""
        heights = [_heights(state[0], self._clusters.points)]
        for layer, alpha, following in zip(state, coefficients, state[1:], strict=False):
            heights.append(_heights(following, _images(layer, alpha * heights[-1])))
        return np.array(heights)

    def scale(self, state: State, coefficients: Coefficients) -> float:
        """The largest height of a point or a target: β moves to minus targets, however tight the clusters are."""
        of_targets = [_heights(layer, self._clusters.targets) for layer in state]
        return float(max(np.abs(self.heights(state, coefficients)).max(), np.abs(of_targets).max()))

    def places(self, coefficients: Coefficients) -> Int[np.ndarray, "l n"]:
        """Points are in one place if they coincide, as do, behind a layer, all points that it truncates fully."""
        places = [self._clusters.places]
        for alpha in coefficients[:-1]:
            rows = np.column_stack([places[-1] * alpha.any(1), alpha])
            places.append(np.unique(rows, axis=0, return_inverse=True)[1].ravel())
        return np.array(places)

    def _centre(self) -> None:
        """Shifts the data, and later each β, to where heights keep their digits: equations hold for x + β and β + ỹ.

        By multiples of a power of two at least as large as the spread, so that what lies on a surface stays there;
        where there is no spread, by the place of the points.
        """
        mean = self.points.mean(0)
        spread = (self.points - mean).abs().max()
        unit = torch.exp2(spread.log2().ceil())
        self._origin = torch.where(spread > 0, (mean / unit).round() * unit, self.points[0])
        self._clusters = Clusters.of(self.points - self._origin, self.labels, self.targets - self._origin)

    def _flow(
        self, beta: Float[Tensor, "l q"], rotation: Float[Tensor, "l q q"], times: Tensor, rtol: float
    ) -> TruncationOrbit:
        """The flow; for a single map, exact once all points are truncated permanently."""
        moments = increasing_times(times)
        require_rtol(rtol)
        start = _initial_state(beta, rotation, self._origin)
        trajectory, snapshots = Trajectory(self, start, self._sides(start), rtol), []
        for time in moments:
            while trajectory.now < time and not self._collapsed(trajectory):
                trajectory.step(time)
            there = trajectory.snapshot()
            snapshots.append(there if trajectory.now == time else self._decayed(there, time))
        orbit = self._orbit(trajectory, snapshots)
        # Of two ways back from the shifted data the one that adds the smaller number.
        moved = beta + (orbit.beta - torch.from_numpy(start[:, 0]).to(beta))
        near = beta.abs() < self._origin.abs()
        return replace(orbit, beta=torch.where(near, moved, orbit.beta - self._origin).detach())

    def _velocity_at(
        self, beta: Float[Tensor, "l q"], rotation: Float[Tensor, "l q q"]
    ) -> tuple[Float[Tensor, "l q"], Float[Tensor, "l q q"]]:
        state = _initial_state(beta, rotation, self._origin)
        velocity = torch.from_numpy(self.velocity(self._sides(state))(state)).to(self.points)
        return velocity[:, 0], velocity[:, 1:]

    def _sides(self, state: State) -> Coefficients:
        """1 above the surfaces, 0 on and below them."""
        return (self._passed(state)[0] > 0).astype(float)

    def _passed(self, state: State) -> tuple[Float[np.ndarray, "l n q"], Float[np.ndarray, "n q"]]:
        """The heights in each layer, and the images behind the last."""
        images, heights = self._clusters.points, []
        for layer in state:
            heights.append(_heights(layer, images))
            images = _images(layer, np.maximum(heights[-1], 0))
        return np.array(heights), images

    def _collapsed(self, trajectory: Trajectory) -> bool:
        """Whether a single map truncates all points permanently: now, and where β is minus the targets' mean."""
        if len(trajectory.state) > 1 or trajectory.coefficients.any() or trajectory.sliding.any():
            return False
        offsets = self._clusters.points - self._clusters.targets.mean(0)
        return bool((offsets @ trajectory.state[0, 1:].T <= 0).all())

    def _decayed(self, snapshot: Snapshot, time: float) -> Snapshot:
        """The solution at a later time, given that all points are truncated permanently."""
        rate, end = len(self._clusters.targets), self._clusters.targets.mean(0)
        factor, offset = np.exp(rate * (snapshot.time - time)), snapshot.state[0, 0] + end
        state, velocity = snapshot.state.copy(), np.zeros_like(snapshot.state)
        state[0, 0], velocity[0, 0] = factor * offset - end, -rate * factor * offset
        dissipated = snapshot.dissipated + np.array([rate * (1 - factor**2) * (offset @ offset) / 2, 0])
        return Snapshot(time, state, velocity, snapshot.coefficients, dissipated)

    def _orbit(self, trajectory: Trajectory, snapshots: list[Snapshot]) -> TruncationOrbit:
        states = np.stack([snapshot.state for snapshot in snapshots])
        squares = np.stack([snapshot.velocity**2 for snapshot in snapshots])
        collapsed = self._collapsed(trajectory)
        numbers = {
            "times": [snapshot.time for snapshot in snapshots],
            "beta": states[:, :, 0],
            "rotation": states[:, :, 1:],
            "loss": [self._clusters.loss(self._passed(state)[1]) for state in states],
            "rates": -np.stack([squares[:, :, 0].sum((1, 2)), squares[:, :, 1:].sum((1, 2, 3))], 1),
            "decrease": [snapshot.dissipated for snapshot in snapshots],
            "collapse": trajectory.now if collapsed else np.inf,
        }
        truncated = np.stack([self._clusters.truncated(snapshot.coefficients) for snapshot in snapshots])
        untruncated = bool(trajectory.coefficients.all()) and not trajectory.sliding.any()
        return TruncationOrbit(
            **{name: torch.from_numpy(np.asarray(value)).to(self.points) for name, value in numbers.items()},
            truncated=torch.from_numpy(truncated).to(self.points.device),
            events=SwitchingEvents.of(trajectory.events, self.points),
            equilibrium="untruncated" if untruncated else "truncated" if collapsed else None,
        )


def _heights(layer: Shaped[np.ndarray, "_ _"], points: Shaped[np.ndarray, "n q"]) -> Shaped[np.ndarray, "n q"]:
    """R(x + β)."""
    return (points + layer[0]) @ layer[1:].T


def _images(layer: Shaped[np.ndarray, "_ _"], kept: Shaped[np.ndarray, "n q"]) -> Shaped[np.ndarray, "n q"]:
    """The points of these heights, those below 0 truncated."""
    return kept @ layer[1:] - layer[0]


def _initial_state(beta: Float[Tensor, "l q"], rotation: Float[Tensor, "l q q"], origin: Float[Tensor, "q"]) -> State:
    """Both as one array, of points seen from an origin; raises unless they fit these, and R is orthogonal."""
    width = len(origin)
    if beta.ndim != 2 or beta.shape[1] != width or rotation.shape != (*beta.shape, width):
        raise ShapeError(
            "beta, rotation",
            f"(..., {width}) and (..., {width}, {width}), as the points are",
            f"{_checks.shape_of(beta)} and {_checks.shape_of(rotation)}",
            "Pass one β and one R for each layer.",
        )
    _checks.samples(beta=beta, rotation=rotation)
    require_float64(beta=beta, rotation=rotation)
    eye = torch.eye(width, dtype=rotation.dtype, device=rotation.device)
    defect = float((rotation @ rotation.mT - eye).detach().abs().max())
    if not defect <= DEFECT:
        raise RangeError(
            "rotation",
            "orthogonal matrices",
            f"an entry of R Rᵀ - 1 of {defect:.1e}",
            "Take the polar factor, U Vᵀ of the singular value decomposition.",
        )
    return np.concatenate([part.detach().cpu().numpy() for part in ((beta + origin).unsqueeze(1), rotation)], 1)
