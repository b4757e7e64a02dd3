"""anatomy: one training run watched by every quantity that fits it, on one time axis, and the order of the changes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor, nn

from gnomon import (
    GrokAlign,
    Probe,
    accuracy,
    centroid_alignment,
    cka,
    effective_rank,
    equiangularity,
    equinorm,
    explained_variance_ratio,
    jacobian_alignment,
    jacobian_norm,
    log_spaced,
    nc1,
    nearest_mean_disagreement,
    nfa_table,
    ntk,
    robust_radius,
    self_duality,
    truncation_sectors,
)
from gnomon.data import Samples
from gnomon.regions import boundary_distance, local_complexity
from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers._shared import Precision, loss_in, mnist_network, mnist_splits
from gnomon_lab.papers.own.anatomy.order import ARMS, WAY, claims
from gnomon_lab.papers.own.anatomy.page import figures, figures_over_seeds, summary, table
from gnomon_lab.runs import Run
from gnomon_lab.settings import Count, NonNegative, Positive, Range, Settings, between
from gnomon_lab.training import fit, in_order

INTRODUCTION = f"""
Two networks start from the same large random weights and learn the same MNIST digits, one with weight decay alone and
one also with GrokAlign. Everything that gnomon can say about such a network is read during training: what it knows,
where its Jacobians look, how many directions they have, how its kernel turns, how its features collapse, what its ReLUs
cut off, how its linear regions lie. A quantity is done when it has gone {WAY:.0%} of its way from its first to its last
value, and the order in which they are done is what the papers tell stories about.
"""


def up_to_samples(low: int) -> Range:
    """The range of a number of training digits."""
    return Range(f"from {low} to samples", lambda count, config: low <= count <= config.samples)


@dataclass(frozen=True)
class Config(Settings):
    """The setting of accelerate with cross-entropy, without its goal: both arms are equally long."""

    samples: Annotated[int, between(50, 10_000)] = 1024
    """Training digits, and as many for testing."""
    jacobians: Annotated[int, up_to_samples(1)] = 128
    """Training digits at which Jacobians are computed."""
    kernel: Annotated[int, up_to_samples(2)] = 128
    """Training digits in the neural tangent kernel."""
    near: Annotated[int, up_to_samples(1)] = 8
    """Training digits around which linear regions are read."""
    radius: Positive = 0.5
    """Radius of the discs in which regions are counted; a digit's norm is about 28."""
    width: Count = 196
    """Width of the three hidden layers."""
    init_scale: Positive = 8.0
    """Multiplies PyTorch's default initialisation."""
    coefficient: NonNegative = 0.1
    """Coefficient of the GrokAlign penalty; weight decay acts on both networks."""
    learning_rate: Positive = 3e-3
    """Learning rate of AdamW."""
    weight_decay: NonNegative = 0.1
    """Weight decay of AdamW."""
    steps: Count = 1500
    """Number of steps; a step is a pass over all batches of 256."""
    readings: Count = 10
    """Readings in each factor of ten of the steps."""
    dtype: Precision = "float32"
    """Precision: float32, float64, or mixed: float32 except for the loss."""


SMALL = Config()
PAPER = Config(
    jacobians=1024,
    near=32,
    coefficient=1e-3,
    learning_rate=1e-3,
    weight_decay=0.01,
    steps=40_000,
    readings=12,
    dtype="float64",
)
MIXED = replace(PAPER, dtype="mixed")


def run(config: Config, run: Run) -> None:
    """Trains both networks, from the same start on the same digits."""
    train, test = mnist_splits(run, config.samples, config.dtype)
    for arm in ARMS:
        train_arm(config, run, arm, train, test)


def train_arm(config: Config, run: Run, arm: str, train: Samples, test: Samples) -> None:
    """Trains one network and reads every quantity."""
    generator = torch.Generator().manual_seed(run.seed)
    model = mnist_network(train, config.width, config.init_scale, generator)
    optimizer = torch.optim.AdamW(model.parameters(), config.learning_rate, weight_decay=config.weight_decay)
    grokalign = GrokAlign(config.coefficient, generator=generator) if arm == "GrokAlign" else None
    other = mnist_network(train, config.width, config.init_scale, torch.Generator().manual_seed(run.seed + 1))
    probe = everything(config, run.seed, model, other, train, test)
    for step in fit(
        run, arm, config.steps, model, optimizer, in_order(train, 256),
        loss_in(config.dtype, "cross-entropy"), due=log_spaced(config.readings), penalty=grokalign, generator=generator,
    ):  # fmt: skip
        run.record(step, probe.read(step))


def everything(config: Config, seed: int, model: nn.Module, other: nn.Module, train: Samples, test: Samples) -> Probe:
    """A split for each number of samples that a quantity can afford.

    The network is at its start: its kernel there is kept, and compared once with that of the other network.
    """
    sizes = {"jacobians": config.jacobians, "kernel": config.kernel, "near": config.near}
    splits = {split: Samples(train.x[:size], train.labels[:size]) for split, size in sizes.items()}

    alignment = kernel_alignment(model, splits["kernel"].x)
    unrelated = alignment(other).detach()

    def regions(model: nn.Module, x: Tensor) -> Tensor:
        # The same planes in every reading.
        generator = torch.Generator().manual_seed(seed)
        return local_complexity(model, x, config.radius, generator=generator)[:, -1]

    return Probe(model, splits | {"train": train, "test": test}, {
        "train": [accuracy, nc1, equinorm, equiangularity, self_duality, nearest_mean_disagreement, truncated],
        "test": [accuracy],
        "jacobians": [centroid_alignment, jacobian_alignment, jacobian_norm, explained_variance_ratio, robust_radius,
                      effective_rank, feature_ansatz],
        "kernel": {"alignment": alignment, "unrelated": lambda model: unrelated},
        "near": [boundary_distance, regions],
    })  # fmt: skip


def truncated(model: nn.Sequential, x: Tensor, labels: Tensor) -> Tensor:
    """The share of each hidden layer's coordinates that its ReLU cuts off, the mean over the classes."""
    return truncation_sectors(model, x, labels).truncated_share.mean(1)


def feature_ansatz(model: nn.Module, x: Tensor, memory: int | None) -> Tensor:
    """How the first layer's Gram matrix correlates with the root of the AGOP at the input."""
    return nfa_table(model, x, layers=["0"], memory=memory).pearson_root


def kernel_alignment(model: nn.Module, x: Tensor) -> Callable[[nn.Module], Tensor]:
    """The quantity that compares the neural tangent kernel with the current one: their CKA."""
    with torch.no_grad():
        start = ntk(model, x)
    return lambda model: cka(ntk(model, x), start)


EXPERIMENT = Experiment(
    EXPERIMENTS["anatomy"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims, (MIXED,),
    figures_over_seeds,
)  # fmt: skip
