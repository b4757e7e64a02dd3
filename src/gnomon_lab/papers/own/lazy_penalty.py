"""lazy-penalty: GrokAlign at some batches, or on a part of each: the steps and the time to a goal, for each λ."""

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import nn

from gnomon import GrokAlign, Probe, accuracy, log_spaced
from gnomon.data import Samples, digits
from gnomon.models import mlp
from gnomon_lab.experiment import Experiment
from gnomon_lab.figures import Figure, Points, Scatter, ScatterPanel
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers._shared import UNSEEN, Loss, Precision, loss_in, mnist_network, mnist_splits
from gnomon_lab.papers.own._race import Race
from gnomon_lab.papers.own.grok_digits import scaled
from gnomon_lab.runs import Claim, Record, Run, by_arm, last, over_seeds
from gnomon_lab.settings import Count, Positive, Range, Settings, among, at_least
from gnomon_lab.training import fit, in_order

BASELINE = "weight decay"
LOOK = 10
"""The unseen accuracy is read every so many steps, as in table 1 of the paper."""
FASTER, DEARER = 12.0, 1.15
"""Aims: how many times less time than weight decay alone, and the cost of a step in plain steps."""
TIMES = "\u00a0x"
"""The unit of a factor, which is not broken from its number."""
INTRODUCTION = """
The GrokAlign penalty makes a network grok in fewer steps, but where it acts on every batch a step costs about two plain
ones. Here it acts on one batch in k, k times as strong, or on a quarter of each batch; and λ, its coefficient, is
larger than the paper's. Each network is trained until it recognises a goal share of unseen samples: in how many steps,
and in how much CPU time?
"""


@dataclass(frozen=True)
class Task:
    """What is trained, and until when.

    Attributes:
        loss: the training loss.
        precision: of training.
        learning_rate: of AdamW.
        weight_decay: of AdamW, in all arms.
        batch: samples per update.
        goal: the share of unseen samples to recognise.
        data: training and unseen samples.
        network: the initial network.
    """

    loss: Loss
    precision: Precision
    learning_rate: float
    weight_decay: float
    batch: int
    goal: float
    data: Callable[[Run], tuple[Samples, Samples]]
    network: Callable[[Samples, torch.Generator], nn.Module]


def table_1(loss: Loss, precision: Precision = "float64") -> Task:
    """The setting of table 1 of the paper, as in `accelerate`."""
    return Task(
        loss, precision, 1e-3, 0.01, 256, 0.85,
        lambda run: mnist_splits(run, 1024, precision),
        lambda train, generator: mnist_network(train, 196, 8.0, generator),
    )  # fmt: skip


def first_run(run: Run) -> tuple[Samples, Samples]:
    """The digits of `grok-digits`."""
    train, test = scaled(*digits(500, generator=torch.Generator().manual_seed(run.seed)))
    return train, test


TASKS = {
    "cross-entropy": table_1("cross-entropy"),
    "mse": table_1("mse"),
    "mse-mixed": table_1("mse", "mixed"),
    "digits": Task(
        "mse", "float32", 3e-3, 0.003, 500, 0.9, first_run,
        lambda train, generator: mlp((64, 128, 128, 128, 10), scale=4.0, generator=generator),
    ),
}  # fmt: skip


PART = Range("in (0, 1]", lambda part, _: 0 < part <= 1)


@dataclass(frozen=True)
class Config(Settings):
    """The settings of the penalty."""

    task: Annotated[str, among(*TASKS)] = "digits"
    """cross-entropy and mse: table 1; mse-mixed: the same in float32 except for the loss; digits: the first run."""
    every: tuple[Count, ...] = (1, 4, 16, 64)
    """The penalty acts on one batch in this many."""
    fractions: tuple[Annotated[float, PART], ...] = (1.0, 0.25)
    """Fractions of a batch on which it acts."""
    coefficients: tuple[Positive, ...] = (1e-3, 1e-2, 3e-2, 1e-1)
    """Its λ, averaged over the batches."""
    steps: Count = 40_000
    """Maximum number of steps; a step is a pass over all batches."""
    least: Annotated[int, at_least(0)] = 2000
    """With the penalty a network trains for this many steps, even if it reaches the goal before."""


SMALL = Config(every=(1, 16), fractions=(1.0,), coefficients=(1e-2, 1e-1))
PAPER = Config("cross-entropy")
OTHERS = (
    Config("digits", coefficients=(1e-3, 1e-2, 3e-2, 1e-1, 3e-1)),
    Config("mse", every=(1, 16), fractions=(1.0,), coefficients=(1e-3, 1e-2, 1e-1, 1.0)),
    Config("mse", coefficients=(1e-1,)),
    Config("mse-mixed", coefficients=(1e-3, 1e-2, 3e-2)),
)


def cells(config: Config) -> dict[str, tuple[int, float, float]]:
    """The settings of the penalty, by the names of their arms."""
    found = itertools.product(config.every, config.fractions, config.coefficients)
    return {f"every {k} part {part:g} coefficient {of:g}": (k, part, of) for k, part, of in found}


