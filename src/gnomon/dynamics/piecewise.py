"""Flows of vectors and orthogonal matrices that are smooth as long as no point crosses a face."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from scipy.integrate import DOP853, DenseOutput
from scipy.optimize import brentq
from torch import Tensor

from gnomon import _checks
from gnomon.errors import ConvergenceError, RangeError, ShapeError

State = Shaped[np.ndarray, "l m q"]
"""For each layer the row β, and below it the q rows of the orthogonal R."""
Sides = Shaped[np.ndarray, "l n q"]
"""For each layer, point and coordinate 0 below the face, 1 above it, and a number between while sliding along it."""

DEFECT = 1e-9
"""How far R Rᵀ may be from the identity, in its largest entry, for R to be taken as orthogonal."""
NODES = 8
"""In how many places of a step the faces are looked at."""
REACH = 1e-12
"""How far beyond a face, as a share of the largest height, it counts as crossed: above rounding, below the errors."""
STILL = 1e-13
"""Speeds, as shares of the largest, that are rounding."""
LEFT = 1e-9
"""The same for points that have just ended to slide."""
TRIES = 50
"""Changes of sides at one time after which no end is expected."""
NEWTON = 8
"""Newton steps for points that slide in several layers."""


class Flow(Protocol):
    """What is integrated."""

    def heights(self, state: State, sides: Sides) -> Sides:
        """Of each point over each face; for given sides a polynomial in the state, which may be complex."""
        ...

    def velocity(self, sides: Sides) -> Callable[[State], State]:
        """The right side for given sides; affine in each of them."""
        ...


@dataclass(frozen=True)
class Crossings:
    """What happens at faces, in order of time.

    Attributes:
        times: (e).
        layers: (e), from 0 on.
        points: (e).
        coordinates: (e).
        sides: (e), 0 where the point is truncated in this coordinate from now on, 1 where it no longer is, a number
            between where it starts to slide along the face.
    """

    times: Float[Tensor, "e"]
    layers: Int[Tensor, "e"]
    points: Int[Tensor, "e"]
    coordinates: Int[Tensor, "e"]
    sides: Float[Tensor, "e"]

    @classmethod
    def of(cls, events: list[tuple[float, int, int, int, float]], like: Tensor) -> "Crossings":
        """The same, of a list, as tensors."""
        columns = np.array(events, dtype=float).reshape(-1, 5).T
        times, layers, points, coordinates, sides = torch.from_numpy(columns).to(like)
        return cls(times, layers.long(), points.long(), coordinates.long(), sides)


@dataclass(frozen=True)
class Reading:
    """What there is at one time; spent are the integrals of the squared velocities of β and of R up to then."""

    time: float
    state: State
    velocity: State
    sides: Sides
    spent: Float[np.ndarray, "2"]


class Walk:
    """An integration under way, by SciPy's Runge-Kutta method of order 8, each step with one set of sides.

    After each step R is replaced by its polar factor; a step in which a face is crossed ends there. Where the
    velocities of both sides point to the face the point slides along it, with that mean of both which stays on it:
    Filippov's solution, and the limit of flows with mollified activations.
    """

    def __init__(self, where: str, flow: Flow, state: State, sides: Sides, rtol: float) -> None:
        self.where, self.flow, self.state, self.sides, self.rtol = where, flow, state, sides, rtol
        self.now, self.width, self.stuck = 0.0, 0.0, 0
        self.spent = np.zeros(2)
        self.sliding: Bool[np.ndarray, "l n q"] = np.zeros(sides.shape, dtype=bool)
        self.crossings: list[tuple[float, int, int, int, float]] = []
        self.scale = float(np.abs(flow.heights(state, sides)).max()) or 1.0
        self.settle()

    def reading(self) -> Reading:
        """What there is now."""
        velocity, sides = self.motion(self.state)
        return Reading(self.now, self.state, velocity, sides, self.spent)

    def step(self, until: float) -> None:
        """One step, to the next crossing or to `until` at most."""
        solver = self.solver(until, self.width)
        message = solver.step()
        if message is not None:
            raise ConvergenceError(
                f"{self.where}(times): expected an end of integration, got at time {self.now}: {message} Raise rtol."
            )
        # A step cut short by `until` says nothing about how wide the next one can be.
        self.width = max(self.width, solver.h_abs) if solver.t == until else solver.h_abs
        crossing = self.crossing(solver.dense_output(), solver.t)
        if crossing is not None and crossing > self.now:
            # Stepped again, since the interpolant is of lower order than the step.
            solver = self.solver(crossing, crossing - self.now)
            while solver.status == "running":
                solver.step()
        if crossing != self.now:
            self.now, self.state, self.spent = float(solver.t), self.seen(solver.y), solver.y[-2:]
        if crossing is not None:
            self.settle()

    def solver(self, until: float, width: float) -> DOP853:
        """The integrator from now on."""

        def right_side(_: float, flat: Float[np.ndarray, "z"]) -> Float[np.ndarray, "z"]:
            velocity, _sides = self.motion(flat[:-2].reshape(self.state.shape))
            return np.append(velocity, [(velocity[:, 0] ** 2).sum(), (velocity[:, 1:] ** 2).sum()])

        start, first = np.append(self.state, self.spent), min(width, until - self.now) or None
        return DOP853(right_side, self.now, start, until, rtol=self.rtol, atol=self.rtol / 100, first_step=first)

    def seen(self, flat: Float[np.ndarray, "z"]) -> State:
        """The state, with the polar factor of R in its place."""
        state = flat[:-2].reshape(self.state.shape)
        left, _, right = np.linalg.svd(state[:, 1:])
        return np.concatenate([state[:, :1], left @ right], axis=1)

    def margins(self, state: State) -> Sides:
        """How far each point is from leaving its side, as a share of the largest height; below 0 beyond the face."""
        sides = self.motion(state)[1] if self.sliding.any() else self.sides
        heights = self.flow.heights(state, sides) / self.scale
        return np.where(self.sliding, np.minimum(sides, 1 - sides), np.where(sides > 0.5, heights, -heights))

    def crossing(self, dense: DenseOutput, until: float) -> float | None:
        """The time of the first crossing up to `until`."""

        def least(time: float, faces: Bool[np.ndarray, "l n q"], slack: float) -> float:
            return float(self.margins(self.seen(dense(time)))[faces].min()) + slack

        before = self.now
        for node in np.linspace(self.now, until, NODES + 1)[1:].tolist():
            beyond = self.margins(self.seen(dense(node))) < -REACH
            if beyond.any():
                # What starts on its face, up to rounding, has crossed it only when it is beyond reach.
                slack = 0.0 if least(before, beyond, 0.0) > 0 else REACH
                if least(before, beyond, slack) <= 0:
                    return before
                return float(brentq(least, before, node, args=(beyond, slack), xtol=1e-15))
            before = node
        return None

    def settle(self) -> None:
        """Finds the sides with which the flow can go on from here: no point on a face is driven out of its side.

        A point that is driven out changes its side, and, if it is driven back, slides.
        """
        old = np.where(self.sliding, 0.5, self.sides)
        flipped, left = np.zeros((2, *old.shape), dtype=bool)
        for _ in range(TRIES):
            self.motion = Motion(self.flow, self.state, self.sides, self.sliding)
            velocity, sides = self.motion(self.state)
            rise = speeds(self.flow, self.state, velocity, sides)
            outwards = np.where(self.sides > 0.5, -rise, rise) / (np.abs(rise).max() or 1.0)
            margin = self.margins(self.state)
            # A face just left is one along which the speed still is rounding.
            still = np.where(left, LEFT, np.where(margin <= -REACH / 2, 0, STILL))
            driven = ~self.sliding & (margin <= 2 * REACH) & (outwards > still)
            leaves = self.sliding & (margin <= REACH / 2)
            if driven.any():
                self.sides = np.where(driven & ~flipped, 1 - self.sides, self.sides)
                self.sliding = self.sliding | (driven & flipped)
                flipped |= driven
            elif leaves.any():
                self.sides = np.where(leaves, (sides > 0.5).astype(float), self.sides)
                self.sliding = self.sliding & ~leaves
                flipped, left = flipped | leaves, left | leaves
            else:
                break
        else:
            self.lost(driven | leaves)
        new = np.where(self.sliding, 0.5, self.sides)
        self.stuck = 0 if (new != old).any() else self.stuck + 1
        if self.stuck > TRIES:
            self.lost(self.margins(self.state) <= -REACH / 2)
        for layer, point, coordinate in np.argwhere(new != old).tolist():
            self.crossings.append((self.now, layer, point, coordinate, float(sides[layer, point, coordinate])))

    def lost(self, faces: Bool[np.ndarray, "l n q"]) -> None:
        """Raises ConvergenceError, with the faces."""
        raise ConvergenceError(
            f"{self.where}(times): expected a way on at time {self.now}, found none for (layer, point, coordinate) in "
            f"{np.argwhere(faces).tolist()} at their faces. Move the points or the start slightly."
        )


class Motion:
    """The right side for given sides, but for those of sliding points, which it finds."""

    def __init__(self, flow: Flow, state: State, sides: Sides, sliding: Bool[np.ndarray, "l n q"]) -> None:
        self.flow, self.smooth, self.sides = flow, flow.velocity(sides), sides
        self.faces = list(faces(flow.heights(state, sides), sliding))

    def __call__(self, state: State) -> tuple[State, Sides]:
        """The velocity, and the sides with which points that slide stay on their faces.

        Their heights h change by -h, so that errors fade. Speeds are affine in each side, thus differences are
        derivatives, and one Newton step is exact unless points slide in several layers.
        """
        if not self.faces:
            return self.smooth(state), self.sides
        sides = self.sides.copy()
        for face in self.faces:
            sides[face] = 0.5
        for _ in range(1 if len({layer for layer, _, _ in self.faces}) == 1 else NEWTON):
            missed, columns = self.drift(state, sides), []
            for face in self.faces:
                other = sides.copy()
                other[face] += 1
                columns.append(self.drift(state, other) - missed)
            for face, change in zip(self.faces, np.linalg.lstsq(np.stack(columns, 1), missed)[0], strict=True):
                sides[face] -= change
        return self.flow.velocity(sides)(state), sides

    def drift(self, state: State, sides: Sides) -> Float[np.ndarray, "k"]:
        """By how much the heights of sliding points miss changing by minus themselves, with the velocity for sides."""
        velocity = self.flow.velocity(sides)(state)
        missed = speeds(self.flow, state, velocity, sides) + self.flow.heights(state, sides)
        return np.array([missed[face].mean() for face in self.faces])


def faces(heights: Sides, sliding: Bool[np.ndarray, "l n q"]) -> Iterator[tuple[int, Int[np.ndarray, "m"], int]]:
    """Layer, points and coordinate of each face that points slide along; those in one place, as one, share a side."""
    for layer, coordinate in np.argwhere(sliding.any(1)).tolist():
        points = np.flatnonzero(sliding[layer, :, coordinate])
        places = np.unique(heights[layer, points].round(9), axis=0, return_inverse=True)[1].ravel()
        for place in range(int(places.max()) + 1):
            yield layer, points[places == place], coordinate


def speeds(flow: Flow, state: State, velocity: State, sides: Sides) -> Sides:
    """At which the heights change: their derivative along the velocity, exact, by a step in the complex plane."""
    step = 1e-100
    return flow.heights(state + 1j * step * velocity, sides).imag / step


def in_float64(where: str, **tensors: Tensor) -> None:
    """Raises RangeError unless all are in float64 and finite."""
    kinds = [(name, tensor.dtype, "in float64", tensor.dtype == torch.float64) for name, tensor in tensors.items()]
    _checks.settings(where, *kinds)
    _checks.finite(where, **tensors)


def increasing(where: str, times: Float[Tensor, "t"]) -> list[float]:
    """The times; raises RangeError unless they are finite, from 0 on, strictly increasing and end above 0."""
    _checks.samples(where, 1, times=times)
    _checks.finite(where, times=times)
    moments = times.tolist()
    right = moments[0] >= 0 and bool((times.diff() > 0).all()) and moments[-1] > 0
    _checks.settings(where, ("times", moments, "from 0 on, strictly increasing, the last above 0", right))
    return moments


def initial_state(where: str, beta: Float[Tensor, "l q"], rotation: Float[Tensor, "l q q"], width: int) -> State:
    """Both as one; raises unless they fit each other and points of this width, and R is orthogonal."""
    if beta.ndim != 2 or beta.shape[1] != width or rotation.shape != (*beta.shape, width):
        raise ShapeError(
            f"{where}(beta, rotation): expected (..., {width}) and (..., {width}, {width}), as the points are, got "
            f"{_checks.shape_of(beta)} and {_checks.shape_of(rotation)}. Pass one β and one R for each layer."
        )
    in_float64(where, beta=beta, rotation=rotation)
    eye = torch.eye(width, dtype=rotation.dtype, device=rotation.device)
    defect = float((rotation @ rotation.mT - eye).abs().max())
    if defect > DEFECT:
        raise RangeError(
            f"{where}(rotation): expected orthogonal matrices, got an entry of R Rᵀ - 1 of {defect:.1e}. "
            f"Take the polar factor, U Vᵀ of the singular value decomposition."
        )
    return torch.cat([beta.unsqueeze(1), rotation], 1).detach().cpu().numpy()
