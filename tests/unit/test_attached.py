"""What is attached to an optimizer: when it is called, what it holds, and how it is taken off."""

import contextlib
import copy
import gc
import pickle
import weakref

import pytest
import torch
from torch import nn

from gnomon.steer import GrokfastEMA, GrokfastMA, OrthoGrad, WeightNormConstraint
from tests.unit.test_rivals import ATTACHED


def moving(parameters):
    return GrokfastMA(parameters, window=2)


METHODS = [GrokfastEMA, moving, *ATTACHED.values()]


def trained(make, how, steps=6):
    """A layer after steps with the method but for the two in the middle; the optimizer, and the method."""
    model = nn.Linear(3, 2).double()
    nn.init.orthogonal_(model.weight, generator=torch.Generator().manual_seed(0))
    nn.init.ones_(model.bias)
    optimizer, method = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), make(model.named_parameters())
    x = torch.randn(steps, 4, 3, generator=torch.Generator().manual_seed(1)).double()
    for step in range(steps):
        steered = step not in (2, 3)
        if how == "attached" and step in (0, 4):
            method.attach(optimizer)
        if how == "attached" and step == 2:
            method.detach()
            assert optimizer.state_dict().keys() == {"state", "param_groups"}
        optimizer.zero_grad()
        model(x[step]).square().sum().backward()
        if how == "by hand" and steered and make is not WeightNormConstraint:
            method()
        optimizer.step()
        if how == "by hand" and steered and make is WeightNormConstraint:
            method()
    return model, optimizer, method


@pytest.mark.parametrize("make", METHODS)
def test_what_is_detached_and_attached_again_is_as_called_by_hand(make):
    (found, _, attached), (expected, _, by_hand), (plain, *_) = (
        trained(make, how) for how in ("attached", "by hand", "not at all")
    )
    torch.testing.assert_close(found.state_dict(), expected.state_dict(), rtol=0, atol=0)
    torch.testing.assert_close(attached.state_dict(), by_hand.state_dict(), rtol=0, atol=0)
    assert (found.weight - plain.weight).norm() > 0.01


@pytest.mark.parametrize("make", METHODS)
def test_a_checkpoint_of_a_detached_method_is_a_plain_one(make):
    model, optimizer, method = trained(make, "attached")
    assert "gnomon" in optimizer.state_dict()
    before = copy.deepcopy(method.state_dict())
    for _ in range(2):  # the second time there is nothing to detach
        method.detach()
    torch.testing.assert_close(method.state_dict(), before, rtol=0, atol=0)
    plain = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    plain.load_state_dict(optimizer.state_dict())
    optimizer.load_state_dict(plain.state_dict())
    OrthoGrad(model.named_parameters()).attach(optimizer)  # and another may follow


def test_a_method_leaves_every_optimizer_that_it_is_attached_to():
    weight = nn.Parameter(torch.ones(2))
    optimizers = [torch.optim.SGD([weight], 0.1), torch.optim.AdamW([weight], 0.1)]
    method = OrthoGrad([weight])
    for optimizer in optimizers:
        method.attach(optimizer)
    method.detach()
    assert not any("gnomon" in optimizer.state_dict() for optimizer in optimizers)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda method: pickle.loads(pickle.dumps(method))])
def test_a_copy_of_an_attached_method_is_not_attached(copied):
    weight = nn.Parameter(torch.ones(2))
    optimizer, method = torch.optim.SGD([weight], 0.1), OrthoGrad([weight])
    method.attach(optimizer)
    copied(method).detach()
    assert "gnomon" in optimizer.state_dict()


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
