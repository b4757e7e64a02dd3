"""The training runs: data, network and training of each, as one would choose them without a thought of the corpus."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from gnomon.data import Samples
from gnomon.models import resnet18
from gnomon_lab.papers.own._samples import UNSEEN, Splits, images
from gnomon_lab.papers.own.elsewhere.networks import Encoder, patches, pretrain
from gnomon_lab.papers.own.elsewhere.text import CONTEXT, LETTERS, document, next_characters, whose, windows
from gnomon_lab.runs import Run

PRETRAINING = 2000
"""Steps during which the encoder learns to fill in characters, before it is fine-tuned."""


@dataclass(frozen=True)
class Task:
    """A training run.

    Attributes:
        data: the training samples, with their validation split; and the unseen ones.
        network: the initial network, seeded by torch's global generator.
        batch: samples per update.
        learning_rate: of AdamW.
        weight_decay: of AdamW.
    """

    data: Callable[[Run, torch.Generator], Splits]
    network: Callable[[torch.Generator], nn.Module]
    batch: int
    learning_rate: float
    weight_decay: float


def photographs(run: Run, generator: torch.Generator) -> Splits:
    """CIFAR-10."""
    return images("cifar10", 1100, run.data_dir, generator)


def clothes(run: Run, generator: torch.Generator) -> Splits:
    """Fashion-MNIST in patches of 4 x 4 pixels."""
    seen, unseen = images("fashion_mnist", 1100, run.data_dir, generator)
    return Samples(patches(seen.x), seen.labels), Samples(patches(unseen.x), unseen.labels)


def tuned(generator: torch.Generator) -> nn.Module:
    """An encoder that has learnt to fill in characters, on texts that it is not tuned on."""
    encoder = Encoder(len(LETTERS), CONTEXT, 10)
    text = torch.cat([document(name) for name in ("iris", "linnerud", "olivetti_faces", "species_distributions")])
    pretrain(encoder, windows(text, torch.arange(len(text) - CONTEXT)), PRETRAINING, generator)
    return encoder


TASKS = {
    "resnet": Task(photographs, lambda generator: resnet18(width=8, generator=generator), 100, 1e-3, 0.05),
    "vit": Task(clothes, lambda generator: Encoder(16, 49, 10), 100, 1e-3, 0.05),
    "characters": Task(
        lambda run, generator: next_characters(2200, UNSEEN, generator),
        lambda generator: Encoder(len(LETTERS), CONTEXT, len(LETTERS), from_last=True),
        100,
        1e-3,
        0.1,
    ),
    "fine-tuning": Task(lambda run, generator: whose(330, UNSEEN, generator), tuned, 30, 3e-4, 0.01),
}
