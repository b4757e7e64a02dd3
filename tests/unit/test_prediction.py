"""What the outputs say of the labels: losses of every kind, and a margin that no scale of the weights changes."""

import math
from functools import partial

import pytest
import torch
from torch.nn import functional

import gnomon
from gnomon import Probe
from gnomon.errors import RangeError, ShapeError
from gnomon.linalg import cross_entropies
from gnomon.models import mlp
from tests.drawn import normal


def test_losses_are_those_of_torch():
    logits, labels, numbers = normal(9, 3), torch.arange(9) % 3, normal(9, 3, seed=1)
    for loss, of_torch, given in (
        ("cross_entropy", functional.cross_entropy, labels),
        ("mse", functional.mse_loss, numbers),
        (partial(functional.cross_entropy, reduction="none", label_smoothing=0.1), None, labels),
    ):
        of_torch = of_torch or partial(functional.cross_entropy, label_smoothing=0.1)
        torch.testing.assert_close(gnomon.training_loss(logits, given, loss=loss).mean(), of_torch(logits, given))
    one_hot = functional.one_hot(labels).double()
    losses = gnomon.training_loss(logits, labels, loss="mse")
    torch.testing.assert_close(losses, gnomon.training_loss(logits, one_hot, loss="mse"))
    of_one = gnomon.training_loss(logits[:, :1], numbers[:, 0], loss="mse")
    torch.testing.assert_close(of_one, (logits - numbers)[:, 0].square())
    assert torch.autograd.gradcheck(partial(gnomon.training_loss, loss="mse"), (logits.requires_grad_(), labels))


@pytest.mark.parametrize("ahead", [0.0, 20.0, 30.0, 37.0, 100.0, 300.0])
@pytest.mark.parametrize("shift", [0.0, -1e3])
def test_cross_entropy_of_memorised_samples_keeps_its_digits_and_those_of_its_derivatives(ahead, shift):
    """Torch's is 0 from a lead of 37 on, and so is its derivative by the label's output."""
    logits = torch.tensor([[shift, shift + ahead, shift]]).double().requires_grad_()
    (loss,) = gnomon.training_loss(logits, torch.tensor([1]))
    (first,) = torch.autograd.grad(loss, logits, create_graph=True)
    (second,) = torch.autograd.grad(first[0, 1], logits)
    rival = 1 / (math.exp(ahead) + 2)  # the probability of each of the two others
    for found, expected in (
        (loss[None], [math.log1p(2 * math.exp(-ahead))]),
        (first[0], [rival, -2 * rival, rival]),
        (second[0], [(2 * rival - 1) * rival, 2 * rival * (1 - 2 * rival), (2 * rival - 1) * rival]),
    ):
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-13, atol=0)


def test_cross_entropy_is_that_of_torch_wherever_the_label_stands():
    """Ahead, behind by up to 10,000, and beside equal ones."""
    logits, labels = normal(20, 4) * 10 ** (2 * normal(20, 1, seed=1)), torch.arange(20) % 4
    logits[0], logits[1, 0] = 7, 1e4
    logits.requires_grad_()
    ours, theirs = gnomon.training_loss(logits, labels), functional.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(ours, theirs)
    slopes, expected = (torch.autograd.grad(losses.sum(), logits)[0] for losses in (ours, theirs))
    torch.testing.assert_close(slopes, expected)
    mild = (3 * normal(20, 4)).requires_grad_()
    assert torch.autograd.gradcheck(partial(gnomon.training_loss, labels=labels), (mild,))
    assert torch.autograd.gradgradcheck(partial(gnomon.training_loss, labels=labels), (mild,))
    alone = gnomon.training_loss(torch.tensor([[7.0]]), torch.tensor([0]))
    assert str(float(alone)) == "0.0"  # not -0.0


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_cross_entropy_is_not_finite_where_logits_are_not(at, value):
    """Chains of `local_learning_coefficient` that diverge are told by it."""
    logits = torch.zeros(1, 3).double()
    logits[0, at] = value
    assert not cross_entropies(logits, torch.tensor([0])).isfinite()


