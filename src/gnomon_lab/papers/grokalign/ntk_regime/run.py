"""ntk-regime: a sample's inner product with its centroid, and the neural tangent kernel that moves it (figure 3)."""

import torch
from torch import Tensor, nn

from gnomon import (
    Probe,
    centroid_alignment,
    centroid_inner_product,
    centroid_rate,
    log_spaced,
    ntk,
    ntk_to_point,
)
from gnomon.data import Samples
from gnomon.models import mlp
from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers._shared import centroid_norm
from gnomon_lab.papers.grokalign._zeros_and_ones import Config, binary_cross_entropy, first_one, zeros_and_ones
from gnomon_lab.papers.grokalign.ntk_regime.page import CONSTANT, NETWORK, claims, figures, summary, table
from gnomon_lab.runs import Run

INTRODUCTION = """
A network with one output learns to tell zeros from ones. One training digit x is followed: the mean of its neural
tangent kernel with the other digits, its inner product with the centroid of its linear region, and its alignment with
it.

Theorem 9 says how fast the inner product moves: by the kernel, weighted with the remaining error at each digit. The
paper reads a moving inner product as a moving kernel, that is, as feature learning. That does not follow, since the
inner product moves under a constant kernel too; so the same initial network is also trained with its kernel held
constant, and what the network does beyond that is what feature learning adds.
"""


SMALL = Config()
PAPER = Config()


def run(config: Config, run: Run) -> None:
    """Trains the network, and then the same start with its kernel held constant."""
    train = zeros_and_ones(run, config.digits, torch.float64)
    train_network(config, run, train)
    hold_kernel(config, run, train)


def network(config: Config, run: Run, train: Samples) -> nn.Sequential:
    """The initial network."""
    widths = (train.x.shape[1], *[config.width] * config.hidden, 1)
    return mlp(widths, generator=torch.Generator().manual_seed(run.seed)).to(train.x.dtype)


def train_network(config: Config, run: Run, train: Samples) -> None:
    """Gradient descent; a reading holds the state after a step, and what theorem 9 said of that step beforehand."""
    model, place = network(config, run, train), first_one(train)
    optimizer = torch.optim.SGD(model.parameters(), config.learning_rate)
    others = torch.cat([train.x[:place], train.x[place + 1 :]])

    def kernel(model: nn.Module, x: Tensor) -> Tensor:
        return ntk_to_point(model, others, x[0]).mean()

    def predicted(model: nn.Module, x: Tensor) -> Tensor:
        return config.learning_rate * centroid_rate(model, x, train.x, train.labels, binary_cross_entropy)

    point, inner = train.x[place : place + 1], centroid_inner_product
    of_point = {"kernel": kernel, "inner": inner, "alignment": centroid_alignment, "norm": centroid_norm}
    after = Probe(model, point, of_point)
    before, due = Probe(model, point, {"inner_before": inner, "predicted": predicted}), log_spaced(config.readings)
    for step in run.steps(NETWORK, config.steps, model=model, optimizer=optimizer):
        if step == 0:
            run.record(step, after.read(step))
            continue
        reads = due(step) or step == config.steps
        readings = [before.read(step)] if reads else []
        loss = binary_cross_entropy(model(train.x), train.labels)
        run.require_finite(loss=loss)
        optimizer.zero_grad()
        torch.autograd.backward(loss, inputs=list(model.parameters()))
        optimizer.step()
        if reads:
            run.record(step, *readings, after.read(step), loss=loss.item())


def hold_kernel(config: Config, run: Run, train: Samples) -> None:
    """Gradient descent in the linear regime: the initial kernel moves the outputs, as in theorem 9, and stays constant.

    With ReLUs and no biases the inner product of a sample with its centroid is the output.
    """
    model, place, due = network(config, run, train), first_one(train), log_spaced(config.readings)
    with torch.no_grad():
        kernel, start = ntk(model, train.x), model(train.x)[:, 0]
    weights = nn.Linear(len(start), 1, bias=False, dtype=start.dtype).requires_grad_(requires_grad=False)
    weights.weight.zero_()
    for step in run.steps(CONSTANT, config.steps, weights=weights):
        if step > 0:
            outputs = start + weights(kernel)[:, 0]
            run.require_finite(outputs=outputs)
            weights.weight += config.learning_rate / len(start) * (train.labels - outputs.sigmoid())
        if due(step) or step == config.steps:
            run.record(step, inner=(start + weights(kernel)[:, 0])[place].item())


EXPERIMENT = Experiment(EXPERIMENTS["ntk-regime"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims)
