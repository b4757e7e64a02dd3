"""Schedules: what they take for steps."""

import re

import numpy as np
import pytest
import torch

from gnomon import at
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
