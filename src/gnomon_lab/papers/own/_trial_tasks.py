"""The tasks: four on which networks are known to generalise late, and one where they need no help."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import nn

from gnomon.models import mlp
from gnomon_lab.papers.own._networks import Transformer, started
from gnomon_lab.papers.own._samples import Splits, images, parities, rows, side_by_side, sums


@dataclass(frozen=True)
class Task:
    """What is trained, by full-batch updates with cross-entropy.

    Attributes:
        data: training and unseen samples.
        network: the initial network.
        goal: the share of unseen samples to recognise.
        steps: maximum number of steps.
        whole: whether networks train to the last step and are judged by what they know then, not by when they arrive.
    """

    data: Callable[[Path | None, torch.Generator], Splits]
    network: Callable[[torch.Generator], nn.Module]
    goal: float
    steps: int
    whole: bool = False


def digits(count: int, data_dir: Path | None, generator: torch.Generator) -> Splits:
    """MNIST at 14 x 14 pixels."""
    return images("mnist", count, data_dir, generator, halved=True)


def digits_as_rows(count: int, data_dir: Path | None, generator: torch.Generator) -> Splits:
    """The same images as rows."""
    return rows(digits(count, data_dir, generator))


def addition(prime: int, share: float, data_dir: Path | None, generator: torch.Generator) -> Splits:
    """A share of all sums modulo a prime."""
    return sums(prime, share, generator)


def addition_as_rows(prime: int, share: float, data_dir: Path | None, generator: torch.Generator) -> Splits:
    """The two summands side by side."""
    return side_by_side(sums(prime, share, generator))


def parity(count: int, signs: int, data_dir: Path | None, generator: torch.Generator) -> Splits:
    """Whether the first three of all signs have an even number of minuses."""
    return parities(count, signs, 3, generator)


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
    """ReLU layers with biases and PyTorch's initialisation."""
    return mlp(sizes, bias=True, generator=generator)


def large_start(generator: torch.Generator) -> nn.Module:
    """ReLU layers without biases, which start eight times too large."""
    return mlp((196, 128, 128, 10), scale=8.0, generator=generator)


TASKS = {
    "digits": Task(partial(digits_as_rows, 500), large_start, 0.83, 2000),
    "addition": Task(partial(addition_as_rows, 37, 0.6), partial(narrow, (74, 128, 37)), 0.95, 3000),
    "transformer": Task(partial(addition, 31, 0.7), partial(transformer, 31), 0.95, 3000),
    "parity": Task(partial(parity, 1000, 40), partial(narrow, (40, 128, 2)), 0.95, 3000),
    "usual": Task(partial(digits, 1000), convolutional, 0.88, 500, whole=True),
}
"""By name; the last is training as one would set it up, from an initialisation of usual size."""
