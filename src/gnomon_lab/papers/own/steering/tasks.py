"""The tasks: four on which networks are known to generalise late, and one where they need no help."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import avg_pool2d, one_hot

from gnomon.data import Samples, load_images, modular_addition, normalise
from gnomon.models import mlp
from gnomon_lab.papers.own.corpus.families import started
from gnomon_lab.papers.own.corpus.transformer import Transformer

UNSEEN = 2000
"""Unseen samples, where there are as many."""
Splits = tuple[Samples, Samples]


@dataclass(frozen=True)
class Task:
    """What is trained, by full-batch updates with cross-entropy.

    Attributes:
        data: training and unseen samples.
        network: at its start.
        goal: the share of unseen samples to recognise.
        steps: at most.
        whole: whether networks train to the last step and are judged by what they know then, not by when they arrive.
    """

    data: Callable[[Path | None, torch.Generator], Splits]
    network: Callable[[torch.Generator], nn.Module]
    goal: float
    steps: int
    whole: bool = False


def small_images(count: int, data_dir: Path | None, generator: torch.Generator) -> Splits:
    """MNIST at 14 x 14 pixels."""
    found = []
    for split, size in (("train", count), ("test", UNSEEN)):
        loaded = load_images("mnist", split, data_dir=data_dir, limit=5000)
        chosen = torch.randperm(len(loaded.x), generator=generator)[:size]
        found.append(Samples(avg_pool2d(loaded.x[chosen], 2), loaded.labels[chosen]))
    mean, deviation = found[0].x.mean().item(), found[0].x.std().item()
    seen, unseen = (normalise(samples, mean, deviation) for samples in found)
    return seen, unseen


def rows(count: int, data_dir: Path | None, generator: torch.Generator) -> Splits:
    """The same as rows."""
    seen, unseen = (Samples(part.x.flatten(1), part.labels) for part in small_images(count, data_dir, generator))
    return seen, unseen


def sums(prime: int, share: float, data_dir: Path | None, generator: torch.Generator) -> Splits:
    """A share of all sums modulo a prime; a token is a row with a single one, the last of three is "="."""
    seen, unseen = (
        Samples(one_hot(part.tokens, prime + 1).float(), part.labels)
        for part in modular_addition(prime, share, generator=generator)
    )
    return seen, unseen


def pairs(prime: int, share: float, data_dir: Path | None, generator: torch.Generator) -> Splits:
    """The two summands side by side."""
    seen, unseen = (
        Samples(part.x[:, :2, :-1].flatten(1), part.labels) for part in sums(prime, share, data_dir, generator)
    )
    return seen, unseen


def parities(count: int, signs: int, data_dir: Path | None, generator: torch.Generator) -> Splits:
    """Whether the first three of all signs have an even number of minuses."""

    def draw(size: int) -> Samples:
        x = 2.0 * torch.randint(2, (size, signs), generator=generator) - 1
        return Samples(x, (x[:, :3].prod(1) > 0).long())

    return draw(count), draw(UNSEEN)


def transformer(prime: int, generator: torch.Generator) -> nn.Module:
    """One layer of width 32."""
    model = Transformer(3, prime + 1, prime, 32)
    nn.init.normal_(model.positions, std=1 / math.sqrt(3), generator=generator)
    return started(model, 1.0, generator)


def convolutional(generator: torch.Generator) -> nn.Module:
    """Two convolutions of 8 and 16 channels, and a linear layer."""
    halving = partial(nn.Conv2d, kernel_size=3, stride=2, padding=1)
    layers = (halving(1, 8), nn.ReLU(), halving(8, 16), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 16, 10))
    return started(nn.Sequential(*layers), 1.0, generator)


def narrow(sizes: tuple[int, ...], generator: torch.Generator) -> nn.Module:
    """ReLU layers with biases and PyTorch's start."""
    return mlp(sizes, bias=True, generator=generator)


def large_start(generator: torch.Generator) -> nn.Module:
    """ReLU layers without biases, which start eight times too large."""
    return mlp((196, 128, 128, 10), scale=8.0, generator=generator)


TASKS = {
    "digits": Task(partial(rows, 500), large_start, 0.83, 2000),
    "addition": Task(partial(pairs, 37, 0.6), partial(narrow, (74, 128, 37)), 0.95, 3000),
    "transformer": Task(partial(sums, 31, 0.7), partial(transformer, 31), 0.95, 3000),
    "parity": Task(partial(parities, 1000, 40), partial(narrow, (40, 128, 2)), 0.95, 3000),
    "usual": Task(partial(small_images, 1000), convolutional, 0.88, 500, whole=True),
}
"""By name; the last is a training as one would set it up, from a start of usual size."""
