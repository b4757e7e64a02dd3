"""How soon each setting reached the goal: the table, the figure, the summary and the claims."""

import math
import statistics
from collections.abc import Sequence

from gnomon_lab.figures import Figure, Points, Scatter, ScatterPanel
from gnomon_lab.papers._shared import UNSEEN
from gnomon_lab.runs import Cells, Claim, Record, Seeds, by_arm, last, over_seeds

BASELINE = "weight decay"
FASTER, DEARER = 12.0, 1.15
"""Aims: how many times less time than weight decay alone, and the cost of a step in plain steps."""
TIMES = "\u00a0x"
"""The unit of a factor, which is not broken from its number."""


def named(arm: str) -> str:
    """An arm as a reader knows it."""
    if arm == BASELINE:
        return arm
    _, k, _, part, _, coefficient = arm.split()
    return f"λ = {coefficient}, k = {k}" + ("" if part == "1" else f", {part} of a batch")


def times(records: Sequence[Record], arm: str) -> tuple[float, float] | None:
    """How many times fewer steps than weight decay alone an arm took to the goal, and how many times less time.

    If weight decay alone never arrived, at least so many times: those of all its steps.
    """
    base, ours = last(records, BASELINE), last(records, arm)["arrived"]
    steps, seconds = base["arrived"] or (base["step"], base["processor"])
    return None if ours is None else (steps / ours[0], seconds / ours[1])


def without_arrival(seeds: Seeds) -> int:
    """The number of seeds in which weight decay alone never arrived: what is gained there is a lower bound."""
    return sum(last(records, BASELINE)["arrived"] is None for records in seeds)


def step_cost(records: Sequence[Record], arm: str) -> float:
    """The seconds of a step, relative to weight decay alone."""
    base, ours = (last(records, name) for name in (BASELINE, arm))
    return float(ours["processor"] / ours["step"] / (base["processor"] / base["step"]))


def table(records: Sequence[Record]) -> Cells:
    """For this seed alone."""
    return table_over_seeds([records])


def table_over_seeds(seeds: Seeds) -> Cells:
    """Every setting: how soon it reached the goal, and what it knew at the end; medians over seeds and their range."""
    columns = ("", "steps", "seconds", "fewer steps", "less time", "a step costs", "unseen, at the end")
    rows: list[tuple[str, ...]] = []
    for arm in by_arm(seeds[0]):
        ends = [last(records, arm) for records in seeds]
        arrived = [records for records, end in zip(seeds, ends, strict=True) if end["arrived"] is not None]
        reached = [last(records, arm)["arrived"] for records in arrived]
        gained = [ratios for records in arrived if (ratios := times(records, arm)) is not None]
        steps, seconds = ([at[unit] for at in reached] for unit in (0, 1))
        bound = "at least " if without_arrival(arrived) else ""
        factors = [median_and_range([ratios[unit] for ratios in gained], ".2f", TIMES) for unit in (0, 1)]
        took = median_and_range(steps, ",.0f") or "never"
        if 0 < len(reached) < len(seeds):
            took += f", {len(seeds) - len(reached)} of {len(seeds)} never"
        rows.append((
            named(arm), took, median_and_range(seconds, ",.0f"),
            *(factor and bound + factor for factor in factors),
            median_and_range([step_cost(records, arm) for records in seeds], ".2f"),
            median_and_range([end[UNSEEN] for end in ends], ".1%"),
        ))  # fmt: skip
    return columns, rows


def median_and_range(values: Sequence[float], shown: str, unit: str = "") -> str:
    """The median and, where they differ, the range of the values; empty if there are none."""
    if not values:
        return ""
    median, low, high = (f"{of(values):{shown}}" for of in (statistics.median, min, max))
    return f"{median}{unit}" + ("" if low == high else f" ({low} to {high})")


def arms(records: Sequence[Record]) -> list[str]:
    """The arms with the penalty."""
    return [arm for arm in by_arm(records) if arm != BASELINE]


