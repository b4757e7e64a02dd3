"""truncation-bias's page: its table, figures and claims, from its records."""

import itertools
import math
from collections.abc import Callable, Sequence

from gnomon_lab.figures import Curves, Figure, Line, Panel, Points, Scatter, ScatterPanel
from gnomon_lab.papers.effective_flow.truncation_bias.components import (
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
from gnomon_lab.runs import Arm, Cells, Claim, Record, Seeds, by_arm, over_seeds

DATA = ("digits", "normal")
RISES, RISES_WITHIN, FALLS_WITHIN, FALLS = CASES = ("rises", "rises-within", "falls-within", "falls")
"""Which way the cut moves, and whether its target lies among the points. If not, it lies beyond all of them."""
AGREES, RECURS, ROUNDING = 1e-10, 1e-12, 1e-14
"""Tolerances: exact against integrated flow; equation 4.49; what counts as zero in a loss of order 1."""
TARGET = 4
"""The targets' place in the palette, after those of the cases."""
FLOOR = 1e-17
"""Smaller values are drawn as this, on logarithmic axes."""
SOURCE = "Chen, arXiv:2501.07400, "


def arms(records: Sequence[Record], *cases: str, data: Sequence[str] = DATA) -> list[Arm]:
    """The records of each flow of some cases, on some data."""
    return [arm for arm in by_arm(records).values() if arm[0]["arm"].split()[0] in data and case_of(arm) in cases]


def case_of(arm: Arm) -> str:
    """Which of the cases it is."""
    return str(arm[0]["arm"].split()[1])


def off(arm: Arm) -> float:
    """The largest difference between the exact and the integrated cut; infinite if they meet unequally many points."""
    first, readings = arm[0], (record["off"] for record in arm)
    return max(first["off_crossings"], *readings) if first["crossings"] == len(first["events"]) else math.inf


def rise(arm: Arm) -> float:
    """The most by which the loss rises from one reading to the next; 0 if it never does."""
    return max(0.0, *(after["loss"] - before["loss"] for before, after in itertools.pairwise(arm)))


def table(records: Sequence[Record]) -> Cells:
    """Every flow: what it meets, the rate of its first component, and how far the exact is from the integrated flow."""
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
    """The points that the cut meets, when it does, and the rate from then on; a panel for each component."""
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
    """The exact bias minus the integrated one."""
    panels = []
    for data in DATA:
        flows = arms(records, *CASES, data=[data])
        lines = tuple(line(arm, [max(record["off"], FLOOR) for record in arm]) for arm in flows)
        panels.append(Panel(f"Largest |Δβ| of a component: {data}", "|Δβ|", lines, (), (FLOOR, 1e-9), log_y=True))
    return Curves(
        "differences",
        "The exact flow beside the gradient flow",
        "The exact bias less that of the integrated gradient flow, whose relative tolerance is 1e-12. The claim is "
        f"{AGREES:g}; what is below {FLOOR:g} is drawn there.",
        "s",
        tuple(panels),
    )


def line(arm: Arm, values: Sequence[float]) -> Line:
    """Values of one flow over time."""
    times = tuple(record["time"] for record in arm)
    return Line(case_of(arm), times, tuple(values), colour=CASES.index(case_of(arm)))


def claims(seeds: Seeds) -> list[Claim]:
    """The statements, each for the worst of its flows and over all finished seeds."""

    def most(message: str, where: str, limit: float, cases: Sequence[str], measure: Callable[[Arm], float]) -> Claim:
        values = [max(map(measure, arms(records, *cases))) for records in seeds]
        expected = f"at most {limit:g}" if limit else "0"
        return Claim(message, SOURCE + where, expected, over_seeds(values), max(values) <= limit)

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
        most("exactly the points between the first cut and the target are reached: exceptions",
             "equation 4.49" + corrected, 0, CASES, worst(wrongly_met)),
        most("in the end the rate is the share of points below the target: difference", "equation 4.50" + corrected,
             ROUNDING, CASES, worst(off_share)),
        most("the bias tends to minus the target, or rests on the last point above it: distance",
             "equation 4.50" + corrected, AGREES, CASES, worst(off_end)),
        most("the loss never rises: its largest rise", "equation 4.38", ROUNDING, CASES, rise),
    ]  # fmt: skip
