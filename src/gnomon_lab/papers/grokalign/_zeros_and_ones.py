"""A network with one output that tells zeros from ones: the setting that ntk-regime and init-scaling share."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional

from gnomon.data import Samples
from gnomon_lab.papers._shared import mnist_rows
from gnomon_lab.runs import Run
from gnomon_lab.settings import Count, Positive, Settings, between


@dataclass(frozen=True)
class Config(Settings):
    """The setting of figure 3."""

    digits: Annotated[int, between(10, 60_000)] = 1024
    """The zeros and ones are taken from this many of MNIST's first training digits; the paper gives no number."""
    width: Count = 64
    """Width of each hidden layer; the figure gives none, the authors' code has 64."""
    hidden: Count = 1
    """Hidden layers: the paper says two-layer, which is 1; the authors' code has 2."""
    learning_rate: Positive = 0.01
    """Learning rate of full-batch gradient descent."""
    steps: Count = 4000
    """Steps of gradient descent."""
    readings: Count = 24
    """Readings in each factor of ten of the steps."""


def zeros_and_ones(run: Run, digits: int, dtype: torch.dtype) -> Samples:
    """The zeros and ones among the first training digits of MNIST, their labels in `dtype` as the loss needs them."""
    x, labels = mnist_rows(run, "train", digits, dtype)
    return Samples(x[labels <= 1], labels[labels <= 1].to(dtype))


def first_one(train: Samples) -> int:
    """The index of the digit that is followed. A one, since the paper's inner product rises, and a zero's falls."""
    return int(train.labels.argmax())


def binary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean over the samples; for networks with one output."""
    return functional.binary_cross_entropy_with_logits(logits[:, 0], labels)
