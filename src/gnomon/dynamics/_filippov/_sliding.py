"""The sliding vector field: the velocity of a state that stays on the surfaces along which its points slide."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float

from gnomon.dynamics._filippov._regularisation import NEAR
from gnomon.dynamics._filippov._system import (
    Coefficients,
    PiecewiseSmoothFlow,
    State,
    at_surfaces,
    lie_derivatives,
    replaced,
    surfaces_touched,
)

NEWTON = 8
"""Newton steps to the coefficients of sliding points, at most."""
SINGULAR = 1e-10
"""Singular values, as shares of the largest, that count as zero."""


class SlidingField:
    """The velocity from one event to the next; where nothing slides, that of the smooth piece.

    The velocity's jump across a surface is normal to that surface. Thus the velocity that stays on all surfaces is that
    for any coefficients there, projected along these jumps.
    """

    def __init__(
        self, flow: PiecewiseSmoothFlow, coefficients: Coefficients, sliding: Bool[np.ndarray, "l n q"]
    ) -> None:
        self._flow, self._coefficients = flow, coefficients
        self._surfaces = surfaces_touched(flow, coefficients, sliding)
        self._smooth, self._across = flow.velocity(coefficients), self._beyond(coefficients)

    def __call__(self, state: State) -> State:
        """The velocity. Heights h over surfaces that points slide along change at the rate -h, so that errors decay."""
        velocity = self._smooth(state)
        if not self._surfaces:
            return velocity
        jumps = np.stack([across(state) - velocity for across in self._across])
        slopes = np.stack([at_surfaces(self._speeds(state, jump), self._surfaces) for jump in jumps], 1)
        heights = self._flow.heights(state, self._coefficients)
        missed = at_surfaces(self._speeds(state, velocity) + heights, self._surfaces)
        return velocity - np.tensordot(_least_solution(slopes, missed), jumps, 1)

    def coefficients(self, state: State, nearby: Coefficients) -> Coefficients:
        """Those for which the convex combination of both sides is this velocity, by Newton's method from nearby ones.

        Velocities are affine in each coefficient, so differences are derivatives.
        """
        if not self._surfaces:
            return self._coefficients
        wanted = self(state)
        for _ in range(NEWTON):
            velocity = self._flow.velocity(nearby)(state)
            jumps = np.stack([(across(state) - velocity).ravel() for across in self._beyond(nearby)], 1)
            change = _least_solution(jumps, (velocity - wanted).ravel())
            # Far outside 0 to 1 there may be no solution, and just outside the points have left their surfaces.
            alpha = (at_surfaces(nearby, self._surfaces) - change).clip(-1, 2)
            nearby = replaced(nearby, self._surfaces, alpha)
            if np.abs(change).max() < NEAR:
                break
        return nearby

    def _speeds(self, state: State, velocity: State) -> Coefficients:
        return lie_derivatives(self._flow, state, velocity, self._coefficients)

    def _beyond(self, coefficients: Coefficients) -> list[Callable[[State], State]]:
        """The velocities for coefficients that are greater by 1 at one surface each."""
        alpha = at_surfaces(coefficients, self._surfaces)
        units = np.eye(len(self._surfaces))
        return [self._flow.velocity(replaced(coefficients, self._surfaces, alpha + unit)) for unit in units]


def _least_solution(slopes: Float[np.ndarray, "m k"], values: Float[np.ndarray, "m"]) -> Float[np.ndarray, "k"]:
    """What slopes map to values: the solution of least norm, since surfaces coincide where points do."""
    return np.linalg.lstsq(slopes, values, SINGULAR)[0]
