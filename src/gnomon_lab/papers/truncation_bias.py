"""truncation-bias: the cumulative bias at a fixed rotation, event by event as points are cut away (section 4.3)."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import TruncationFlow, _checks, bias_flow
from gnomon.data import digits
from gnomon.dynamics.faces import Sides, State
from gnomon.plot import Curves, Figure, Line, Panel, Points, Scatter, ScatterPanel
from gnomon_lab.papers.cut_components import (
    Component,
    components,
    never_met,
    not_by_one,
    off_count,
    off_end,
    off_recursion,
    off_share,
    wrongly_met,
)
from gnomon_lab.runs import Claim, Record, Run, over_seeds

DATA = ("digits", "normal")
RISES, RISES_WITHIN, FALLS_WITHIN, FALLS = CASES = ("rises", "rises-within", "falls-within", "falls")
"""Which way the cut moves, and whether its target lies among the points. If not, it lies beyond all of them."""
LOW, HIGH = 0.3, 0.7
"""Shares of the points below the cut where it begins to rise and to fall; among the points, the other's is the goal."""
MARGIN = 0.3
"""How far a target lies beyond all points."""
FIRST = 0.01
"""The first time after 0."""
AGREES, RECURS, ROUNDING = 1e-10, 1e-12, 1e-14
"""The exact flow beside the integrated one; equation 4.49; what counts as nothing in a loss of order 1."""
TARGET = 4
"""The targets' place in the palette, behind those of the cases."""
FLOOR = 1e-17
"""What is less is drawn as this, on logarithmic axes."""
Arm = Sequence[Record]
SOURCE = "Chen, arXiv:2501.07400, "
INTRODUCTION = """
A truncation map cuts off what lies below a face in each direction. If only its cumulative bias is trained, the
directions are independent: in each there is one number, the cut, which moves towards the label's preimage at a rate
that is the share of points below it. Each point that a rising cut passes is truncated and makes it faster. So the whole
flow is known: exponentials from one point to the next, and a logarithm for when the next is met.

Here the cut is followed through the three principal components of one digit's images, turned at random, and through
random points. As in the paper, the target may lie above all points. It may also lie among them, or below all. Then the
cut stops short of some points, or falls and gives points back, and the rate behaves otherwise.
"""


@dataclass(frozen=True)
class Config:
    """The setting of section 4.3."""

    digit: int = 3
    """The class of scikit-learn's digits."""
    points: int = 200
    """Random points, and digits at most; there are about 180 of a class."""
    components: int = 3
    """Principal components of the digits, and dimensions of the random points."""
    until: float = 1000.0
    """The flows end at this time."""
    readings: int = 20
    """In each factor of ten of the time."""
    threads: int = 1
    """Processor threads."""

    def __post_init__(self) -> None:
        _checks.settings(
            "truncation-bias",
            ("digit", self.digit, "from 0 to 9", 0 <= self.digit <= 9),
            ("points", self.points, "at least 5", self.points >= 5),
            ("components", self.components, "from 1 to 60, less than points",
             1 <= self.components <= min(60, self.points - 1)),
            ("until", self.until, "finite and at least 10", 10 <= self.until < math.inf),
            ("readings", self.readings, "at least 1", self.readings >= 1),
            ("threads", self.threads, "at least 1", self.threads >= 1),
        )  # fmt: skip


SMALL = Config()
PAPER = Config(points=1000, until=10_000.0)
SETTINGS = (SMALL, PAPER)


def run(config: Config, run: Run) -> None:
    """Solves and integrates the flow of each case on both data."""
    torch.set_num_threads(config.threads)
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
            (RISES, between(seen, LOW), seen.amax(0) + MARGIN),
            (RISES_WITHIN, between(seen, LOW), between(seen, HIGH)),
            (FALLS_WITHIN, between(seen, HIGH), between(seen, LOW)),
            (FALLS, between(seen, HIGH), seen.amin(0) - MARGIN),
        ):
            solve(run, f"{data} {case}", points, cut, goal, rotation, times)


def principal(x: Float[Tensor, "n d"], components: int) -> Float[Tensor, "n q"]:
    """The samples' leading principal components."""
    centred = x - x.mean(0)
    return centred @ torch.linalg.svd(centred, full_matrices=False)[2][:components].mT


def between(seen: Float[Tensor, "n q"], share: float) -> Float[Tensor, "q"]:
    """Half way between two neighbouring points, so that this share of them lies below."""
    below = round(share * len(seen))
    return seen.sort(0).values[below - 1 : below + 1].mean(0)


