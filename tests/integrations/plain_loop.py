"""What the tests of the integrations train, and the oracle: the same training as a plain PyTorch loop."""

import torch
from accelerate.state import AcceleratorState, GradientState
from torch import nn
from torch.nn.functional import cross_entropy

from gnomon import Probe, accuracy, centroid_alignment, jacobian_norm

X = torch.randn(48, 5, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(48) % 3
BATCH, EPOCHS, TOGETHER, RATE = 8, 2, 2, 0.5
STEPS = EPOCHS * len(X) // (BATCH * TOGETHER)
QUANTITIES = [accuracy, centroid_alignment, jacobian_norm]


def network(dropout=0.0):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 3)
    return nn.Sequential(*layers)


def probe_of(model, schedule=None):
    return Probe(model, (X, LABELS), QUANTITIES, schedule)


def mean_loss(model, x, labels):
    return cross_entropy(model(x), labels)


IN_ORDER = [*torch.arange(len(X)).view(-1, TOGETHER, BATCH)] * EPOCHS
"""For each step the rows of its batches, by default."""
THE_SAME = [torch.arange(BATCH).expand(TOGETHER, BATCH)] * STEPS


def plain_training(rows=IN_ORDER, loss=mean_loss, before_step=None, after_step=lambda model, step: None):
    """The trained network, gradients of all batches of a step in it."""
    model = network()
    optimizer, change = torch.optim.SGD(model.parameters(), RATE), before_step and before_step(model)
    after_step(model, 0)
    for step, together in enumerate(rows, 1):
        for batch in together:
            (loss(model, X[batch], LABELS[batch]) / len(together)).backward()
        if change:
            change()
        optimizer.step()
        optimizer.zero_grad()
        after_step(model, step)
    return model


def plain_loop(schedule=None, same=False, steps=STEPS):
    """The scalars by step; `same`: every batch is the first."""
    readings = []
    rows = (THE_SAME if same else IN_ORDER)[:steps]
    plain_training(rows, after_step=lambda model, step: readings.append(probe_of(model, schedule)(step)))
    return {reading.step: reading.scalars() for reading in readings if reading}


def assert_equal(scalars_by_step, expected):
    """That the numbers are the oracle's, to what the order of sums changes."""
    assert list(scalars_by_step) == list(expected)
    for step, scalars in expected.items():
        found = {name: scalars_by_step[step][name] for name in scalars}
        torch.testing.assert_close(found, scalars, rtol=1e-5, atol=1e-6)


def assert_same(ours, theirs):
    """Bit for bit."""
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def forget():
    """What Accelerate's first accelerator of a process tells all later ones."""
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
