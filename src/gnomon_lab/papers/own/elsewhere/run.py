"""elsewhere: a ResNet, a vision transformer, a model of characters and a fine-tuned encoder, read as they train."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch.nn.functional import cross_entropy

import gnomon
from gnomon import Probe
from gnomon.data import Samples
from gnomon.history import corpus
from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.own._reading import JACOBIANS, numbers, read_at
from gnomon_lab.papers.own._samples import split
from gnomon_lab.papers.own.elsewhere.page import claims, figures, summary, table
from gnomon_lab.papers.own.elsewhere.tasks import TASKS, Task
from gnomon_lab.runs import Run
from gnomon_lab.settings import Settings, among, between
from gnomon_lab.training import fit, shuffled

INTRODUCTION = """
The corpus holds small networks on small tasks. What does its verdict say of training runs of other kinds, and what came
of them? Each is run once; the verdict is asked when a 32nd, a 16th, an eighth and a quarter of the steps are done.
"""


@dataclass(frozen=True)
class Config(Settings):
    """The setting."""

    tasks: tuple[Annotated[str, among(*TASKS)], ...] = tuple(TASKS)
    """Which training runs."""
    doublings: Annotated[int, between(8, 16)] = 13
    """Doublings of the steps: their number is two to this power."""


SMALL = PAPER = Config()


def run(config: Config, run: Run) -> None:
    """Trains them, one after the other."""
    for name in config.tasks:
        train(config, run, name, TASKS[name])


def train(config: Config, run: Run, name: str, task: Task) -> None:
    """Trains one network, on a batch drawn for each step, and reads it."""
    generator = torch.Generator().manual_seed(len(TASKS) * run.seed + list(TASKS).index(name))
    torch.manual_seed(run.seed)
    seen, unseen = task.data(run, generator)
    train, validation = split(seen)
    model = task.network(generator)
    optimizer = torch.optim.AdamW(model.parameters(), task.learning_rate, weight_decay=task.weight_decay)
    some = Samples(train.x[:JACOBIANS], train.labels[:JACOBIANS])
    probe = Probe(
        model,
        {"train": some, "validation": validation, "test": unseen},
        {
            "train": [getattr(gnomon, name) for name in corpus().quantities],
            "validation": [gnomon.accuracy, gnomon.log_probability],
            "test": [gnomon.accuracy],
        },
    )
    batches = shuffled((train.x, train.labels), task.batch, generator)
    for step in fit(
        run, name, 2**config.doublings, model, optimizer, lambda step: [next(iter(batches(step)))], cross_entropy,
        due=read_at, generator=generator,
    ):  # fmt: skip
        run.record(step, **numbers(probe.read(step)))


EXPERIMENT = Experiment(EXPERIMENTS["elsewhere"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims)