def run(config: Config, run: Run) -> None:
    """Trains without the penalty and with each setting of it, from the same start."""
    train, test = TASKS[config.task].data(run)
    train_arm(config, run, BASELINE, None, train, test)
    for arm, setting in cells(config).items():
        train_arm(config, run, arm, setting, train, test)


def train_arm(
    config: Config, run: Run, arm: str, setting: tuple[int, float, float] | None, train: Samples, test: Samples
) -> None:
    """Trains one network to the goal; its last record says when it arrived, as `arrived`."""
    task, generator = TASKS[config.task], torch.Generator().manual_seed(run.seed)
    model = task.network(train, generator)
    optimizer = torch.optim.AdamW(model.parameters(), task.learning_rate, weight_decay=task.weight_decay)
    penalty = None
    if setting is not None:
        every, fraction, coefficient = setting
        penalty = GrokAlign(coefficient, every=every, fraction=fraction, generator=generator)
    probe, due, race = Probe(model, {"test": test}, [accuracy]), log_spaced(12), Race(task.goal)
    least = 0 if setting is None else config.least
    for step in fit(
        run, arm, config.steps, model, optimizer, in_order(train, task.batch), loss_in(task.precision, task.loss),
        due=lambda step: due(step) or step % LOOK == 0, penalty=penalty, generator=generator, race=race,
    ):  # fmt: skip
        with race.pause():
            reading = probe.read(step)
            if step % LOOK == 0:
                race.look(step, float(reading.values[UNSEEN].mean()))
            ends = step == config.steps or (race.arrived is not None and step % LOOK == 0 and step >= least)
            if ends or due(step):
                run.record(step, reading, processor=race.seconds, arrived=race.arrived)
            if ends:
                run.stop()


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


def step_cost(records: Sequence[Record], arm: str) -> float:
    """The seconds of a step, relative to weight decay alone."""
    base, ours = (last(records, name) for name in (BASELINE, arm))
    return float(ours["processor"] / ours["step"] / (base["processor"] / base["step"]))


def table(records: Sequence[Record]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """For this seed alone."""
    return table_over_seeds([records])


def table_over_seeds(seeds: Sequence[Sequence[Record]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Every setting: how soon it reached the goal, and what it knew at the end; medians over seeds and their range."""
    columns = ("", "steps", "seconds", "fewer steps", "less time", "a step costs", "unseen, at the end")
    rows: list[tuple[str, ...]] = []
    for arm in by_arm(seeds[0]):
        ends = [last(records, arm) for records in seeds]
        reached = [end["arrived"] for end in ends if end["arrived"] is not None]
        gained = [ratios for records in seeds if (ratios := times(records, arm)) is not None]
        steps, seconds = ([at[unit] for at in reached] for unit in (0, 1))
        fewer, less = ([ratios[unit] for ratios in gained] for unit in (0, 1))
        took = median_and_range(steps, ",.0f") or "never"
        if 0 < len(reached) < len(seeds):
            took += f", {len(seeds) - len(reached)} of {len(seeds)} never"
        rows.append((
            named(arm), took, median_and_range(seconds, ",.0f"),
            median_and_range(fewer, ".2f", TIMES), median_and_range(less, ".2f", TIMES),
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


def best(seeds: Sequence[Sequence[Record]]) -> tuple[str, list[tuple[float, float]]] | None:
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


def figures_over_seeds(seeds: Sequence[Sequence[Record]]) -> list[Figure]:
    """How many times less time against λ, a line for each k, a panel for each part of the batch; medians over seeds."""
    gained = {arm: [times(records, arm) for records in seeds] for arm in arms(seeds[0])}
    medians = {arm: statistics.median(each[1] for each in found if each) for arm, found in gained.items() if any(found)}
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
        f"{len(seeds)} {'seed' if len(seeds) == 1 else 'seeds'}."
    )
    return [Scatter("less-time", "What a GrokAlign that acts seldom gains", caption, tuple(panels))]


def claims(seeds: Sequence[Sequence[Record]]) -> list[Claim]:
    """What this project aimed at."""
    found, source = best(seeds), "aim of this project, docs/experiments/lazy-penalty.md"
    measured = "no setting reached the goal with every seed"
    less, cost = math.nan, math.nan
    if found is not None:
        arm, gained = found
        less = statistics.median(seconds for _, seconds in gained)
        cost = statistics.median(step_cost(records, arm) for records in seeds)
        span = over_seeds([seconds for _, seconds in gained], ".1f")
        measured = f"{less:.1f} x ({span}), {named(arm)}"
        if never := sum(last(records, BASELINE)["arrived"] is None for records in seeds):
            measured += f"; at least, in {never} of {len(seeds)} seeds, in which weight decay alone never arrived"
    message = "the best setting reaches the goal in a twelfth of the time that weight decay alone takes"
    return [
        Claim(message, source, f"at least {FASTER:g} x, median over seeds", measured, less >= FASTER),
        Claim("a step with it costs little more than a plain one", source, f"at most {DEARER:g}", f"{cost:.2f}",
              cost <= DEARER),
    ]  # fmt: skip


EXPERIMENT = Experiment(
    EXPERIMENTS["lazy-penalty"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims, OTHERS,
    figures_over_seeds, table_over_seeds,
)  # fmt: skip
