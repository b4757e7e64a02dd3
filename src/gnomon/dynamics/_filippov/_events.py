"""What happens at discontinuity surfaces: when one is met, and how the flow continues from there."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.optimize import brentq
from torch import Tensor

from gnomon.dynamics._filippov._regularisation import regularised_limit
from gnomon.dynamics._filippov._system import (
    Coefficients,
    PiecewiseSmoothFlow,
    State,
    Surface,
    at_surfaces,
    lie_derivatives,
    replaced,
    surfaces_touched,
)
from gnomon.errors import ConvergenceError

NODES = 8
"""At how many times in a step the surfaces are checked."""
STILL = 1e-13
"""Speeds below this share of the largest are rounding."""
ITERATIONS = 1000
"""Steps of the search for an event: where a margin is rounding, every second one is tiny, and 100 were too few."""
TRIES = 50
"""How often points may part or meet behind a layer, before the search for a continuation is given up."""


@dataclass(frozen=True)
class SwitchingEvents:
    """What happens at discontinuity surfaces, in order of time.

    Attributes:
        times: (e).
        layers: (e), from 0 on.
        points: (e).
        coordinates: (e).
        coefficients: (e), 0 where the point crosses and is truncated in this coordinate from now on, 1 where it no
            longer is, and Filippov's coefficient, in between, where it starts to slide.
    """

    times: Float[Tensor, "e"]
    layers: Int[Tensor, "e"]
    points: Int[Tensor, "e"]
    coordinates: Int[Tensor, "e"]
    coefficients: Float[Tensor, "e"]

    @classmethod
    def of(cls, events: list[tuple[float, int, int, int, float]], like: Tensor) -> "SwitchingEvents":
        """The same, from a list, as tensors."""
        columns = np.array(events, dtype=float).reshape(-1, 5).T
        times, layers, points, coordinates, coefficients = torch.from_numpy(columns).to(like)
        return cls(times, layers.long(), points.long(), coordinates.long(), coefficients)


def first_event(
    margins: Callable[[float], Coefficients], bounds: Coefficients, now: float, until: float
) -> float | None:
    """When a margin first falls below its bound, up to `until`: at 0, or at the bound if it began as near to 0 as that.

    Otherwise a point that leaves its surface too slowly to tell from rounding would meet it again at once, without end.

    Raises:
        ConvergenceError: if it is below its bound from the start.
    """

    def least(time: float, surfaces: Bool[np.ndarray, "l n q"], at: Coefficients | float) -> float:
        return float((margins(time) - at)[surfaces].min())

    def between(before: float, after: float) -> float:
        first, beyond = margins(before), margins(after) < bounds
        if (first < bounds)[beyond].any():
            raise ConvergenceError(
                "times",
                f"surfaces ahead at time {before}",
                f"one passed by {-first[beyond].min():.1e} before",
                "Move the points or the start slightly.",
            )
        at = 0.0 if (first + bounds)[beyond].min() > 0 else bounds
        event = float(brentq(least, before, after, args=(beyond, at), xtol=1e-15 * after, maxiter=ITERATIONS))
        # A margin that is above its bound again afterwards may be below it there.
        return between(before, event) if event < after and (margins(event) < bounds).any() else event

    before = now
    for node in np.linspace(now, until, NODES + 1)[1:].tolist():
        if (margins(node) < bounds).any():
            return between(before, node)
        before = node
    return None


def switched(
    flow: PiecewiseSmoothFlow, state: State, coefficients: Coefficients, touching: Bool[np.ndarray, "l n q"]
) -> tuple[Coefficients | None, list[Surface]]:
    """The coefficients with which the flow continues from touched surfaces, None if none are found; and these surfaces.

    Coefficients decide which points stay in one place behind a layer, and so touch a surface as one.
    """
    for _ in range(TRIES):
        surfaces, places = surfaces_touched(flow, coefficients, touching), flow.places(coefficients)
        speeds = partial(_speeds, flow, state, coefficients, surfaces)
        alpha = regularised_limit(speeds, at_surfaces(coefficients, surfaces).clip(0, 1))
        if alpha is None:
            break
        coefficients = replaced(coefficients, surfaces, alpha)
        if (flow.places(coefficients) == places).all():
            return coefficients, surfaces
    return None, surfaces


def _speeds(
    flow: PiecewiseSmoothFlow,
    state: State,
    coefficients: Coefficients,
    surfaces: list[Surface],
    alpha: Float[np.ndarray, "k"],
) -> tuple[Float[np.ndarray, "k"], float]:
    """The speeds of the heights over the surfaces for these coefficients there, and how much of them is rounding."""
    here = replaced(coefficients, surfaces, alpha)
    speeds = lie_derivatives(flow, state, flow.velocity(here)(state), here)
    return at_surfaces(speeds, surfaces), float(STILL * np.abs(speeds).max())
