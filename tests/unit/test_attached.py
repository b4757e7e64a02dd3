"""What is attached to an optimizer: when it is called, what it holds, and how it is taken off."""

import contextlib
import gc
import weakref

import pytest
import torch
from torch import nn

from gnomon.steer import OrthoGrad, WeightNormConstraint


@pytest.mark.parametrize("make", [OrthoGrad, WeightNormConstraint])
def test_a_step_that_fails_holds_nothing(make):
    """Batch and activations are freed once the error is handled, as where memory has run out."""
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    make(model.named_parameters()).attach(optimizer)

    def fail(*_):
        raise KeyError

    optimizer.register_step_pre_hook(fail)
    held = []

    def step():
        x = torch.ones(4, 3)
        outputs = model(x)
        held.extend((weakref.ref(x), weakref.ref(outputs)))
        outputs.sum().backward()
        optimizer.step()

    with contextlib.suppress(KeyError):
        step()
    gc.collect()
    assert [reference() for reference in held] == [None, None]
