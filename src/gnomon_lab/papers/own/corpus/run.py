"""corpus: one network of each family per seed, trained and read; other seeds add to it."""

import warnings
from dataclasses import dataclass, fields
from typing import Annotated

import torch
from torch import nn

from gnomon import GrokAlign
from gnomon.data import Samples
from gnomon.errors import ConvergenceError
from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers._shared import LOSSES
from gnomon_lab.papers.own._reading import numbers, read_at
from gnomon_lab.papers.own._samples import split
from gnomon_lab.papers.own.corpus.drawn import Drawn, draw
from gnomon_lab.papers.own.corpus.families import FAMILIES
from gnomon_lab.papers.own.corpus.page import claims, figures, summary, table
from gnomon_lab.papers.own.corpus.quantities import everything
from gnomon_lab.runs import Run, last
from gnomon_lab.settings import Settings, among, between
from gnomon_lab.training import fit

INTRODUCTION = """
A seed draws a network of each of eight families: its data and how much of them, the share of labels that are shuffled,
its width and the scale of its initialisation, loss, optimizer and what goes with it. Each is trained for the same
number of steps and read during training by every quantity that fits. Many seeds form a corpus, which is asked which
quantity says that unseen samples will be recognised, before they are.
"""


@dataclass(frozen=True)
class Config(Settings):
    """The setting of the corpus; what differs from network to network is drawn."""

    families: tuple[Annotated[str, among(*FAMILIES)], ...] = tuple(FAMILIES)
    """Families; there is one network of each."""
    doublings: Annotated[int, between(4, 20)] = 13
    """Doublings of the steps: their number is two to this power."""


SMALL = PAPER = Config()


def run(config: Config, run: Run) -> None:
    """Trains a network of each family."""
    for family in config.families:
        train_arm(config, run, family)


def train_arm(config: Config, run: Run, name: str) -> None:
    """Trains one network and reads every quantity; where it diverges, the record says so and no other follows."""
    family = FAMILIES[name]
    generator = torch.Generator().manual_seed(len(FAMILIES) * run.seed + list(FAMILIES).index(name))
    drawn = draw(family.spans, generator)
    seen, unseen = family.data(drawn, run, generator)
    classes = int(torch.cat([seen.labels, unseen.labels]).max()) + 1
    train, validation = split(shuffled(seen, drawn.shuffled, generator))
    model = family.network(drawn, tuple(train.x.shape[1:]), classes, generator)
    optimizer = optimizer_of(drawn, model)
    probe = everything(model, train, validation, unseen, drawn.loss, drawn.weight_decay)
    settings = {field.name: getattr(drawn, field.name) for field in fields(drawn)}
    try:
        for step in fit(
            run, name, 2**config.doublings, model, optimizer, lambda step: [train], LOSSES[drawn.loss], due=read_at,
            penalty=GrokAlign(drawn.grokalign, generator=generator) if drawn.grokalign else None, generator=generator,
        ):  # fmt: skip
            with warnings.catch_warnings():
                # What has no value is null in the record.
                warnings.filterwarnings("ignore", "Probe: |local_learning_coefficient: |.* passes")
                reading = probe(step)
            if reading is not None:
                run.record(step, **numbers(reading), **({"settings": settings} if step == 0 else {}))
    except ConvergenceError as error:
        # Not the loop's: resumed behind the last reading, it has not been there.
        run.record(last(run.records(), name)["step"], diverged=str(error))


def shuffled(samples: Samples, share: float, generator: torch.Generator) -> Samples:
    """The samples, with the labels of a share of them in another order, so that each class stays as large."""
    chosen = torch.randperm(len(samples.x), generator=generator)[: round(share * len(samples.x))]
    labels = samples.labels.clone()
    labels[chosen] = labels[chosen[torch.randperm(len(chosen), generator=generator)]]
    return Samples(samples.x, labels)


def optimizer_of(drawn: Drawn, model: nn.Module) -> torch.optim.Optimizer:
    """AdamW, or SGD with momentum."""
    if drawn.optimizer == "AdamW":
        return torch.optim.AdamW(model.parameters(), drawn.learning_rate, weight_decay=drawn.weight_decay)
    return torch.optim.SGD(model.parameters(), drawn.learning_rate, momentum=0.9, weight_decay=drawn.weight_decay)


EXPERIMENT = Experiment(EXPERIMENTS["corpus"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims)
