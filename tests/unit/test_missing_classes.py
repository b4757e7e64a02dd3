"""Classes without samples are left out, and those with one have no spread: said, and not refused."""

import warnings

import pytest
import torch
from torch import nn

import gnomon
from gnomon import ClassStatistics, Probe, class_moments
from gnomon.errors import EmptyError
from gnomon.linalg import Factored

THERE = torch.tensor([1, 3, 4])
"""Of six classes those that have samples."""
NONE = r"3 of 6 classes without samples: 0, 2, 5\. What is measured is of the 3 others, 0 of them with one sample"


def samples(n=40, p=4, seed=0):
    """Features and labels, of three classes by number, of unequal sizes."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n).remainder(7).clamp(max=2)
    means = 3 * torch.randn(3, p, generator=generator, dtype=torch.float64)
    return means[labels] + 5 + torch.randn(n, p, generator=generator, dtype=torch.float64), labels


def at_once(features, labels):
    with pytest.warns(RuntimeWarning, match=NONE):
        return class_moments(features, labels, 6)


def streamed(features, labels):
    statistics = ClassStatistics(6)
    for part in torch.arange(len(features)).split(3):  # fewer than classes
        statistics.update(features[part], labels[part])
    with pytest.warns(RuntimeWarning, match=NONE):
        return statistics.compute()


def in_parts(features, labels):
    return at_once(features[:20], labels[:20]) + at_once(features[20:], labels[20:])


@pytest.fixture(params=[at_once, streamed, in_parts])
def both(request):
    """The moments of six classes of which three are missing, and those of the three."""
    features, labels = samples()
    return request.param(features, THERE[labels]), class_moments(features, labels, 3)


def test_moments_say_which_classes_are_there(both):
    lacking, whole = both
    assert lacking.classes_present == 3
    assert whole.present() is whole
    torch.testing.assert_close(lacking.counts[THERE], whole.counts)
    assert lacking.counts.sum() == whole.n == 40
    there = lacking.present()
    torch.testing.assert_close((there.counts, there.means), (whole.counts, whole.means))
    torch.testing.assert_close(there.within.dense(), whole.within.dense())
    torch.testing.assert_close(lacking.global_mean, whole.global_mean)
    torch.testing.assert_close(lacking.centred_means[THERE], whole.centred_means)
    assert not lacking.centred_means[[0, 2, 5]].any()
    torch.testing.assert_close(lacking.between_covariance.dense(), whole.between_covariance.dense())


def test_collapse_is_that_of_the_classes_that_are_there(both):
    lacking, whole = both
    for quantity in (gnomon.nc1, gnomon.nc1_trace_ratio):
        torch.testing.assert_close(quantity(lacking), quantity(whole))
    weight = torch.randn(6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    torch.testing.assert_close(gnomon.self_duality(weight, lacking), gnomon.self_duality(weight[THERE], whole))
    torch.testing.assert_close(gnomon.snr(lacking)[:, THERE], gnomon.snr(whole))
    assert not gnomon.snr(lacking)[:, [0, 2, 5]].any()
    values = gnomon.snr_singular_values(lacking)
    torch.testing.assert_close(values[:2], gnomon.snr_singular_values(whole))
    torch.testing.assert_close(values[2:], torch.zeros(2).double(), atol=1e-12, rtol=0)


def test_no_sample_is_near_a_class_that_has_none(both):
    whole = both[1]
    features, labels = samples()
    features = features - whole.means[0]  # the means of missing classes would be near
    moments = [gnomon.ClassMoments(m.counts, m.means - whole.means[0], m.within) for m in both]
    outputs = nn.functional.one_hot(THERE[labels], 6).double()
    expected = gnomon.nearest_mean_disagreement(features, outputs[:, THERE], moments[1])
    found = gnomon.nearest_mean_disagreement(features, outputs, moments[0])
    torch.testing.assert_close(found, expected)
    assert found.mean() < 1
    elsewhere = nn.functional.one_hot(torch.zeros(40).long(), 6).double()
    assert gnomon.nearest_mean_disagreement(features, elsewhere, moments[0]).all()


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_the_least_squares_classifier_never_chooses_a_class_that_is_missing(both, weight_decay):
    best, expected = (gnomon.least_squares_classifier(each, weight_decay=weight_decay) for each in both)
    torch.testing.assert_close((best.weight[THERE], best.bias[THERE]), (expected.weight, expected.bias))
    assert not best.weight[[0, 2, 5]].any()
    assert not best.bias[[0, 2, 5]].any()
    features, labels = samples()
    generator = torch.Generator().manual_seed(2)
    weight = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    bias = torch.randn(6, generator=generator, dtype=torch.float64)
    wanted = nn.functional.one_hot(THERE[labels], 6).double()
    loss = (features @ weight.T + bias - wanted).square().sum() / 80
    loss = loss + weight_decay * (weight.square().sum() + bias.square().sum()) / 2
    torch.testing.assert_close(gnomon.mse_decomposition(weight, bias, both[0], weight_decay=weight_decay).total, loss)


def test_a_class_of_one_sample_has_no_spread():
    features, labels = samples()
    alone = torch.full((1, 4), 9.0).double()
    with pytest.warns(RuntimeWarning, match=r"of the 4 others, 1 of them with one sample and so no spread within\."):
        moments = class_moments(torch.cat([features, alone]), torch.cat([labels, torch.tensor([3])]), 5)
    torch.testing.assert_close(moments.within.dense(), class_moments(features, labels, 3).within.dense())
    torch.testing.assert_close(moments.means[3], alone[0])
    single = class_moments(features[:3], torch.arange(3), 3)
    for measure in (gnomon.nc1, gnomon.nc1_trace_ratio):
        with pytest.warns(RuntimeWarning, match=rf"{measure.__name__} says nothing of the features, as no class"):
            assert measure(single) == 0


def test_what_one_class_has_no_collapse_is_refused():
    features, _ = samples()
    labels = torch.full((40,), 2)
    model = nn.Linear(4, 6).double()
    statistics = ClassStatistics(6)
    statistics.update(features, labels)
    one = r"\(labels\): expected samples of two classes or more, got those of class 2 alone\. Pass more"
    for take in (
        lambda: class_moments(features, labels, 6),
        statistics.compute,
        lambda: gnomon.layer_collapse(model, features, labels),
        lambda: Probe(model, (features, labels), [gnomon.nc1]),
    ):
        with pytest.raises(EmptyError, match=one):
            take()


def test_layers_collapse_the_classes_that_are_there():
    features, labels = samples()
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 6)).double()
    with pytest.warns(RuntimeWarning, match=NONE):
        found = gnomon.layer_collapse(model, features, THERE[labels])
    hidden, outputs = model[:2](features).detach(), model(features).detach()
    of = [class_moments(each, labels, 3) for each in (features, hidden, outputs)]
    ratios = [gnomon.nc1_trace_ratio(each) for each in of]
    torch.testing.assert_close(found.nc1_input, torch.stack(ratios[:2]))
    torch.testing.assert_close(found.nc1_after, torch.stack(ratios[1:]))
    torch.testing.assert_close(found.nc2_etf_after, torch.stack([gnomon.nc2_etf(each.means) for each in of[1:]]))


@pytest.mark.parametrize("batches", [False, True])
def test_a_probe_reads_the_classes_that_are_there_and_says_so_at_readings_alone(batches):
    features, labels = samples()
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 6)).double()
    quantities = [gnomon.nc1, gnomon.equinorm, gnomon.equiangularity, gnomon.maximal_equiangularity, gnomon.nc2_etf]
    quantities += [gnomon.nc2_orthogonal, gnomon.self_duality, gnomon.nearest_mean_disagreement]
    data = (features, THERE[labels])
    if batches:
        data = [*zip(features.split(7), THERE[labels].split(7), strict=True)]
    probe = Probe(model, data, quantities, memory=4000)
    with pytest.warns(RuntimeWarning, match=NONE):
        found = probe.read().values
    hidden = model[:2](features).detach()
    moments = class_moments(hidden, labels, 3)
    torch.testing.assert_close(found["nc1"], gnomon.nc1(moments))
    for quantity in quantities[1:4]:
        torch.testing.assert_close(found[quantity.__name__], quantity(moments.centred_means))
    for quantity in quantities[4:6]:
        torch.testing.assert_close(found[quantity.__name__], quantity(moments.means))
    duality = gnomon.self_duality(model[2].weight.detach()[THERE], moments)
    torch.testing.assert_close(found["self_duality"], duality)


@pytest.mark.unchecked
def test_missing_classes_are_said_once_by_default():
    features, labels = samples()
    probe = Probe(nn.Linear(4, 6).double(), (features, THERE[labels]), [gnomon.nc1])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for step in range(3):
            probe(step)
    assert len(said) == 1


def test_means_are_centred_about_a_class_that_is_there():
    """A missing one has its mean at 0, from where a difference of one is a rounding error."""
    means = torch.tensor([[0.0], [1_000_001.0], [999_999.0]])
    its = gnomon.ClassMoments(torch.tensor([0, 1, 2]), means, Factored(torch.zeros(1, 1)))
    torch.testing.assert_close(its.centred_means, torch.tensor([[0.0], [4 / 3], [-2 / 3]]))
