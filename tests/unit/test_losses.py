"""Losses that users pass as functions: which are read as they are meant, and which are refused."""

from dataclasses import is_dataclass
from functools import partial

import pytest
import torch
from torch.nn.functional import cross_entropy

import gnomon
from gnomon import Probe
from gnomon.errors import RangeError, ShapeError
from gnomon.models import mlp
from tests.drawn import normal

WEIGHTS = torch.tensor([1.0, 10.0, 1.0], dtype=torch.float64)
LABELS = torch.arange(30) % 3
QUANTITIES = [
    gnomon.hessian_eigenvalues,
    gnomon.gauss_newton_eigenvalues,
    gnomon.batch_gradients,
    gnomon.gradient_disparity,
    lambda *given, **settings: gnomon.fact_table(*given, weight_decay=0.1, **settings).residual,
]
CHAINS = partial(gnomon.local_learning_coefficient, chains=2, draws=4, burn_in=0, step_size=1e-3, localisation=0)
"""Of settings that are not to be believed."""


def case():
    return mlp((4, 5, 3), generator=torch.Generator().manual_seed(0)).double(), normal(30, 4), LABELS.clone()


def centred(outputs, labels):
    return cross_entropy((outputs - outputs.mean(1, keepdim=True)) / 2, 2 - labels, reduction="none")


def in_place(outputs, labels):
    outputs -= outputs.mean(1, keepdim=True)
    outputs /= 2
    labels.neg_().add_(2)
    return cross_entropy(outputs, labels, reduction="none")


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_a_loss_may_work_in_place(quantity):
    (model, x, labels), kept = case(), LABELS.clone()
    found, expected = (quantity(model, x, labels, loss=loss) for loss in (in_place, centred))
    found, expected = (vars(each) if is_dataclass(each) else each for each in (found, expected))
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(labels, kept, rtol=0, atol=0)


def test_what_a_loss_does_in_place_is_not_seen_by_others():
    model, x, labels = case()
    read = partial(gnomon.training_loss, loss=in_place)
    first, last = (
        Probe(model, (x, labels), some).read().scalars() for some in ([gnomon.margin, read], [read, gnomon.margin])
    )
    assert first == last
    means = [lambda *given, loss=loss: loss(*given).mean() for loss in (in_place, centred)]
    for rate in (gnomon.centroid_rate, gnomon.centroid_influence):
        found, expected = (rate(model, x[:4], x, labels, loss=mean) for mean in means)
        torch.testing.assert_close(found, expected)


@pytest.mark.bad_input
def test_the_advice_for_a_mean_over_weights_or_some_labels_gives_that_mean():
    model, x, labels = case()
    labels[:5] = 0
    with pytest.raises(
        ShapeError, match=r"multiply by n / w\[labels\].sum\(\) of all .* leave out samples whose label"
    ):
        gnomon.batch_gradients(model, x, labels, loss=torch.nn.CrossEntropyLoss(weight=WEIGHTS))

    def weighted(outputs, its):
        return len(labels) / WEIGHTS[labels].sum() * cross_entropy(outputs, its, WEIGHTS, reduction="none")

    some = torch.where(torch.arange(30) % 4 == 0, labels, -100)
    for of_torch, loss, kept in (
        (cross_entropy(model(x), labels, WEIGHTS), weighted, labels >= 0),
        (cross_entropy(model(x), some), "cross_entropy", some >= 0),
    ):
        gradient = torch.cat([part.flatten() for part in torch.autograd.grad(of_torch, [*model.parameters()])])
        found = gnomon.batch_gradients(model, x[kept], labels[kept], loss=loss)
        torch.testing.assert_close(found.norm, gradient.norm())


@pytest.mark.bad_input
@pytest.mark.parametrize("quantity", [*QUANTITIES, CHAINS])
def test_a_loss_that_depends_on_other_samples_or_on_parameters_is_refused(quantity):
    """Chunks would be divided by their own weights; of a penalty the Gauss-Newton matrix and gradients saw nothing."""
    model, x, labels = case()
    single = partial(cross_entropy, reduction="none")
    with pytest.raises(
        RangeError, match=r"\(loss\): expected the loss of each sample by itself, got losses that change"
    ):
        quantity(model, x, labels, loss=lambda o, t: single(o, t, WEIGHTS) / WEIGHTS[t].mean())
    with pytest.raises(RangeError, match=r"\(loss\): .* outputs and labels alone, got one that uses .* '0.weight'"):
        quantity(model, x, labels, loss=lambda o, t: single(o, t) + model[0].weight.square().sum())


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_a_loss_may_have_parameters_of_its_own_and_random_numbers(quantity):
    model, x, labels = case()
    temperature = torch.nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
    single = partial(cross_entropy, reduction="none")
    own, fixed = (
        quantity(model, x, labels, loss=lambda o, t, by=by: single(o / by, t))
        for by in (temperature, temperature.detach())
    )
    own, fixed = (vars(each) if is_dataclass(each) else each for each in (own, fixed))
    torch.testing.assert_close(own, fixed)
    quantity(model, x, labels, loss=lambda o, t: single(o, t) * (1 + torch.rand(len(o))))


@pytest.mark.bad_input
@pytest.mark.parametrize("labels", [LABELS, torch.arange(30) // 10, (torch.arange(30) == 13).long()])
def test_a_loss_over_the_weights_of_its_batch_is_refused_however_labels_are_ordered(labels):
    model, x, _ = case()
    with pytest.raises(RangeError, match="expected the loss of each sample by itself"):
        gnomon.batch_gradients(
            model,
            x,
            labels,
            loss=lambda o, t: cross_entropy(o, t, WEIGHTS, reduction="none") / WEIGHTS[t].mean(),
        )


def test_a_loss_may_throw_coins_and_differentiate_by_the_outputs():
    model, x, labels = case()
    single = partial(cross_entropy, reduction="none")
    for seed in range(20):
        torch.manual_seed(seed)
        gnomon.batch_gradients(model, x, labels, loss=lambda o, t: single(o, t) * (1 + (torch.rand(()) < 0.5)))

    def slope(outputs, labels):
        loss = cross_entropy(outputs, labels, reduction="sum")
        return torch.autograd.grad(loss, outputs, create_graph=True)[0].square().sum(1)

    with torch.no_grad():
        gnomon.batch_gradients(model, x, labels, loss=slope)
