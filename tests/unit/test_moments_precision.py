"""How exact quantities of float32 features are: streamed or at once, in few directions, and beside wide ones."""

import pickle

import pytest
import torch

import gnomon
from gnomon import ClassStatistics, class_moments
from gnomon.linalg import Dense
from tests.drawn import normal

K = 10


def in_few_directions(rank, width, n=600):
    """Features in a few dimensions; the same in float32, turned into more, which rounding fills; and labels."""
    labels = torch.arange(n) % K
    narrow = normal(n, rank, seed=1) + 2 * normal(K, rank, seed=2)[labels]
    return narrow, (narrow @ torch.linalg.qr(normal(width, rank, seed=3))[0].mT).float(), labels


def streamed(features, labels, sizes):
    statistics = ClassStatistics(K)
    for part, its in zip(features.split(sizes), labels.split(sizes), strict=True):
        statistics.update(part, its)
    return statistics


def quantities(features, labels, moments):
    """Every quantity of the moments, but for the ratio itself, which `snr_singular_values` stands for."""
    weight = normal(*moments.means.shape, seed=4).float()
    parts = gnomon.mse_decomposition(weight, weight[:, 0], moments, weight_decay=0.1)
    return {
        "nc1": gnomon.nc1(moments),
        "nc1_trace_ratio": gnomon.nc1_trace_ratio(moments),
        "label_cka": gnomon.label_cka(moments),
        "self_duality": gnomon.self_duality(weight, moments),
        "cdnv": gnomon.cdnv(features, labels, moments),
        "nc2_etf": gnomon.nc2_etf(moments.centred_means),
        "least_squares_classifier": gnomon.least_squares_classifier(moments).weight,
        "central_path_distance": gnomon.central_path_distance(weight, weight[:, 0], moments),
        **{f"mse_decomposition.{name}": part for name, part in vars(parts).items()},
        **({"snr": gnomon.snr_singular_values(moments)} if isinstance(moments.within, Dense) else {}),
    }


@pytest.mark.parametrize("sizes", [[600], [170, 1, 429], [60] * 10], ids=str)
@pytest.mark.parametrize(("rank", "width"), [(5, 32), (12, 32), (12, 800)])
def test_streamed_float32_features_give_what_they_give_at_once(rank, width, sizes):
    narrow, features, labels = in_few_directions(rank, width)
    at_once, stream = class_moments(features, labels, K), streamed(features, labels, sizes).compute()
    expected = quantities(features, labels, at_once)
    for name, found in quantities(features, labels, stream).items():
        assert found.dtype == torch.float32, name
        torch.testing.assert_close(found, expected[name], rtol=1e-4, atol=1e-5)
    truth = gnomon.nc1(class_moments(narrow, labels, K))
    torch.testing.assert_close(gnomon.nc1(stream).double(), truth, rtol=1e-5, atol=0)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_samples_of_several_dtypes_have_the_digits_of_the_coarsest(order):
    """However they come together: in one metric, or merged with another that was pickled."""
    narrow, features, labels = in_few_directions(5, 32)
    truth = gnomon.nc1(class_moments(narrow, labels, K))
    halves = [(features[:300].double(), labels[:300]), (features[300:], labels[300:])]
    one, metrics = ClassStatistics(K), [ClassStatistics(K), ClassStatistics(K)]
    for i in order:
        one.update(*halves[i])
        metrics[i].update(*halves[i])
    metrics[order[0]].merge_state(pickle.loads(pickle.dumps(metrics[order[1]])))
    for moments in (
        one.compute(),
        metrics[order[0]].compute(),
        class_moments(*halves[order[0]], K) + class_moments(*halves[order[1]], K),
    ):
        assert moments.means.dtype == torch.float32
        torch.testing.assert_close(gnomon.nc1(moments).double(), truth, rtol=1e-5, atol=0)
    one.reset()
    one.update(*halves[0])
    assert one.compute().means.dtype == torch.float64


def beside_wide_ones(scale, spread, dtype, seed):
    """Classes in four directions, beside wide ones in which their means agree; a classifier, and labels."""
    labels = torch.arange(400) % 4
    noise = normal(400, 12, seed=seed)
    noise = noise - class_moments(noise, labels, 4).means[labels]
    samples = torch.cat([torch.eye(4)[labels] + spread * noise[:, :4], scale * noise[:, 4:]], 1)
    turn = torch.linalg.qr(normal(12, 12, seed=seed + 1))[0]
    return (samples @ turn).to(dtype), turn[:4].to(dtype), labels


@pytest.mark.parametrize("scale", [1, 3, 30])
@pytest.mark.parametrize("seed", range(3))
def test_the_loss_of_float32_features_is_theirs_however_wide_what_the_classifier_ignores(scale, seed):
    features, weight, labels = beside_wide_ones(scale, 1e-3, torch.float32, seed)
    errors = features.double() @ weight.double().mT - torch.eye(4)[labels]
    parts = gnomon.mse_decomposition(weight, torch.zeros(4), class_moments(features, labels, 4))
    torch.testing.assert_close(parts.total.double(), errors.square().sum(1).mean() / 2, rtol=1e-4, atol=0)
    exact = gnomon.mse_decomposition(weight, torch.zeros(4), class_moments(features.double(), labels, 4))
    torch.testing.assert_close(parts.least_squares, exact.least_squares.float(), rtol=1e-2, atol=0)
    torch.testing.assert_close(parts.deviation, exact.deviation.float(), rtol=2e-2, atol=0)


@pytest.mark.parametrize(("scale", "spread"), [(1, 1e-3), (10, 1e-3), (10, 1e-4)])
def test_nc1_of_float32_features_is_theirs_too(scale, spread):
    features, _, labels = beside_wide_ones(scale, spread, torch.float32, 0)
    found, exact = (gnomon.nc1(class_moments(part, labels, 4)) for part in (features, features.double()))
    torch.testing.assert_close(found.double(), exact, rtol=1e-3, atol=0)


@pytest.mark.parametrize("seed", range(5))
def test_no_part_of_the_loss_is_below_zero(seed):
    """In float64, where rounding is larger than what is left of the scatter in the classifier's directions."""
    features, weight, labels = beside_wide_ones(100, 1e-9, torch.float64, seed)
    moments = class_moments(features, labels, 4)
    parts = gnomon.mse_decomposition(weight, torch.zeros(4).double(), moments)
    assert all(part >= 0 for part in vars(parts).values())
    assert (moments.within.variances(weight) >= 0).all()
    floor = torch.finfo(torch.float64).eps * weight.square().sum() * moments.within_covariance.trace()
    torch.testing.assert_close(parts.total, torch.zeros_like(floor), rtol=0, atol=float(floor))