class FixedRotation(TruncationFlow):
    """The gradient flow of the cumulative bias alone: SciPy's Runge-Kutta method, from one crossing to the next."""

    def velocity(self, sides: Sides) -> Callable[[State], State]:
        """The right side, with that of the rotation zero."""
        moves = super().velocity(sides)

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
    """One flow, exact and integrated, from a cut to a goal in the rotated space; if stopped, it begins again."""
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
        crossings = orbit.crossings
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


def arms(records: Sequence[Record], *cases: str, data: Sequence[str] = DATA) -> list[Arm]:
    """The records of each flow of some cases, on some data."""
    by_arm = (list(part) for _, part in itertools.groupby(records, key=lambda record: record["arm"]))
    return [arm for arm in by_arm if arm[0]["arm"].split()[0] in data and case_of(arm) in cases]


def case_of(arm: Arm) -> str:
    """Which of the cases it is."""
    return str(arm[0]["arm"].split()[1])


def off(arm: Arm) -> float:
    """The largest difference of the exact and the integrated cut; infinite if they do not meet as many points."""
    first, readings = arm[0], (record["off"] for record in arm)
    return max(first["off_crossings"], *readings) if first["crossings"] == len(first["events"]) else math.inf


def rise(arm: Arm) -> float:
    """The most by which the loss rises from one reading to the next; 0 if it never does."""
    return max(0.0, *(after["loss"] - before["loss"] for before, after in itertools.pairwise(arm)))


