"""Where a regularised flow settles on the surfaces that it touches."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float

Speeds = Callable[[Float[np.ndarray, "k"]], tuple[Float[np.ndarray, "k"], float]]
"""The Lie derivatives of the heights over touched surfaces for given coefficients, and how much of them is rounding."""

ROUND = 1e-9
"""How near to 0 and 1 the coefficients of sliding points count as these."""
STEPS, ROUNDS = 100, 8
"""Steps of the regularised flow before Newton's method is first tried, doubled each time, and how often it is tried."""
NEWTON = 8
"""Newton steps, at most, and two more for each surface."""
NEAR = 1e-8
"""A Newton step after which the next one would be rounding."""


def regularised_limit(speeds: Speeds, alpha: Float[np.ndarray, "k"]) -> Float[np.ndarray, "k"] | None:
    """The coefficients with which the flow continues: 0 where heights fall, 1 where they rise, else those of speed 0.

    In a regularised flow the velocity changes from one side's to the other's in a thin layer around the surface. There
    coefficients change with the heights, fast, until they settle or have left the layer. From near there on, Newton's
    method is used. None if this does not settle.
    """
    speed, rounding = speeds(alpha)
    leaves = np.where(alpha > 0.5, -speed, speed) > rounding
    crossed = np.where(leaves, 1 - alpha, alpha).round()
    if not _driven(speeds, crossed).any():
        return crossed
    pace = 1 / np.abs(_slopes(speeds, alpha)).sum(1).max()
    for doubled in range(ROUNDS):
        for _ in range(STEPS << doubled):
            before, alpha = alpha, (alpha + pace * speeds(alpha)[0]).clip(0, 1)
        found = _newton(speeds, alpha)
        if found is None and np.abs(alpha - before).max() < ROUND / 10:
            # Newton's method may fail where points stay in one place, since then their coefficients are not unique.
            found = _snapped(alpha)
        if found is not None:
            return found
    return None


def _driven(speeds: Speeds, alpha: Float[np.ndarray, "k"]) -> Bool[np.ndarray, "k"]:
    """Where the flow leads off the side that the coefficient is on; coefficients between 0 and 1 are on none."""
    speed, rounding = speeds(alpha)
    return np.where(alpha <= 0, speed > rounding, np.where(alpha >= 1, -speed > rounding, True))


def _slopes(speeds: Speeds, alpha: Float[np.ndarray, "k"]) -> Float[np.ndarray, "k k"]:
    """The speeds' derivatives; speeds are of degree at most two in each coefficient: central differences are exact."""
    return np.stack([speeds(alpha + unit)[0] - speeds(alpha - unit)[0] for unit in np.eye(len(alpha))], 1) / 2


def _newton(speeds: Speeds, alpha: Float[np.ndarray, "k"]) -> Float[np.ndarray, "k"] | None:
    """The coefficients at rest, by Newton's method, halted at 0 and 1; None if it does not find them."""
    for _ in range(NEWTON + 2 * len(alpha)):
        free = _driven(speeds, alpha)
        if not free.any():
            return alpha
        (speed, rounding), change = speeds(alpha), np.zeros_like(alpha)
        # NumPy 1 has another default for singular values, and warns.
        change[free] = np.linalg.lstsq(_slopes(speeds, alpha)[np.ix_(free, free)], -speed[free], rcond=None)[0]
        if np.abs(change).max() < NEAR:
            if np.abs(speed[free]).max() <= 10 * rounding:
                return _snapped(alpha + change)
            # No coefficients stop points that nearly coincide: they drift apart, until one is on one side.
            change = np.where(free, speed, 0) / rounding
        ahead = np.where(change > 0, 1 - alpha, alpha)
        reach = min(1.0, (ahead[free] / np.abs(change[free]).clip(np.finfo(float).tiny)).min())
        alpha = _snapped((alpha + reach * change).clip(0, 1))
    return None


def _snapped(alpha: Float[np.ndarray, "k"]) -> Float[np.ndarray, "k"]:
    """The coefficients, set to 0 and 1 where they are within rounding of these."""
    return np.where(alpha < ROUND, 0, np.where(alpha > 1 - ROUND, 1, alpha))
