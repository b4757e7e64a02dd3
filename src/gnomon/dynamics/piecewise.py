"""Flows of vectors and orthogonal matrices that are smooth as long as no point crosses a face."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from scipy.integrate import DOP853, DenseOutput
from scipy.optimize import brentq
from torch import Tensor

from gnomon import _checks
from gnomon.errors import ConvergenceError, RangeError, ShapeError

State = Shaped[np.ndarray, "_ _ _"]
"""For each layer the row β, and below it the q rows of the orthogonal R."""
Sides = Shaped[np.ndarray, "_ _ _"]
"""For each layer, point and coordinate 0 below the face, 1 above it, and a number between while sliding along it."""

Face = tuple[int, Int[np.ndarray, "_"], int]
"""A layer, the points that are in one place on a face, and the coordinate."""
Rise = Callable[[Float[np.ndarray, "k"]], tuple[Float[np.ndarray, "k"], Float[np.ndarray, "k"]]]
"""The speeds of the heights over touched faces for given sides, and what of them is rounding."""

DEFECT = 1e-9
"""How far R Rᵀ may be from the identity, in its largest entry, for R to be taken as orthogonal."""
NODES = 8
"""In how many places of a step the faces are looked at."""
REACH = 1e-12
"""How far beyond a face, as a share of the largest height, it counts as crossed: above rounding, below the errors."""
STILL = 1e-13
"""Speeds, as shares of the largest, that are rounding."""
ROUND = 1e-10
"""How near to 0 and 1 the sides of sliding points count as such."""
SETTLING = 5000
"""Steps to the sides of touched faces after which no end is expected."""
TRIES = 50
"""Times that a point may touch its face without change before that counts as the end."""
NEWTON = 8
"""Newton steps for points that slide in several layers."""


@runtime_checkable
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
        self.motion = Motion(flow, state, sides, self.sliding)
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
        else:
            self.motion.sides = self.motion(self.state)[1]

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
        """Finds the sides with which the flow can go on from here, and keeps a record of what they change."""
        sides, margin, before = self.motion(self.state)[1], self.margins(self.state), self.marks()
        touching = list(faces(self.flow.heights(self.state, sides), self.sliding | (margin <= 2 * REACH)))
        slack = np.array([0 if margin[face].min() <= -REACH / 2 else STILL for face in touching])
        shares = np.array([sides[face].mean() for face in touching]).clip(0, 1)

        def rise(shares: Float[np.ndarray, "k"]) -> tuple[Float[np.ndarray, "k"], Float[np.ndarray, "k"]]:
            here = placed(sides, touching, shares)
            rises = speeds(self.flow, self.state, self.flow.velocity(here)(self.state), here)
            return np.array([rises[face].mean() for face in touching]), slack * np.abs(rises).max()

        found = relaxed(rise, shares, len({layer for layer, _, _ in touching}) <= 1)
        if found is None:
            self.lost(touching)
        self.sides = placed(sides, touching, found)
        self.sliding = (self.sides > 0) & (self.sides < 1)
        self.motion = Motion(self.flow, self.state, self.sides, self.sliding)
        after = self.marks()
        self.stuck = 0 if (after != before).any() else self.stuck + 1
        if self.stuck > TRIES:
            self.lost(touching)
        for layer, point, coordinate in np.argwhere(after != before).tolist():
            self.crossings.append((self.now, layer, point, coordinate, float(self.sides[layer, point, coordinate])))

    def marks(self) -> Sides:
        """0 and 1 for the sides, one half for points that slide."""
        return np.where(self.sliding, 0.5, self.sides)

    def lost(self, touching: list[Face]) -> NoReturn:
        """Raises ConvergenceError, with the faces."""
        places = [(layer, points.tolist(), coordinate) for layer, points, coordinate in touching]
        raise ConvergenceError(
            f"{self.where}(times): expected a way on at time {self.now}, found none for (layer, points, coordinate) "
            f"{places} at their faces. Move the points or the start slightly."
        )


def relaxed(rise: Rise, shares: Float[np.ndarray, "k"], affine: bool) -> Float[np.ndarray, "k"] | None:
    """The sides of touched faces at which none is driven out: 0 where they fall, 1 where they rise, else speed 0.

    Those to which a mollified activation would bring the points, whose sides change with their heights, which change by
    `rise`. None if that does not come to rest.
    """
    start, (speed, slack) = shares, rise(shares)
    driven = np.where(shares > 0.5, -speed, speed) > slack
    crossed = np.where(driven, 1 - shares, shares).round()
    speed_there, slack = rise(crossed)
    if (np.where(crossed > 0.5, -speed_there, speed_there) <= slack).all():
        return crossed
    slopes = np.stack([rise(shares + unit)[0] - speed for unit in np.eye(len(shares))], 1)
    pace = 1 / np.abs(slopes).sum(1).max()
    for _ in range(SETTLING):
        here = speed + slopes @ (shares - start) if affine else rise(shares)[0]
        moved = (shares + pace * here).clip(0, 1)
        if np.abs(moved - shares).max() < ROUND:
            return np.where(moved < 10 * ROUND, 0, np.where(moved > 1 - 10 * ROUND, 1, moved))
        shares = moved
    return None


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
        sides = self.sides
        for _ in range(1 if len({layer for layer, _, _ in self.faces}) == 1 else NEWTON):
            shares = np.array([sides[face].mean() for face in self.faces])
            missed, units = self.drift(state, sides), np.eye(len(shares))
            slopes = [self.drift(state, placed(sides, self.faces, shares + unit)) - missed for unit in units]
            sides = placed(sides, self.faces, shares - np.linalg.lstsq(np.stack(slopes, 1), missed)[0])
        return self.flow.velocity(sides)(state), sides

    def drift(self, state: State, sides: Sides) -> Float[np.ndarray, "k"]:
        """By how much the heights of sliding points miss changing by minus themselves, with the velocity for sides."""
        velocity = self.flow.velocity(sides)(state)
        missed = speeds(self.flow, state, velocity, sides) + self.flow.heights(state, sides)
        return np.array([missed[face].mean() for face in self.faces])


def faces(heights: Sides, sliding: Bool[np.ndarray, "l n q"]) -> Iterator[Face]:
    """Layer, points and coordinate of each face that points slide along; those in one place, as one, share a side."""
    for layer, coordinate in np.argwhere(sliding.any(1)).tolist():
        points = np.flatnonzero(sliding[layer, :, coordinate])
        places = np.unique(heights[layer, points].round(9), axis=0, return_inverse=True)[1].ravel()
        for place in range(int(places.max()) + 1):
            yield layer, points[places == place], coordinate


def placed(sides: Sides, touched: list[Face], shares: Float[np.ndarray, "k"]) -> Sides:
    """The sides, with these at the faces."""
    sides = sides.copy()
    for face, share in zip(touched, shares, strict=True):
        sides[face] = share
    return sides


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