def table(records: Sequence[Record]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Every flow: what it meets, the rate of its first component, and how far the exact one is off the integrated."""
    columns = ("points", "the cut", "met", "last at", "rate", "loss", "off the ODE")
    rows: list[tuple[str, ...]] = []
    for arm in arms(records, *CASES):
        first, end = arm[0], arm[-1]
        points, met = f"{len(first['points'][0])} {first['arm'].split()[0]}", first["events"]
        rate, loss = f"{first['rate'][0]:.2f} → {end['rate'][0]:.2f}", f"{first['loss']:.3g} → {end['loss']:.3g}"
        rows.append((points, case_of(arm), f"{len(met)}", f"{met[-1][0]:,.3g}", rate, loss, f"{off(arm):.0e}"))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in two sentences."""
    every = arms(records, *CASES)
    events, worst = sum(len(arm[0]["events"]) for arm in every), max(map(off, every))
    (whole, *_), (part, *_) = arms(records, RISES), arms(records, RISES_WITHIN)
    return (
        f"Event by event, {events:,} in all, the exact bias is that of the integrated gradient flow to {worst:.0e}. "
        f"The rate grows from {whole[0]['rate'][0]:.2f} to {whole[-1]['rate'][0]:.2f} where the target lies above all "
        f"points, and to {part[-1]['rate'][0]:.2f} where it lies among them."
    )


def figures(records: Sequence[Record]) -> list[Figure]:
    """The cut on the points, and its rates, for both data; and how far the exact flow is from the integrated one."""
    drawn: list[Figure] = []
    for data in DATA:
        for where, cases in (("beyond all points", (RISES, FALLS)), ("among the points", (RISES_WITHIN, FALLS_WITHIN))):
            drawn.append(cuts(data, where, arms(records, *cases, data=[data])))
        drawn.append(rates(data, arms(records, *CASES, data=[data])))
    return [*drawn, differences(records)]


def cuts(data: str, where: str, flows: Sequence[Arm]) -> Scatter:
    """The points that the cut meets, when, and the rate from then on; a panel for each component."""
    panels = []
    for r, directions in enumerate(zip(*map(components, flows), strict=True), 1):
        marks = []
        for case, flow in zip(map(case_of, flows), directions, strict=True):
            times, places, after = zip(*flow.met, strict=True)
            ends = times[-1], flow.readings[-1][0]
            marks += [
                Points(case, times, places, after, joined=True, colour=CASES.index(case)),
                Points("target", ends, (flow.goal, flow.goal), joined=True, colour=TARGET),
            ]
        panels.append(ScatterPanel(f"Component {r}", "s", "place", tuple(marks), log_x=True))
    return Scatter(
        f"cuts-{where.split()[0]}-{data}",
        f"The cut meets the points on its way: {data}, target {where}",
        "Each point at the time at which the cut meets it, coloured by the rate from then on. Rising, the cut "
        "truncates points and grows faster; falling, it gives them back and grows slower. It then tends to its target, "
        "or, if that lies below all points, rests on the last one.",
        tuple(panels),
        "rate: share of points below the cut",
    )


def rates(data: str, flows: Sequence[Arm]) -> Curves:
    """The rates over time, a panel for each component, and the losses."""
    panels = [
        Panel(f"Rate of component {r + 1}", "share",
              tuple(line(arm, [record["rate"][r] for record in arm]) for arm in flows), (), (0.0, 1.05))
        for r in range(len(flows[0][0]["goal"]))
    ]  # fmt: skip
    losses = [line(arm, [record["loss"] / arm[0]["loss"] for record in arm]) for arm in flows]
    return Curves(
        f"rates-{data}",
        f"The rate grows where the cut rises, and falls where it falls: {data}",
        "The share of points that each component truncates, with which the cut's distance from its target decays. It "
        "tends to the share of points below the target. The loss falls in every case.",
        "s",
        (*panels, Panel("Loss over its first value", "ratio", tuple(losses))),
    )


def differences(records: Sequence[Record]) -> Curves:
    """The exact bias less the integrated one."""
    panels = []
    for data in DATA:
        flows = arms(records, *CASES, data=[data])
        lines = tuple(line(arm, [max(record["off"], FLOOR) for record in arm]) for arm in flows)
        panels.append(Panel(f"Largest |Δβ| of a component: {data}", "|Δβ|", lines, (), (FLOOR, 1e-9), log_y=True))
    return Curves(
        "differences",
        "The exact flow is the gradient flow",
        "The exact bias less that of the integrated gradient flow, whose relative tolerance is 1e-12. The claim is "
        f"{AGREES:g}; what is below {FLOOR:g} is drawn there.",
        "s",
        tuple(panels),
    )


def line(arm: Arm, values: Sequence[float]) -> Line:
    """Values of one flow over time."""
    times = tuple(record["time"] for record in arm)
    return Line(case_of(arm), times, tuple(values), colour=CASES.index(case_of(arm)))


def claims(seeds: Sequence[Sequence[Record]]) -> list[Claim]:
    """The statements, each for the worst of its flows and over all finished seeds."""

    def most(says: str, where: str, limit: float, cases: Sequence[str], measure: Callable[[Arm], float]) -> Claim:
        values = [max(map(measure, arms(records, *cases))) for records in seeds]
        expected = f"at most {limit:g}" if limit else "0"
        return Claim(says, SOURCE + where, expected, over_seeds(values), max(values) <= limit)

    def worst(measure: Callable[[Component], float]) -> Callable[[Arm], float]:
        return lambda arm: max(map(measure, components(arm)))

    rising, falling = (RISES, RISES_WITHIN), (FALLS_WITHIN, FALLS)
    corrected = ", as corrected in docs/errata.md"
    return [
        most("the exact bias is that of the integrated gradient flow, at all times and where that crosses a point: "
             "difference", "equations 4.38 to 4.47", AGREES, CASES, off),
        most("rising, target above all points: the times follow the recursion: relative difference", "equation 4.49",
             RECURS, [RISES], worst(off_recursion)),
        most("falling, target below all points: they follow it with n the points still below the cut",
             "equation 4.49" + corrected, RECURS, [FALLS], worst(off_recursion)),
        most("rising: the rate grows with every point truncated: events at which not by 1/N", "after equation 4.49",
             0, rising, worst(not_by_one)),
        most("falling: it shrinks with every point released: events at which not by 1/N",
             "section 4.3" + corrected, 0, falling, worst(not_by_one)),
        most("the rate is the share of points that the integrated flow truncates: difference", "equation 4.45",
             ROUNDING, CASES, worst(off_count)),
        most("rising: every point is reached in finite time: points of a component that are not",
             "after equation 4.49", 0, rising, worst(never_met)),
        most("rising: in the end the rate is 1: difference", "equation 4.50", ROUNDING, rising,
             worst(lambda flow: 1 - flow.readings[-1][2])),
        most("exactly the points between the first cut and the target are reached: points for which not so",
             "equation 4.49" + corrected, 0, CASES, worst(wrongly_met)),
        most("in the end the rate is the share of points below the target: difference", "equation 4.50" + corrected,
             ROUNDING, CASES, worst(off_share)),
        most("the bias tends to minus the target, or rests on the last point above it: distance",
             "equation 4.50" + corrected, AGREES, CASES, worst(off_end)),
        most("the loss never rises: its largest rise", "equation 4.38", ROUNDING, CASES, rise),
    ]  # fmt: skip
