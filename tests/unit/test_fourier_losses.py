"""The losses with a network's key waves alone and without them: by the pairs, and of closed forms."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, one_hot
from torch.testing import assert_close

from gnomon import Probe, fourier_losses
from gnomon.data import modular_addition
from gnomon.errors import RangeError, ShapeError


def pairs(p=7):
    """All pairs in an order of their own, their sums, and which are trained on."""
    train, test = modular_addition(p, 0.4, generator=torch.Generator().manual_seed(0))
    both, labels = (torch.cat(parts) for parts in zip(train, test, strict=True))
    return both[:, :2], labels, torch.arange(p * p) < len(train.labels)


def normal(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def by_pairs(logits, both, labels, trained, key):
    """By projection on each wave over all pairs, the outputs one by one."""
    first, second = both.double().unbind(1)
    p, kept = logits.shape[1], torch.zeros_like(logits)
    sizes = []
    for k in range(1, p // 2 + 1):
        angle = 2 * torch.pi * k / p * (first + second)
        waves = [wave / wave.norm() for wave in (angle.cos(), angle.sin()) if wave.norm() > 1e-6]
        parts = sum(torch.outer(wave, wave @ logits) for wave in waves)
        sizes.append(parts.square().sum())
        if k in key:
            kept += parts
    restricted = cross_entropy(kept + logits.mean(0), labels)
    excluded = cross_entropy((logits - kept)[trained], labels[trained])
    return restricted, excluded, torch.stack(sizes) / sum(sizes)


@pytest.mark.parametrize("p", [2, 3, 7, 8])
def test_it_is_the_projection_on_waves_over_all_pairs(p):
    both, labels, trained = pairs(p)
    logits = 3 * normal(p * p, p) + 5 * torch.cos(2 * torch.pi / p * (labels.unsqueeze(1) - torch.arange(p)))
    found = fourier_losses(logits, labels, trained)
    key = [k for k, share in enumerate(found.shares.tolist(), 1) if share * len(found.shares) > 1 - 1e-9]
    for chosen, losses in ((key, found), ([1], fourier_losses(logits, labels, trained, frequencies=[1]))):
        restricted, excluded, shares = by_pairs(logits, both, labels, trained, chosen)
        assert_close((losses.restricted, losses.excluded, losses.shares), (restricted, excluded, shares))


def test_waves_alone_are_the_whole_loss_and_without_them_none_is_known():
    _, labels, trained = pairs(11)
    angle = 2 * torch.pi / 11 * (labels.unsqueeze(1) - torch.arange(11)).double()
    logits = 8 * torch.cos(2 * angle) + 6 * torch.cos(5 * angle)
    bias = normal(11)
    found = fourier_losses(logits + bias, labels, trained)
    assert_close(found.restricted, cross_entropy(logits + bias, labels))
    assert_close(found.excluded, cross_entropy(bias.expand_as(logits)[trained], labels[trained]))
    assert_close(found.shares, torch.tensor([0, 0.64, 0, 0, 0.36], dtype=torch.float64))


def test_what_knows_the_trained_pairs_by_heart_keeps_them_without_waves():
    _, labels, trained = pairs(31)
    logits = 20 * one_hot(labels).double() * trained.unsqueeze(1) + normal(961, 31)
    found = fourier_losses(logits, labels, trained)
    assert found.excluded < 1e-3
    assert found.restricted > 0.1
    assert found.shares.max() < 2 / 15


def test_of_nothing_and_of_waves_that_are_all_alike():
    _, labels, trained = pairs(5)
    nothing = fourier_losses(torch.zeros(25, 5), labels, trained)
    assert_close((nothing.restricted.exp(), nothing.excluded.exp()), (torch.tensor(5.0), torch.tensor(5.0)))
    assert_close(nothing.shares, torch.zeros(2))
    every = fourier_losses(9.0 * one_hot(labels), labels, trained)
    assert_close(every.restricted, cross_entropy(9.0 * one_hot(labels), labels))
    assert_close(every.excluded.exp(), torch.tensor(5.0))


@pytest.mark.parametrize("p", [5, 7, 31, 113])
def test_outputs_that_do_not_depend_on_the_pair_have_no_waves(p):
    _, labels, trained = pairs(p)
    bias = 100 * normal(p)
    found = fourier_losses(bias.expand(p * p, p), labels, trained)
    assert_close(found.shares, torch.zeros(p // 2, dtype=torch.float64), rtol=0, atol=0)
    flat = bias.expand(p * p, p).clone().requires_grad_()
    (gradient,) = torch.autograd.grad(fourier_losses(flat, labels, trained).shares.sum(), flat)
    assert not gradient.any()
    every = cross_entropy(bias.expand(p * p, p), labels)
    assert_close(
        (found.restricted, found.excluded), (every, cross_entropy(bias.expand(p * p, p)[trained], labels[trained]))
    )
    # Waves of a hundred-millionth are there.
    wave = torch.cos(2 * torch.pi / p * labels.double()).unsqueeze(1)
    assert_close(fourier_losses(bias + 1e-8 * wave, labels, trained).shares[0], torch.tensor(1.0).double())


def test_gradient_and_small_losses_in_single_precision():
    _, labels, trained = pairs(5)

    def losses(logits):
        found = fourier_losses(logits, labels, trained)
        return found.restricted, found.excluded, found.shares

    assert torch.autograd.gradcheck(losses, (normal(25, 5).requires_grad_(),))
    for lead in (18.0, 60.0):  # of which torch's cross-entropy says 0, in float32 and in float64
        small = 4 * torch.exp(torch.tensor(-lead))
        assert_close(fourier_losses(lead * one_hot(labels), labels, trained).restricted, small, rtol=1e-5, atol=0)


def test_it_is_read_in_a_probe_of_all_pairs():
    both, labels, trained = pairs()
    x = torch.cat([one_hot(part, 7) for part in both.unbind(1)], 1).double()
    model = nn.Sequential(nn.Linear(14, 20), nn.ReLU(), nn.Linear(20, 7)).double()
    asked = [partial(fourier_losses, trained=trained)]
    batches = [(x[:30], labels[:30]), (x[30:], labels[30:])]
    for data in ((x, labels), batches):
        found = Probe(model, data, asked).read()
        expected = fourier_losses(model(x).detach(), labels, trained)
        assert_close(found.values["fourier_losses"].excluded, expected.excluded)
        assert {"fourier_losses.restricted", "fourier_losses.shares.max"} < found.scalars().keys()
    some = Probe(model, (x[:20], labels[:20]), asked)
    with pytest.raises(RangeError, match=r"fourier_losses\(logits\): expected p outputs at all p² pairs .* at 20 samp"):
        some.read()
    with pytest.warns(UserWarning, match="fourier_losses is NaN at step 0: .*expected p outputs at all p² pairs"):
        assert some(0).missing.keys() == {"fourier_losses"}
    with pytest.raises(RangeError, match=r"expected the arguments of fourier_losses to be among .*, got trained"):
        Probe(model, (x, labels), [fourier_losses])


@pytest.mark.bad_input
def test_bad_input_is_named():
    _, labels, trained = pairs(5)
    logits = normal(25, 5)
    with pytest.raises(
        RangeError, match=r"\(logits\): expected .*, got 5 outputs at 25 samples of labels in other num"
    ):
        fourier_losses(logits, labels.where(labels > 0, 1), trained)
    with pytest.raises(RangeError, match=r"\(logits\): expected .*, got 6 outputs at 25 samples\. Pass all pairs"):
        fourier_losses(normal(25, 6), labels, trained)
    with pytest.raises(RangeError, match=r"\(logits\): expected .*, got 1 outputs at 1 samples"):
        fourier_losses(normal(1, 1), labels[:1] * 0, trained[:1] | True)
    for mask, got in ((~trained & trained, "0 of them"), (trained[:9], r"shape \(9,\)"), (labels, "in torch.int64")):
        with pytest.raises(RangeError, match=rf"\(trained\): expected one True or False for each of 25 pairs.*{got}"):
            fourier_losses(logits, labels, mask)
    for wrong in ([0], [3], [1.5], [True], 1):
        with pytest.raises(RangeError, match="expected frequencies whole numbers from 1 to 2, got"):
            fourier_losses(logits, labels, trained, frequencies=wrong)
    with pytest.raises(ShapeError, match=r"fourier_losses\(logits\): expected shape \(n, c\)"):
        fourier_losses(logits[..., None], labels, trained)