@pytest.mark.bad_input
def test_what_is_no_loss_is_named():
    logits, labels = normal(4, 3), torch.arange(4) % 3
    with pytest.raises(
        RangeError, match=r"training_loss\(loss\): expected 'cross_entropy', 'mse' or a function, got 'l"
    ):
        gnomon.training_loss(logits, labels, loss="l2")
    with pytest.raises(
        ShapeError, match=r"\(loss\): expected one value per sample, got shape \(\). Leave out the mean"
    ):
        gnomon.training_loss(logits, labels, loss=functional.cross_entropy)
    several = partial(functional.binary_cross_entropy_with_logits, reduction="none")
    for outputs in (3, 1):
        with pytest.raises(ShapeError, match=rf"got shape \(4, {outputs}\)\. Take the mean over outputs: lambda "):
            gnomon.training_loss(logits[:, :outputs], torch.ones(4, outputs), loss=several)
    with pytest.raises(
        ShapeError, match=r"\(4, 4\)\. Outputs \(n, 1\) and targets \(n,\) broadcast: pass targets \(n, 1\)"
    ):
        gnomon.training_loss(logits[:, :1], torch.ones(4), loss=lambda outputs, targets: (outputs - targets) ** 2)
    with pytest.raises(RangeError, match=r"got 0.5 at index \(0,\). log_probability is that of .*pass minus the"):
        gnomon.verdict([1, 2], [1.0] * 2, [0.5] * 2, *[[1.0] * 2] * 2, *[[0.1] * 2] * 3)
    with pytest.raises(
        ShapeError, match=r"\(labels\): expected shape \(n, 3\) as the outputs have, or classes, got \(n,\)"
    ):
        gnomon.training_loss(logits, normal(4), loss="mse")
    for outputs, whole in ((1, (4,)), (1, (4, 1)), (3, (4, 3))):
        with pytest.raises(
            RangeError, match=r"expected targets of floating point, got torch.int64. Convert them by .float"
        ):
            gnomon.training_loss(logits[:, :outputs], torch.zeros(whole, dtype=torch.int64), loss="mse")
    with pytest.raises(RangeError, match=r"\(loss\): expected finite numbers, got inf"):
        gnomon.training_loss(logits, labels, loss=lambda outputs, labels: outputs[:, 0] / 0)


def test_a_margin_stays_where_layers_trade_or_change_their_scales():
    """Of a network without biases, whose outputs grow by the product of all scales."""
    model = mlp((4, 6, 5, 3), generator=torch.Generator().manual_seed(0)).double()
    x, labels = normal(20, 4), torch.arange(20) % 3
    probe = Probe(model, (x, labels), [gnomon.normalised_margin, gnomon.margin])
    before = probe.read().values
    norms = math.prod(float(weight.detach().norm()) for weight in model.parameters())
    torch.testing.assert_close(before["normalised_margin"], before["margin"] / norms)
    with torch.no_grad():
        for weight, scale in zip(model.parameters(), (4.0, 0.5, 3.0), strict=True):
            weight *= scale
    after = probe.read().values
    torch.testing.assert_close(after["normalised_margin"], before["normalised_margin"])
    torch.testing.assert_close(after["margin"], 6 * before["margin"])


def test_a_margin_of_zero_of_large_and_of_many_weights():
    logits, labels = torch.tensor([[3.0, 1.0]]), torch.tensor([0])
    assert gnomon.normalised_margin(logits, labels, {"weight": torch.zeros(2, 2)}) == 0
    large = {str(i): 1e25 * torch.eye(1) for i in range(2)} | {str(i): 1e-25 * torch.eye(1) for i in range(2, 4)}
    torch.testing.assert_close(gnomon.normalised_margin(logits, labels, large), torch.tensor([2.0]), rtol=1e-5, atol=0)


def test_a_margin_beyond_the_dtype_is_refused_and_none_is_none():
    tiny = {str(i): 1e-20 * torch.eye(1) for i in range(17)}
    assert gnomon.normalised_margin(torch.ones(1, 2), torch.tensor([0]), tiny) == 0
    with pytest.raises(RangeError, match=r"\(parameters\): expected a margin that torch.float32 can hold"):
        gnomon.normalised_margin(torch.tensor([[3.0, 1.0]]), torch.tensor([0]), tiny)


def test_a_single_output_leads_by_infinity_whatever_the_norms():
    """Also where their product is larger than float64 holds."""
    weights = {f"{layer}.weight": torch.full((1, 1), 1e38) for layer in range(9)}
    found = gnomon.normalised_margin(torch.ones(2, 1), torch.zeros(2, dtype=torch.long), weights)
    torch.testing.assert_close(found, torch.full((2,), torch.inf))
