"""What is trained, and until when: the tasks of table 1 of the paper, and that of the first run."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from gnomon.data import Samples, digits
from gnomon.models import mlp
from gnomon_lab.papers._shared import Loss, Precision, mnist_network, mnist_splits
from gnomon_lab.papers.own._samples import scaled
from gnomon_lab.runs import Run


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
