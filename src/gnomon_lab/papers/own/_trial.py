"""One trial: a network trained with a method until it reaches its goal."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gnomon import log_spaced
from gnomon.data import Samples
from gnomon.errors import RangeError
from gnomon_lab.papers.own._methods import Training
from gnomon_lab.papers.own._outcome import FITS
from gnomon_lab.papers.own._race import Race
from gnomon_lab.papers.own._trial_tasks import Task

LOOKS = 100
"""How often in each factor of ten of the steps the unseen accuracy is read: arrival is known to 2.3 %."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a trial.

    Attributes:
        steps: until the goal; None if it was not reached.
        cost: CPU seconds per step, without readings.
        most: the steps that were waited for.
        fits: the first step at which the training data were fitted, among those that were read; None if none was.
        unseen: the accuracy at the end; 0 if the loss, a gradient or a norm was no longer finite.
    """

    steps: int | None
    cost: float
    most: int
    fits: int | None
    unseen: float


def trial(
    task: Task, change: Callable[[Training], None], rate: float, decay: float, seed: int, data_dir: Path | None = None,
    steps: int | None = None,
) -> Outcome:  # fmt: skip
    """Trains one network; a loss that is no longer finite ends it as one that does not arrive.

    Args:
        task: what is trained, and to which goal.
        change: the method, which changes the training.
        rate: the learning rate.
        decay: the weight decay.
        seed: of data, network and everything else.
        data_dir: the only folder in which data sets are searched; None for the default places.
        steps: maximum number of steps; default: the task's.
    """
    generator = torch.Generator().manual_seed(seed)
    train, test = task.data(data_dir, generator)
    training = Training(task.network(generator), rate, decay, generator)
    change(training)
    race, look, fits, unseen, step, most = Race(task.goal), log_spaced(LOOKS), None, 0.0, 0, steps or task.steps
    while step < most and (task.whole or race.arrived is None):
        step += 1
        try:
            logits, objective = update(training, train)
        except RangeError:  # a gradient or a norm that is no longer finite, which some methods refuse
            if step == 1:
                raise  # before any step, something else is wrong
            unseen = 0.0
            break
        if look(step) or step == most:
            with race.pause():
                if not objective.isfinite():
                    unseen = 0.0
                    break
                with torch.no_grad():
                    unseen = right(training.model(test.x), test.labels)
                race.look(step, unseen)
                if fits is None and right(logits, train.labels) >= FITS:
                    fits = step
    return Outcome(race.arrived and race.arrived[0], race.seconds / step, most, fits, unseen)


def update(training: Training, train: Samples) -> tuple[Tensor, Tensor]:
    """One step on all samples; returns logits and objective before it."""
    x = train.x if training.noise is None else training.noise(train.x)
    for optimizer in training.optimizers:
        optimizer.zero_grad()
    logits, objective = gradients(training, x, train.labels)
    if training.uphill is not None:
        with training.uphill():
            gradients(training, x, train.labels)
    for optimizer in training.optimizers:
        optimizer.step()
    return logits, objective


def gradients(training: Training, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Adds the gradients of loss and penalty; returns logits and objective."""
    logits, penalty = training.run(training.model, x)
    objective = training.loss(logits, labels) + penalty
    torch.autograd.backward(objective, inputs=[parameter for _, parameter in training.parameters])
    return logits.detach(), objective.detach()


def right(logits: Tensor, labels: Tensor) -> float:
    """The share that is recognised."""
    return float((logits.argmax(1) == labels).float().mean())