def best(seeds: Seeds) -> tuple[str, list[tuple[float, float]]] | None:
    """The setting with the highest median of times less time, and what it gained for each seed.

    Among those that reached the goal with every seed; None if there is none.
    """
    found = {arm: [times(records, arm) for records in seeds] for arm in arms(seeds[0])}
    whole = {arm: [each for each in gained if each] for arm, gained in found.items() if all(gained)}
    if not whole:
        return None
    arm = max(whole, key=lambda name: statistics.median(less for _, less in whole[name]))
    return arm, whole[arm]


def summary(records: Sequence[Record]) -> str:
    """The best setting."""
    found = best([records])
    if found is None:
        return "No setting reached the goal."
    arm, [(steps, seconds)] = found
    return f"With {named(arm)} the goal is reached in {steps:.1f} times fewer steps and {seconds:.1f} times less time."


def figures(records: Sequence[Record]) -> list[Figure]:
    """For this seed alone."""
    return figures_over_seeds([records])


def figures_over_seeds(seeds: Seeds) -> list[Figure]:
    """How many times less time against λ, a line for each k, a panel for each part of the batch; medians over seeds."""
    gained = {arm: [times(records, arm) for records in seeds] for arm in arms(seeds[0])}
    # A seed that never arrives counts as no gain at all.
    every = {arm: statistics.median(each[1] if each else 0.0 for each in found) for arm, found in gained.items()}
    medians = {arm: less for arm, less in every.items() if less > 0}
    if not medians:
        return []
    panels = []
    for part in dict.fromkeys(arm.split()[3] for arm in medians):
        lines: dict[str, tuple[list[float], list[float]]] = {}
        for arm, less in medians.items():
            _, k, _, of, _, coefficient = arm.split()
            if of == part:
                xs, ys = lines.setdefault(k, ([], []))
                xs.append(float(coefficient))
                ys.append(less)
        points = tuple(
            Points(f"one batch in {k}", tuple(xs), tuple(ys), joined=True, colour=place)
            for place, (k, (xs, ys)) in enumerate(lines.items())
        )
        title = "Penalty on whole batches" if part == "1" else f"Penalty on {part} of a batch"
        panels.append(ScatterPanel(title, "λ, mean over the batches", "times less time", points, log_x=True))
    caption = (
        "How many times less processor time than with weight decay alone until the goal is reached; the median over "
        f"{len(seeds)} {'seed' if len(seeds) == 1 else 'seeds'}"
        + (f"; at least, as weight decay alone never arrived in {never}." if (never := without_arrival(seeds)) else ".")
    )
    return [Scatter("less-time", "What a GrokAlign that acts seldom gains", caption, tuple(panels))]


def claims(seeds: Seeds) -> list[Claim]:
    """What this project aimed at."""
    found, source = best(seeds), "aim of this project, docs/experiments/lazy-penalty.md"
    measured = dear = "no setting reached the goal with every seed"
    less, cost = math.nan, math.nan
    if found is not None:
        arm, gained = found
        less = statistics.median(seconds for _, seconds in gained)
        cost = statistics.median(step_cost(records, arm) for records in seeds)
        span = over_seeds([seconds for _, seconds in gained], ".1f")
        measured, dear = f"{less:.1f} x ({span}), {named(arm)}", f"{cost:.2f}"
        if never := without_arrival(seeds):
            measured += f"; at least, in {never} of {len(seeds)} seeds, in which weight decay alone never arrived"
    message = "the best setting reaches the goal in a twelfth of the time that weight decay alone takes"
    return [
        Claim(message, source, f"at least {FASTER:g} x, median over seeds", measured, less >= FASTER),
        Claim(
            "a step with it costs little more than a plain one",
            source,
            f"at most {DEARER:g}, median over seeds",
            dear,
            cost <= DEARER,
        ),
    ]
