"""Schedules: what they take for steps."""

import pickle
import re

import numpy as np
import pytest
import torch

from gnomon import Probe, at, every, jacobian_norm, log_spaced
from gnomon.errors import RangeError


@pytest.mark.bad_input
@pytest.mark.parametrize("integer", [int, np.int64, torch.tensor])
def test_integers_of_any_kind_are_steps(integer):
    due = at(integer(2), 7)
    assert [step for step in range(10) if due(integer(step))] == [2, 7]


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "steps", [(), (-1,), (3, 2.5), ([100, 200],), (range(3),), (np.array([1, 2]),), (torch.tensor([1, 2]),)]
)
def test_at_refuses_what_is_no_step(steps):
    message = (
        rf"^at\(steps\): expected one or more steps from 0 on, got {re.escape(str(steps))}\. Name the steps, as in"
    )
    with pytest.raises(RangeError, match=message):
        at(*steps)


@pytest.mark.parametrize("schedule", [every(3), at(0, 6), log_spaced(5), None])
def test_a_probe_goes_to_another_process(schedule):
    model, x = torch.nn.Linear(3, 2), torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    probe = Probe(model, x, [jacobian_norm], schedule)
    probe(0)
    sent = pickle.loads(pickle.dumps(probe))
    sent(6)
    assert sent.history.steps == [0, 6]
    assert [step for step in range(30) if sent.is_due(step)] == [step for step in range(30) if probe.is_due(step)]
    torch.testing.assert_close(*sent.history["jacobian_norm"])
