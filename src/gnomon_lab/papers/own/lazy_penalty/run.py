"""The settings of the penalty, and a race to the goal with each."""

import itertools
from dataclasses import dataclass
from typing import Annotated

import torch

from gnomon import GrokAlign, Probe, accuracy, log_spaced
from gnomon.data import Samples
from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers._shared import UNSEEN, loss_in
from gnomon_lab.papers.own._race import Race
from gnomon_lab.papers.own.lazy_penalty.page import (
    BASELINE,
    claims,
    figures,
    figures_over_seeds,
    summary,
    table,
    table_over_seeds,
)
from gnomon_lab.papers.own.lazy_penalty.tasks import TASKS
from gnomon_lab.runs import Run
from gnomon_lab.settings import Count, Positive, Range, Settings, among, at_least
from gnomon_lab.training import fit, in_order

LOOK = 10
"""The unseen accuracy is read every so many steps, as in table 1 of the paper."""
INTRODUCTION = """
The GrokAlign penalty makes a network grok in fewer steps, but where it acts on every batch a step costs about two plain
ones. Here it acts on one batch in k, k times as strong, or on a quarter of each batch; and λ, its coefficient, is
larger than the paper's. Each network is trained until it recognises a goal share of unseen samples: in how many steps,
and in how much CPU time?
"""

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


EXPERIMENT = Experiment(
    EXPERIMENTS["lazy-penalty"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims, OTHERS,
    figures_over_seeds, table_over_seeds,
)  # fmt: skip
