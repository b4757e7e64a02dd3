"""The training loop that experiments share."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import torch
from torch import Tensor, nn

from gnomon import GrokAlign
from gnomon.autodiff import Model
from gnomon_lab.runs.run import Run, Stateful

Batch = tuple[Tensor, Tensor]
"""Inputs and labels."""
Batches = Callable[[int], Iterable[Batch]]
"""The batches of a step."""


class Penalty(Stateful, Protocol):
    """What is added to a loss, as `GrokAlign` or `SpectralNormPenalty`; its `state_dict` may be empty."""

    def logits_and_penalty(self, model: Model, x: Tensor, /) -> tuple[Tensor, Tensor]:
        """The model's outputs for the batch, and the penalty, a scalar."""
        ...


def fit(
    run: Run,
    arm: str,
    steps: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Batches,
    loss: Callable[[Tensor, Tensor], Tensor],
    *,
    due: Callable[[int], bool],
    forward: Callable[[Tensor], Tensor] | None = None,
    penalty: Penalty | None = None,
    filter_gradients: Callable[[], object] | None = None,
    **state: Stateful | torch.Generator,
) -> Iterator[int]:
    """Trains one arm of an experiment, and stops at each step that is to be read.

    ```python
    for step in fit(run, "baseline", 1000, model, optimizer, in_order(train, 256), cross_entropy, due=log_spaced(12)):
        run.record(step, probe.read(step))
    ```

    A killed run resumes from its last checkpoint, as described in `Run.steps`, and ends with the same records if all
    randomness comes from what is in `state`.

    Args:
        run: where checkpoints are kept; `run.stop()` ends the arm.
        arm: the arm's name in the records.
        steps: the number of training steps.
        model: the network; those of its parameters that require a gradient are trained.
        optimizer: for these parameters.
        batches: the batches of a step, one update each; called from step 1 on.
        loss: from the model's outputs and a batch's labels.
        due: whether to read at a step; the last step is always read.
        forward: from inputs to outputs; default: the model.
        penalty: added to the loss, whose forward pass it shares, and to the state.
        filter_gradients: changes the gradients before each update.
        state: whatever else a resumed run needs.

    Yields:
        Step 0, before any update, and each step that is due, after its updates.

    Raises:
        ConvergenceError: if the loss is no longer finite.
    """
    # GrokAlign that acts at every call has only a count that it never uses, and the checkpoints kept so far lack it.
    if penalty is not None and not (isinstance(penalty, GrokAlign) and penalty.every == 1):
        state["penalty"] = penalty
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for step in run.steps(arm, steps, model=model, optimizer=optimizer, **state):
        for batch, labels in batches(step) if step > 0 else ():
            network = forward or model
            logits, added = (network(batch), 0) if penalty is None else penalty.logits_and_penalty(network, batch)
            objective = loss(logits, labels) + added
            run.require_finite(objective=objective)
            optimizer.zero_grad()
            torch.autograd.backward(objective, inputs=parameters)
            if filter_gradients is not None:
                filter_gradients()
            optimizer.step()
        if due(step) or step == steps:
            yield step


def in_order(samples: Batch, size: int) -> Batches:
    """All samples in batches of this size, the same at each step."""
    found = list(zip(*(torch.split(part, size) for part in samples), strict=True))
    return lambda step: found


def shuffled(samples: Batch, size: int, generator: torch.Generator) -> Batches:
    """All samples in batches of this size, in another order at each step."""
    x, labels = samples

    def batches(_: int) -> Iterator[Batch]:
        for chosen in torch.split(torch.randperm(len(x), generator=generator).to(x.device), size):
            yield x[chosen], labels[chosen]

    return batches
