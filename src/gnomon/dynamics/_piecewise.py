"""Flows of vectors and orthogonal matrices that are smooth as long as no point crosses a face."""

from dataclasses import dataclass
from functools import partial
from typing import NoReturn

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.integrate import DOP853, DenseOutput
from scipy.optimize import brentq
from torch import Tensor

from gnomon import _checks
from gnomon.dynamics._faces import Face, Flow, Motion, Sides, State, faces, placed, speeds
from gnomon.dynamics._integration import Evaluations
from gnomon.dynamics._settling import relaxed
from gnomon.errors import ConvergenceError, RangeError, ShapeError

DEFECT = 1e-9
"""How far R Rᵀ may be from the identity, in its largest entry, for R to be taken as orthogonal."""
HIGHEST = 1e70
"""The largest height at the start."""
NODES = 8
"""In how many places of a step the faces are looked at."""
REACH = 1e-12
"""How far beyond a face, as a share of the largest height, it counts as crossed: above rounding, below the errors."""
OUT = 1e-7
"""How far out of 0 to 1 a sliding point's side counts as such: above rounding; the velocity does not jump there."""
STILL = 1e-13
"""Speeds, as shares of the largest, that are rounding."""
TRIES = 50
"""Times that a point may touch its face without change before that counts as the end."""
LEFT = 1e-9
"""How far off their face, as a share of the largest height, sliding points may be; their errors fade to rounding."""


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
    velocities of both sides point to the face the point slides along it, as in the limit of mollified activations.
    """

    def __init__(self, where: str, flow: Flow, state: State, sides: Sides, rtol: float) -> None:
        self.where, self.flow, self.state, self.sides, self.rtol = where, flow, state, sides, rtol
        self.evaluations = Evaluations(where)
        self.now, self.width, self.stuck = 0.0, 0.0, 0
        self.spent = np.zeros(2)
        self.sliding: Bool[np.ndarray, "l n q"] = np.zeros(sides.shape, dtype=bool)
        self.crossings: list[tuple[float, int, int, int, float]] = []
        self.motion = Motion(flow, sides, self.sliding)
        self.scale = float(np.abs(flow.heights(state, sides)).max()) or 1.0
        if not self.scale <= HIGHEST:
            raise RangeError(
                "beta",
                f"points and β of sizes up to {HIGHEST:.0e} together, as squared speeds grow with their fourth power",
                f"{self.scale:.3g}",
                "Give them another unit.",
                where=where,
            )
        self.settle()

    def reading(self) -> Reading:
        """What there is now."""
        return Reading(self.now, self.state, self.motion(self.state), self.held(self.state), self.spent)

    def step(self, until: float) -> None:
        """One step, to the next crossing or to `until` at most."""
        solver = self.solver(until, self.width)
        self.advance(solver)
        # A step cut short by `until` says nothing about how wide the next one can be.
        self.width = max(self.width, solver.h_abs) if solver.t == until else solver.h_abs
        crossing = self.crossing(solver.dense_output(), solver.t)
        if crossing is not None and crossing > self.now:
            # Stepped again, since the interpolant is of lower order than the step.
            solver = self.solver(crossing, crossing - self.now)
            while solver.status == "running":
                self.advance(solver)
        if crossing != self.now:
            self.now, self.state, self.spent = float(solver.t), self.seen(solver.y), solver.y[-2:]
        if crossing is not None:
            self.settle()
        else:
            self.sides = self.held(self.state)
        self.require_faces()

    def advance(self, solver: DOP853) -> None:
        """One step of the integrator; raises ConvergenceError if it gives up."""
        message = solver.step()
        if message is not None:
            raise ConvergenceError(
                "times", "an end of integration", f"at time {solver.t}: {message}", "Raise rtol.", where=self.where
            )

    def require_faces(self) -> None:
        """Raises ConvergenceError unless points that slide are on their faces."""
        off = float(np.abs(self.flow.heights(self.state, self.sides)[self.sliding]).max(initial=0)) / self.scale
        if off > LEFT:
            raise ConvergenceError(
                "times",
                f"sliding points on their faces at time {self.now}",
                f"heights of {off:.1e} of the largest",
                "Lower rtol, or move the points slightly.",
                where=self.where,
            )

    def solver(self, until: float, width: float) -> DOP853:
        """The integrator from now on."""

        def right_side(time: float, flat: Float[np.ndarray, "z"]) -> Float[np.ndarray, "z"]:
            self.evaluations.one_more(time, until)
            velocity = self.motion(flat[:-2].reshape(self.state.shape))
            return np.append(velocity, [(velocity[:, 0] ** 2).sum(), (velocity[:, 1:] ** 2).sum()])

        units = np.ones_like(self.state)
        units[:, 0] = self.scale
        least = self.rtol / 100 * np.append(units, [self.scale**2] * 2)
        start, first = np.append(self.state, self.spent), min(width, until - self.now) or None
        return DOP853(right_side, self.now, start, until, rtol=self.rtol, atol=least, first_step=first)

    def seen(self, flat: Float[np.ndarray, "z"]) -> State:
        """The state, with the polar factor of R in its place."""
        state = flat[:-2].reshape(self.state.shape)
        left, _, right = np.linalg.svd(state[:, 1:])
        return np.concatenate([state[:, :1], left @ right], axis=1)

    def margins(self, state: State) -> Sides:
        """How far each point is from leaving its side, as a share of the largest height; below 0 beyond the face."""
        sides = self.held(state)
        heights = self.flow.heights(state, sides) / self.scale
        return np.where(self.sliding, np.minimum(sides, 1 - sides), np.where(sides > 0.5, heights, -heights))

    def held(self, state: State) -> Sides:
        """The sides at a state near by."""
        return self.motion.held(state, self.sides)

    def crossing(self, dense: DenseOutput, until: float) -> float | None:
        """The time of the first crossing up to `until`."""

        def least(time: float, faces: Bool[np.ndarray, "l n q"], bounds: Sides | float) -> float:
            return float((self.margins(self.seen(dense(time))) - bounds)[faces].min())

        # What is on its face, or beyond it by rounding, has crossed it only when it is beyond reach of where it was.
        before = self.now
        bounds = np.minimum(self.margins(self.state), 0) - np.where(self.sliding, OUT, REACH)
        for node in np.linspace(self.now, until, NODES + 1)[1:].tolist():
            beyond = self.margins(self.seen(dense(node))) < bounds
            if beyond.any():
                at = 0.0 if least(before, beyond, 0.0) > 0 else bounds
                return float(brentq(least, before, node, args=(beyond, at), xtol=1e-15 * node))
            before = node
        return None

    def settle(self) -> None:
        """Finds the sides with which the flow can go on from here, and keeps a record of what they change."""
        sides, margin, before = self.held(self.state), self.margins(self.state), self.marks()
        touched = self.sliding | (margin <= 2 * REACH)
        sides = np.where(~self.sliding & (margin <= -REACH / 2), 1 - sides, sides)
        for _ in range(TRIES):
            touching, places = faces(self.flow, sides, touched), self.flow.places(sides)
            shares = np.array([sides[face].mean() for face in touching]).clip(0, 1)
            found = relaxed(partial(self.rise, sides, touching), shares)
            if found is None:
                self.lost(touching)
            sides = placed(sides, touching, found)
            if (self.flow.places(sides) == places).all():
                break
        else:
            self.lost(touching)
        self.sides = sides
        self.sliding = (sides > 0) & (sides < 1)
        self.motion = Motion(self.flow, sides, self.sliding)
        after = self.marks()
        self.stuck = 0 if (after != before).any() else self.stuck + 1
        if self.stuck > TRIES:
            self.lost(touching)
        for layer, point, coordinate in np.argwhere(after != before).tolist():
            self.crossings.append((self.now, layer, point, coordinate, float(self.sides[layer, point, coordinate])))

    def rise(
        self, sides: Sides, touching: list[Face], shares: Float[np.ndarray, "k"]
    ) -> tuple[Float[np.ndarray, "k"], float]:
        """The speeds of the heights over touched faces for these sides of theirs, and what of them is rounding."""
        here = placed(sides, touching, shares)
        rises = speeds(self.flow, self.state, self.flow.velocity(here)(self.state), here)
        return np.array([rises[face].mean() for face in touching]), float(STILL * np.abs(rises).max())

    def marks(self) -> Sides:
        """0 and 1 for the sides, one half for points that slide."""
        return np.where(self.sliding, 0.5, self.sides)

    def lost(self, touching: list[Face]) -> NoReturn:
        """Raises ConvergenceError, with the faces."""
        places = [(layer, points.tolist(), coordinate) for layer, points, coordinate in touching]
        raise ConvergenceError(
            "times",
            f"a way on at time {self.now}",
            f"none for (layer, points, coordinate) {places} at their faces",
            "Move the points or the start slightly.",
            where=self.where,
        )


def in_float64(where: str, **tensors: Tensor) -> None:
    """Raises RangeError unless all are in float64 and finite."""
    kinds = [(name, tensor.dtype, "in float64", tensor.dtype == torch.float64) for name, tensor in tensors.items()]
    _checks.settings(where, *kinds)
    _checks.finite(where, **tensors)


def increasing(where: str, times: Float[Tensor, "t"]) -> list[float]:
    """The times; raises RangeError unless they are finite, from 0 on, strictly increasing and end above 0."""
    _checks.samples(where, 1, times=times)
    if times.ndim != 1:
        raise ShapeError("times", "shape (t,)", _checks.shape_of(times), "Flatten it.", where=where)
    _checks.finite(where, times=times)
    moments = times.tolist()
    right = moments[0] >= 0 and bool((times.diff() > 0).all()) and moments[-1] > 0
    _checks.settings(where, ("times", moments, "from 0 on, strictly increasing, the last above 0", right))
    return moments


def initial_state(where: str, beta: Float[Tensor, "l q"], rotation: Float[Tensor, "l q q"], width: int) -> State:
    """Both as one; raises unless they fit each other and points of this width, and R is orthogonal."""
    if beta.ndim != 2 or beta.shape[1] != width or rotation.shape != (*beta.shape, width):
        raise ShapeError(
            "beta, rotation",
            f"(..., {width}) and (..., {width}, {width}), as the points are",
            f"{_checks.shape_of(beta)} and {_checks.shape_of(rotation)}",
            "Pass one β and one R for each layer.",
            where=where,
        )
    _checks.samples(where, beta=beta, rotation=rotation)
    in_float64(where, beta=beta, rotation=rotation)
    eye = torch.eye(width, dtype=rotation.dtype, device=rotation.device)
    defect = float((rotation @ rotation.mT - eye).detach().abs().max())
    if not defect <= DEFECT:
        raise RangeError(
            "rotation",
            "orthogonal matrices",
            f"an entry of R Rᵀ - 1 of {defect:.1e}",
            "Take the polar factor, U Vᵀ of the singular value decomposition.",
            where=where,
        )
    return np.concatenate([part.detach().cpu().numpy() for part in (beta.unsqueeze(1), rotation)], 1)
