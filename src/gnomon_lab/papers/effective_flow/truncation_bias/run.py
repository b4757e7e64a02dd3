"""truncation-bias: the cumulative bias at a fixed rotation, event by event as points are cut away (section 4.3)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import TruncationFlow, bias_flow
from gnomon.data import digits
from gnomon.dynamics import Coefficients, State
from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers._shared import principal
from gnomon_lab.papers.effective_flow.truncation_bias.page import (
    DATA,
    FALLS,
    FALLS_WITHIN,
    RISES,
    RISES_WITHIN,
    claims,
    figures,
    summary,
    table,
)
from gnomon_lab.runs import Run
from gnomon_lab.settings import Count, Range, Settings, at_least, between

LOW, HIGH = 0.3, 0.7
"""Shares of the points below the cut where it starts to rise and to fall; among points, each is the other's goal."""
MARGIN = 0.3
"""How far a target lies beyond all points."""
FIRST = 0.01
"""The first time after 0."""
INTRODUCTION = """
A truncation map cuts off what lies below a face in each direction. If only its cumulative bias is trained, the
directions are independent: in each there is one number, the cut, which moves towards the label's preimage at a rate
equal to the share of points below it. Each point that a rising cut passes is truncated and makes it faster. So the
complete flow is known: exponentials from one point to the next, and a logarithm for the time at which the next is met.

Here the cut is followed through the three principal components of one digit's images, randomly rotated, and through
random points. As in the paper, the target may lie above all points. It may also lie among them, or below all. Then the
cut stops short of some points, or falls and gives points back, and the rate behaves differently.
"""

COMPONENTS = Range("from 1 to 60, less than points", lambda count, config: 1 <= count <= min(60, config.points - 1))


@dataclass(frozen=True)
class Config(Settings):
    """The setting of section 4.3."""

    digit: Annotated[int, between(0, 9)] = 3
    """The class of scikit-learn's digits."""
    points: Annotated[int, at_least(5)] = 200
    """Number of random points, and of digits at most; there are about 180 per class."""
    components: Annotated[int, COMPONENTS] = 3
    """Principal components of the digits, and dimensions of the random points."""
    until: Annotated[float, at_least(10.0)] = 1000.0
    """The flows end at this time."""
    readings: Count = 20
    """Readings in each factor of ten of the time."""


SMALL = Config()
PAPER = Config(points=1000, until=10_000.0)


def run(config: Config, run: Run) -> None:
    """Solves and integrates the flow of each case on both data sets."""
    generator, shape = torch.Generator().manual_seed(run.seed), (config.points, config.components)
    parts = digits(generator=generator, dtype=torch.float64)
    images = torch.cat([part.x[part.labels == config.digit] for part in parts])[: config.points] / 16
    random = torch.randn(shape, generator=generator, dtype=torch.float64)
    rotation = torch.linalg.qr(torch.randn(shape[1], shape[1], generator=generator, dtype=torch.float64))[0]
    decades = math.log10(FIRST), math.log10(config.until)
    later = torch.logspace(*decades, 1 + round(config.readings * (decades[1] - decades[0])), dtype=torch.float64)
    times = torch.cat([torch.zeros(1, dtype=torch.float64), later])
    for data, points in zip(DATA, (principal(images, config.components), random), strict=True):
        seen = points @ rotation.mT
        for case, cut, goal in (
            (RISES, halfway(seen, LOW), seen.amax(0) + MARGIN),
            (RISES_WITHIN, halfway(seen, LOW), halfway(seen, HIGH)),
            (FALLS_WITHIN, halfway(seen, HIGH), halfway(seen, LOW)),
            (FALLS, halfway(seen, HIGH), seen.amin(0) - MARGIN),
        ):
            solve(run, f"{data} {case}", points, cut, goal, rotation, times)


def halfway(seen: Float[Tensor, "n q"], share: float) -> Float[Tensor, "q"]:
    """Half way between two neighbouring points, so that this share of them lies below."""
    below = round(share * len(seen))
    return seen.sort(0).values[below - 1 : below + 1].mean(0)


class FixedRotation(TruncationFlow):
    """The gradient flow of the cumulative bias alone: SciPy's Runge-Kutta method, from one crossing to the next."""

    def velocity(self, coefficients: Coefficients) -> Callable[[State], State]:
        """The right-hand side, with the rotation's part set to zero."""
        moves = super().velocity(coefficients)

        def at(state: State) -> State:
            velocity = moves(state)
            velocity[:, 1:] = 0
            return velocity

        return at


def solve(
    run: Run,
    arm: str,
    points: Float[Tensor, "n q"],
    cut: Float[Tensor, "q"],
    goal: Float[Tensor, "q"],
    rotation: Float[Tensor, "q q"],
    times: Float[Tensor, "t"],
) -> None:
    """One flow, exact and integrated, from a cut to a goal in the rotated space; if stopped, it starts over."""
    target, beta, seen = goal @ rotation, -cut @ rotation, points @ rotation.mT
    for _ in run.steps(arm, 0):
        exact = bias_flow(points, target, beta, rotation, times)
        run.require_finite(loss=exact.loss)
        orbit = FixedRotation(points, target).flow(beta, rotation, times)
        point, component = ((exact.passed > 0) & exact.passed.isfinite()).nonzero().T
        when = exact.passed[point, component]
        rate = bias_flow(points, target, beta, rotation, when).rate[torch.arange(len(when)), component]
        events = zip(when.tolist(), component.tolist(), seen[point, component].tolist(), rate.tolist(), strict=True)
        # Where the exact cut is when the integrated one crosses a point.
        crossings = orbit.events
        there = -bias_flow(points, target, beta, rotation, crossings.times).beta @ rotation.mT
        at = there.gather(1, crossings.coordinates[:, None])[:, 0] - seen[crossings.points, crossings.coordinates]
        extra = {
            "points": seen.mT.tolist(), "goal": goal.tolist(), "events": sorted(events), "crossings": len(at),
            "off_crossings": float(at.abs().max()),
        }  # fmt: skip
        series = {
            "time": times, "cut": -exact.beta @ rotation.mT, "rate": exact.rate, "loss": exact.loss,
            "truncated": orbit.truncated, "off": (exact.beta - orbit.beta).abs().amax(1),
        }  # fmt: skip
        for k in range(len(times)):
            run.record(k, **{name: values[k].tolist() for name, values in series.items()}, **(extra if k == 0 else {}))


EXPERIMENT = Experiment(
    EXPERIMENTS["truncation-bias"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims
)
