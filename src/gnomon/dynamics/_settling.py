"""On which sides of its faces a flow of pieces goes on."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float

Rise = Callable[[Float[np.ndarray, "k"]], tuple[Float[np.ndarray, "k"], float]]
"""The speeds of the heights over touched faces for given sides, and what of them is rounding."""

ROUND = 1e-9
"""How near to 0 and 1 the sides of sliding points count as such."""
STEPS, ROUNDS = 100, 20
"""Steps to the sides before Newton's method is tried, and how often."""
NEWTON = 8
"""Its steps, at most, and one more for each face."""
NEAR = 1e-8
"""Such a step after which the next one would be rounding."""


def relaxed(rise: Rise, shares: Float[np.ndarray, "k"]) -> Float[np.ndarray, "k"] | None:
    """The sides of touched faces at which none is driven out: 0 where they fall, 1 where they rise, else speed 0.

    Those to which a mollified activation would bring the points, whose sides change with their heights, which change by
    `rise`; from near there by Newton's method. None if that does not come to rest.
    """
    speed, slack = rise(shares)
    driven = np.where(shares > 0.5, -speed, speed) > slack
    crossed = np.where(driven, 1 - shares, shares).round()
    if not driven_out(rise, crossed).any():
        return crossed
    pace = 1 / np.abs(slopes_of(rise, shares)).sum(1).max()
    for _ in range(ROUNDS):
        for _ in range(STEPS):
            before, shares = shares, (shares + pace * rise(shares)[0]).clip(0, 1)
        found = rested(rise, shares)
        if found is None and np.abs(shares - before).max() < ROUND / 10:
            # Newton's method may fail where points stay in one place, since then their sides are not unique.
            found = snapped(shares)
        if found is not None:
            return found
    return None


def driven_out(rise: Rise, shares: Float[np.ndarray, "k"]) -> Bool[np.ndarray, "k"]:
    """Which faces drive points off the side on which they are; those between are on none."""
    speed, slack = rise(shares)
    return np.where(shares <= 0, speed > slack, np.where(shares >= 1, -speed > slack, True))


def slopes_of(rise: Rise, shares: Float[np.ndarray, "k"]) -> Float[np.ndarray, "k k"]:
    """How speeds change with sides; of degree two at most in each, so that central differences are derivatives."""
    return np.stack([rise(shares + unit)[0] - rise(shares - unit)[0] for unit in np.eye(len(shares))], 1) / 2


def rested(rise: Rise, shares: Float[np.ndarray, "k"]) -> Float[np.ndarray, "k"] | None:
    """The sides at which none is driven out, by Newton's method, halted at 0 and 1; None if it does not get there."""
    for _ in range(NEWTON + 2 * len(shares)):
        free = driven_out(rise, shares)
        if not free.any():
            return shares
        (speed, slack), change = rise(shares), np.zeros_like(shares)
        change[free] = np.linalg.lstsq(slopes_of(rise, shares)[np.ix_(free, free)], -speed[free])[0]
        if np.abs(change).max() < NEAR:
            if np.abs(speed[free]).max() <= 10 * slack:
                return snapped(shares + change)
            # No sides stop points that nearly coincide: they drift apart, until one is on one side.
            change = np.where(free, speed, 0) / slack
        ahead = np.where(change > 0, 1 - shares, shares)
        reach = min(1.0, (ahead[free] / np.abs(change[free]).clip(np.finfo(float).tiny)).min())
        shares = snapped((shares + reach * change).clip(0, 1))
    return None


def snapped(shares: Float[np.ndarray, "k"]) -> Float[np.ndarray, "k"]:
    """0 and 1 where they are as near as rounding."""
    return np.where(shares < ROUND, 0, np.where(shares > 1 - ROUND, 1, shares))
