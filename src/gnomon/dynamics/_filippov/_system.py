"""A piecewise-smooth flow and its discontinuity surfaces."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

State = Shaped[np.ndarray, "_ _ _"]
"""For each layer the row β, and below it the q rows of the orthogonal R."""
Coefficients = Shaped[np.ndarray, "_ _ _"]
"""Filippov's α for each layer, point and coordinate: 0 below the surface, 1 above it, between while it slides."""
Surface = tuple[int, Int[np.ndarray, "_"], int]
"""A layer, the points that are in one place, and the coordinate in which their height is 0."""


@runtime_checkable
class PiecewiseSmoothFlow(Protocol):
    """What is integrated."""

    def heights(self, state: State, coefficients: Coefficients) -> Coefficients:
        """Heights of points over surfaces; for given coefficients, polynomials in the state, which may be complex."""
        ...

    def velocity(self, coefficients: Coefficients) -> Callable[[State], State]:
        """The right-hand side for given coefficients; affine in each of them on its surface."""
        ...

    def scale(self, state: State, coefficients: Coefficients) -> float:
        """About the largest height between this state and the end: what tolerances are shares of."""
        ...

    def places(self, coefficients: Coefficients) -> Int[np.ndarray, "l n"]:
        """Where each point is at the input of each layer: points of one number are in one place in every state."""
        ...


def surfaces_touched(
    flow: PiecewiseSmoothFlow, coefficients: Coefficients, touching: Bool[np.ndarray, "l n q"]
) -> list[Surface]:
    """The surfaces that points touch; points that stay in one place, as behind a full truncation, touch them as one."""
    found, places = [], flow.places(coefficients)
    for layer, coordinate in np.argwhere(touching.any(1)).tolist():
        points = np.flatnonzero(touching[layer, :, coordinate])
        here = places[layer, points]
        found += [(layer, points[here == place], coordinate) for place in np.unique(here)]
    return found


def replaced(coefficients: Coefficients, surfaces: list[Surface], alpha: Float[np.ndarray, "k"]) -> Coefficients:
    """The coefficients, with these at the surfaces."""
    coefficients = coefficients.copy()
    for surface, value in zip(surfaces, alpha, strict=True):
        coefficients[surface] = value
    return coefficients


def at_surfaces(values: Coefficients, surfaces: list[Surface]) -> Float[np.ndarray, "k"]:
    """The values at the surfaces; those of points in one place are equal up to rounding."""
    return np.array([values[surface].mean() for surface in surfaces])


def lie_derivatives(
    flow: PiecewiseSmoothFlow, state: State, velocity: State, coefficients: Coefficients
) -> Coefficients:
    """Derivatives of the heights along a velocity: the speeds at which they change; exact, by a complex step."""
    step = 1e-100
    return flow.heights(state + 1j * step * velocity, coefficients).imag / step
