"""What is attached to an optimizer: when it is called, what it holds, and how it is taken off."""

import contextlib
import gc
import weakref

import pytest
import torch
from torch import nn

from gnomon.steer import OrthoGrad, WeightNormConstraint


class Rescaled(torch.optim.SGD):
    """Its step takes more than a closure."""

    def step(self, closure=None, factor=1.0):
        self.factor = factor
        return super().step(closure)


@pytest.mark.parametrize(
    "call",
    [
        lambda step, closure: step(closure, 2.0),
        lambda step, closure: step(closure, factor=2.0),
        lambda step, closure: step(factor=2.0, closure=closure),
    ],
)
def test_a_step_gets_all_its_arguments(call):
    weight = nn.Parameter(torch.tensor([1.0, 0.0]))
    optimizer = Rescaled([weight], 0.1)
    OrthoGrad([weight]).attach(optimizer)

    def closure():
        weight.grad = torch.tensor([3.0, 4.0])
        return 7.0

    assert call(optimizer.step, closure) == 7.0
    assert optimizer.factor == 2.0
    torch.testing.assert_close(weight.detach(), torch.tensor([1.0, -0.5]))


def test_an_argument_that_is_no_closure_stays():
    class Scaled(torch.optim.SGD):
        def step(self, factor):
            self.factor = factor
            return super().step()

    weight = nn.Parameter(torch.tensor([1.0, 0.0]))
    optimizer = Scaled([weight], 0.1)
    OrthoGrad([weight]).attach(optimizer)
    weight.grad = torch.tensor([3.0, 4.0])
    optimizer.step(2.0)
    assert optimizer.factor == 2.0
    torch.testing.assert_close(weight.detach(), torch.tensor([1.0, -0.5]))


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
