"""A solution under way, integrated from one event to the next."""

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from jaxtyping import Bool, Float
from scipy.integrate import DOP853

from gnomon.dynamics._filippov._events import first_event, switched
from gnomon.dynamics._filippov._sliding import SlidingField
from gnomon.dynamics._filippov._system import Coefficients, PiecewiseSmoothFlow, State, Surface
from gnomon.dynamics._integration import Evaluations
from gnomon.errors import ConvergenceError, RangeError

HIGHEST = 1e70
"""The largest scale allowed."""
REACH = 1e-12
"""How far beyond a surface, as a share of the scale, it counts as met: above rounding, below the errors."""
OUT = 1e-7
"""How far outside 0 to 1 a sliding coefficient counts as out: above rounding; the velocity does not jump there."""
TANGENCIES = 50
"""How often points may touch their surfaces in a row without any change before this counts as the end."""
LEFT = 1e-9
"""How far off their surface, as a share of the scale, sliding points may be; errors decay to rounding."""


@dataclass(frozen=True)
class Snapshot:
    """The solution at one time; dissipated are the integrals of the squared velocities of β and of R up to then."""

    time: float
    state: State
    velocity: State
    coefficients: Coefficients
    dissipated: Float[np.ndarray, "2"]


class Trajectory:
    """Filippov's solution from time 0, by SciPy's Runge-Kutta method of order 8, each step with one vector field.

    After each step R is replaced by its polar factor; a step in which a surface is met ends there.

    Raises:
        RangeError: if the flow's scale is beyond 1e70.
        ConvergenceError: here and in each step, if no continuation is found, or the integrator gives up.
    """

    def __init__(self, flow: PiecewiseSmoothFlow, state: State, coefficients: Coefficients, rtol: float) -> None:
        self.now, self.state, self.coefficients = 0.0, state, coefficients
        self.sliding: Bool[np.ndarray, "l n q"] = np.zeros(coefficients.shape, dtype=bool)
        self.events: list[tuple[float, int, int, int, float]] = []
        self._flow, self._rtol, self._evaluations = flow, rtol, Evaluations(coefficients.size)
        self._width, self._touches, self._dissipated = 0.0, 0, np.zeros(2)
        self._scale = flow.scale(state, coefficients) or 1.0
        if not self._scale <= HIGHEST:
            raise RangeError(
                "beta",
                f"points, targets, β up to {HIGHEST:.0e} together, as squared speeds grow with their fourth power",
                f"{self._scale:.3g}",
                "Rescale them.",
            )
        self._field = SlidingField(flow, coefficients, self.sliding)
        self._switch()

    def snapshot(self) -> Snapshot:
        """The solution now; evaluations are counted from here to the next snapshot."""
        self._evaluations = Evaluations(self.coefficients.size)
        coefficients = self._coefficients_at(self.state)
        return Snapshot(self.now, self.state, self._field(self.state), coefficients, self._dissipated)

    def step(self, until: float) -> None:
        """One step, to the next event or to `until` at most."""
        solver = self._solver(until, self._width)
        self._advance(solver)
        # A step cut short by `until` says nothing about how wide the next one can be.
        self._width = max(self._width, solver.h_abs) if solver.t == until else solver.h_abs
        event = self._next_event(solver)
        if event is not None and event > self.now:
            # Stepped again, since the interpolant is of lower order than the step.
            solver = self._solver(event, event - self.now)
            while solver.status == "running":
                self._advance(solver)
        if event != self.now:
            self.now, self.state, self._dissipated = float(solver.t), self._orthogonal(solver.y), solver.y[-2:]
        if event is not None:
            self._switch()
        else:
            self.coefficients = self._coefficients_at(self.state)
        self._require_on_surfaces()

    def _solver(self, until: float, width: float) -> DOP853:
        """The integrator from now on."""

        def right_side(time: float, flat: Float[np.ndarray, "z"]) -> Float[np.ndarray, "z"]:
            self._evaluations.one_more(time, until)
            velocity = self._field(flat[:-2].reshape(self.state.shape))
            return np.append(velocity, [(velocity[:, 0] ** 2).sum(), (velocity[:, 1:] ** 2).sum()])

        units = np.ones_like(self.state)
        units[:, 0] = self._scale
        least = self._rtol / 100 * np.append(units, [self._scale**2] * 2)
        start, first = np.append(self.state, self._dissipated), min(width, until - self.now) or None
        return DOP853(right_side, self.now, start, until, rtol=self._rtol, atol=least, first_step=first)

    def _advance(self, solver: DOP853) -> None:
        """One step of the integrator; raises ConvergenceError if it gives up."""
        message = solver.step()
        if message is not None:
            raise ConvergenceError(
                "times", "the integration to finish", f"at time {solver.t}: {message}", "Raise rtol."
            )

    def _orthogonal(self, flat: Float[np.ndarray, "z"]) -> State:
        """The state, with the polar factor of R in its place."""
        state = flat[:-2].reshape(self.state.shape)
        left, _, right = np.linalg.svd(state[:, 1:])
        return np.concatenate([state[:, :1], left @ right], axis=1)

    def _coefficients_at(self, state: State) -> Coefficients:
        """The coefficients at a nearby state."""
        return self._field.coefficients(state, self.coefficients)

    def _margins(self, state: State) -> Coefficients:
        """How far each point is from an event, as a share of the scale; below 0 beyond the surface.

        Where it slides, how far its coefficient is from 0 and 1.
        """
        alpha = self._coefficients_at(state)
        heights = self._flow.heights(state, alpha) / self._scale
        return np.where(self.sliding, np.minimum(alpha, 1 - alpha), np.where(alpha > 0.5, heights, -heights))

    def _next_event(self, solver: DOP853) -> float | None:
        """When the step of the integrator meets a surface; None if it does not."""
        interpolant = solver.dense_output()
        # A point on its surface, or beyond it by rounding, crosses it only when it is beyond reach of where it was.
        bounds = np.minimum(self._margins(self.state), 0) - np.where(self.sliding, OUT, REACH)
        return first_event(
            lambda time: self._margins(self._orthogonal(interpolant(time))), bounds, self.now, float(solver.t)
        )

    def _switch(self) -> None:
        """Takes the coefficients with which the flow can continue from here, and records what they change."""
        alpha, margins, before = self._coefficients_at(self.state), self._margins(self.state), self._modes()
        touching = self.sliding | (margins <= 2 * REACH)
        alpha = np.where(~self.sliding & (margins <= -REACH / 2), 1 - alpha, alpha)
        found, surfaces = switched(self._flow, self.state, alpha, touching)
        if found is None:
            self._give_up(surfaces)
        self.coefficients = found
        self.sliding = (found > 0) & (found < 1)
        self._field = SlidingField(self._flow, found, self.sliding)
        changed = self._modes() != before
        self._touches = 0 if changed.any() else self._touches + 1
        if self._touches > TANGENCIES:
            self._give_up(surfaces)
        for layer, point, coordinate in np.argwhere(changed).tolist():
            self.events.append((self.now, layer, point, coordinate, float(found[layer, point, coordinate])))

    def _modes(self) -> Coefficients:
        """0 below and 1 above the surface, one half for points that slide."""
        return np.where(self.sliding, 0.5, self.coefficients)

    def _require_on_surfaces(self) -> None:
        """Raises ConvergenceError unless points that slide are on their surfaces."""
        heights = self._flow.heights(self.state, self.coefficients)
        off = float(np.abs(heights[self.sliding]).max(initial=0)) / self._scale
        if off > LEFT:
            raise ConvergenceError(
                "times",
                f"sliding points on their surfaces at time {self.now}",
                f"heights of {off:.1e} of the largest",
                "Lower rtol, or move the points slightly.",
            )

    def _give_up(self, surfaces: list[Surface]) -> NoReturn:
        """Raises ConvergenceError, with the surfaces."""
        places = [(layer, points.tolist(), coordinate) for layer, points, coordinate in surfaces]
        raise ConvergenceError(
            "times",
            f"a solution beyond time {self.now}",
            f"none for (layer, points, coordinate) {places} at their surfaces",
            "Move the points or the start slightly.",
        )
