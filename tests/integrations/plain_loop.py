"""What the tests of the integrations train, and the oracle: the same training as a plain PyTorch loop."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from gnomon import Probe, accuracy, centroid_alignment, frobenius_norm

X = torch.randn(48, 5, generator=torch.Generator().manual_seed(1))
LABELS = torch.arange(48) % 3
BATCH, EPOCHS, TOGETHER, RATE = 8, 2, 2, 0.5
STEPS = EPOCHS * len(X) // (BATCH * TOGETHER)
QUANTITIES = [accuracy, centroid_alignment, frobenius_norm]


def network(dropout=0.0):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 3)
    return nn.Sequential(*layers)


def probe_of(model, schedule=None):
    return Probe(model, (X, LABELS), QUANTITIES, schedule)


def plain_loop(schedule=None, same=False):
    """The scalars by step, gradients of two batches in each; `same`: every batch is the first."""
    model = network()
    probe, optimizer = probe_of(model, schedule), torch.optim.SGD(model.parameters(), RATE)
    readings = [probe(0)]
    for step in range(1, STEPS + 1):
        for part in range(TOGETHER):
            start = 0 if same else ((step - 1) * TOGETHER + part) * BATCH % len(X)
            rows = slice(start, start + BATCH)
            (cross_entropy(model(X[rows]), LABELS[rows]) / TOGETHER).backward()
        optimizer.step()
        optimizer.zero_grad()
        readings.append(probe(step))
    return {reading.step: reading.scalars() for reading in readings if reading}


def assert_equal(scalars_by_step, expected):
    """That the numbers are the oracle's, to what the order of sums changes."""
    assert list(scalars_by_step) == list(expected)
    for step, scalars in expected.items():
        found = {name: scalars_by_step[step][name] for name in scalars}
        torch.testing.assert_close(found, scalars, rtol=1e-5, atol=1e-6)
