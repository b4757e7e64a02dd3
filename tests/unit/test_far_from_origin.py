"""Collapse of classes that lie far from the origin compared with their distances: what float32 features still tell."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import gnomon
from gnomon import ClassMoments, class_moments, nc1
from gnomon.errors import ArgumentTypeError, RangeError, ShapeError
from gnomon.measure._class_sums import ClassSums
from tests.drawn import normal


def drawn(offset, sizes, p=64, seed=0):
    """Float32 features whose classes are eight epsilons of the offset apart, the same in float64 around 0, labels."""
    order = torch.randperm(sum(sizes), generator=torch.Generator().manual_seed(seed))
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))[order]
    apart = normal(len(sizes), p, seed=seed + 1)[labels] + 0.3 * normal(len(labels), p, seed=seed + 2)
    features = (offset + 1e-6 * max(offset, 1) * apart).float()
    return features, features.double() - offset, labels


def streamed(features, labels, k):
    sums = ClassSums(k)
    for part, its in zip(features.split(150), labels.split(150), strict=True):
        sums.update(part, its)
    return sums.compute()


@pytest.mark.parametrize("moments_of", [class_moments, streamed])
@pytest.mark.parametrize("sizes", [[100] * 10, [300, 5, 40, 55], [20, 380]], ids=str)
@pytest.mark.parametrize("offset", [0, 1, 100, 1e4])
def test_the_value_is_that_in_float64_of_the_same_features(offset, sizes, moments_of):
    features, around_zero, labels = drawn(offset, sizes)
    k, weight = len(sizes), normal(len(sizes), 64, seed=9)
    moments, exact = moments_of(features, labels, k), class_moments(around_zero, labels, k)
    assert moments.means.dtype == torch.float32

    def values(moments, features):
        own = weight.to(moments.means.dtype)
        return [
            nc1(moments),
            gnomon.nc1_trace_ratio(moments),
            gnomon.label_cka(moments),
            gnomon.self_duality(own, moments),
            gnomon.cdnv(features, labels, moments).mean(),
            gnomon.mse_decomposition(own, own[:, 0], moments).least_squares,
        ]

    for found, expected in zip(values(moments, features), values(exact, around_zero), strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=0)
    for of in (gnomon.equinorm, gnomon.equiangularity, gnomon.maximal_equiangularity, gnomon.nc2_etf):
        found, expected = of(moments.centred_means), of(exact.centred_means)
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(moments.precise_means - offset, exact.means, rtol=1e-6, atol=1e-13 * offset)


@pytest.mark.parametrize("sizes", [[100] * 10, [300, 5, 40, 55]], ids=str)
@pytest.mark.parametrize("offset", [1, 1e4])
def test_a_probe_passes_on_all_digits_of_the_means(offset, sizes):
    """The features are the inputs of the only layer. Means in float32 alone put NC2 off by per cents."""
    features, around_zero, labels = drawn(offset, sizes)
    exact = class_moments(around_zero, labels, len(sizes)).centred_means
    quantities = [gnomon.equinorm, gnomon.equiangularity, gnomon.maximal_equiangularity, gnomon.nc2_etf]
    found = gnomon.Probe(nn.Linear(64, len(sizes)), (features, labels), quantities).read().values
    for of in quantities:
        torch.testing.assert_close(found[of.__name__].double(), of(exact), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("unit", "offset", "dtype"), [(1e15, 9e17, torch.float32), (1e150, 1e155, torch.float64)])
def test_the_dtype_need_not_hold_the_square_of_the_means(unit, offset, dtype):
    labels = torch.arange(60) % 3
    features = 3 * normal(3, 512, seed=1)[labels] + normal(60, 512)
    expected = nc1(class_moments(features, labels, 3))
    found = nc1(class_moments((unit * features + offset).to(dtype), labels, 3))
    torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=0)


@pytest.mark.parametrize("moments_of", [class_moments, streamed])
def test_one_pair_that_is_not_told_apart_is_not_left_out(moments_of):
    """The direction in which two of ten classes are close dominates NC1."""
    means, labels = normal(10, 512, seed=1), torch.arange(1000) % 10
    means[9] = means[8] + 1e-4 * normal(512, seed=2)
    features = (100 + means[labels] + 1e-3 * normal(1000, 512)).float()
    expected = nc1(class_moments(features.double(), labels, 10))
    assert expected > 0.1
    torch.testing.assert_close(nc1(moments_of(features, labels, 10)).double(), expected, rtol=1e-3, atol=0)


@pytest.mark.parametrize("moments_of", [class_moments, streamed])
def test_what_a_network_rounds_makes_no_directions(moments_of):
    """Three dimensions, which layers in float32 pass on: their errors are in part alike for all samples of a class."""
    labels = torch.arange(3000) % 10
    narrow = normal(10, 3, seed=1)[labels] + 0.1 * normal(3000, 3)
    turn = torch.linalg.qr(normal(64, 64, seed=2))[0].float()
    features = (narrow.float() @ normal(3, 64, seed=3).float() + 1e4) @ turn
    expected = nc1(class_moments(narrow, labels, 10))
    torch.testing.assert_close(nc1(moments_of(features, labels, 10)).double(), expected, rtol=1e-3, atol=0)


def test_the_same_samples_in_another_order_are_no_separation_however_they_come():
    """Next to features far from the origin, in which they coincide as well, are some around it."""
    one = normal(500, 6).float() * torch.tensor([1e-3, 1e-3, 1, 1, 1, 1]) + torch.tensor([1e4, 1, 0, 0, 0, 0])
    orders = [torch.randperm(500, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    features, labels = torch.cat([one[order] for order in orders]), torch.arange(3).repeat_interleave(500)
    moments = class_moments(features, labels, 3)
    torch.testing.assert_close(nc1(moments), torch.tensor(0.0))
    torch.testing.assert_close(gnomon.nc1_trace_ratio(moments), torch.tensor(torch.inf))


@pytest.mark.parametrize("moments_of", [class_moments, streamed])
@pytest.mark.parametrize("offset", [1, 1e4])
def test_the_nearest_of_means_that_are_hardly_apart(offset, moments_of):
    """Samples stray ten times as far as the means are apart: distances differ little."""
    labels = torch.arange(1000) % 10
    features = (offset + 2e-6 * offset * (normal(10, 64, seed=1)[labels] + 10 * normal(1000, 64))).float()
    around_zero = features.double() - offset
    means = class_moments(around_zero, labels, 10).means
    nearest = functional.one_hot(torch.cdist(around_zero, means).argmin(1), 10).float()
    assert gnomon.nearest_mean_disagreement(features, nearest, moments_of(features, labels, 10)).sum() == 0


def beside_far_ones(far, dtype, *, pairs):
    """One class far from two that are 0.2 apart, or two far pairs; the class that is nearest to each sample."""
    near = [[far - 0.2, far - 0.1], [far + 0.1, far + 0.2]] if pairs else [[far - 1, far + 1]]
    features = torch.tensor([*near, [0.1, 0.2], [0.3, 0.4]], dtype=dtype)
    return features.reshape(-1, 1), torch.arange(len(features)).repeat_interleave(2)


@pytest.mark.parametrize("moments_of", [class_moments, streamed])
@pytest.mark.parametrize(
    ("far", "dtype", "pairs"),
    [
        (1e7, torch.float32, False),
        (1e10, torch.float32, False),
        (1e8, torch.float64, False),
        (1e9, torch.float64, False),
        (1e8, torch.float64, True),
    ],
)
def test_the_nearest_of_means_that_are_close_beside_far_ones(far, dtype, pairs, moments_of):
    """The scores' terms are as large as the squared distance of the far ones."""
    features, labels = beside_far_ones(far, dtype, pairs=pairs)
    k = len(labels.unique())
    logits = functional.one_hot(labels, k).to(dtype)
    found = gnomon.nearest_mean_disagreement(features, logits, moments_of(features, labels, k))
    torch.testing.assert_close(found, torch.zeros(len(labels), dtype=dtype))


@pytest.mark.parametrize("far", [1e4, 1e6, 1e10])
def test_the_spread_of_classes_that_are_close_beside_a_far_one(far):
    """Samples stray by 0.05 from means that are 0.2 apart."""
    features, labels = beside_far_ones(far, torch.float32, pairs=False)
    single, double = features.requires_grad_(), features.detach().double().requires_grad_()
    for part in (single, double):
        found = gnomon.cdnv(part, labels, class_moments(part, labels, 3))[2:]
        torch.testing.assert_close(found, torch.full_like(found, 0.05**2 / 0.2**2 / 2), rtol=1e-5, atol=0)
        found.sum().backward()
    torch.testing.assert_close(single.grad.double(), double.grad, rtol=1e-5, atol=0)


def test_of_means_that_coincide_the_first_is_the_nearest():
    features = torch.tensor([[1e9], [0.3], [0.7], [0.1], [0.3]], dtype=torch.float64)
    moments = class_moments(features, torch.arange(5), 5)
    logits = functional.one_hot(torch.tensor([0, 1, 2, 3, 1]), 5).double()
    assert gnomon.nearest_mean_disagreement(features, logits, moments).sum() == 0


def test_what_rounding_took_off_is_kept_in_sums_and_selections():
    features, around_zero, labels = drawn(1e4, [40, 30, 50])
    exact = class_moments(around_zero, labels, 3)
    for moments in (
        class_moments(features[:50], labels[:50], 3) + class_moments(features[50:], labels[50:], 3),
        class_moments(features, labels, 3) + ClassMoments.none(3, features),
    ):
        assert moments.means.dtype == torch.float32
        torch.testing.assert_close(moments.centred_means.double(), exact.centred_means, rtol=1e-5, atol=1e-8)
    with pytest.warns(RuntimeWarning, match="1 of 4 classes without samples"):
        moments = class_moments(features, labels, 4)
    torch.testing.assert_close(moments.present().precise_means - 1e4, exact.means, rtol=1e-6, atol=1e-9)


def test_the_gradient_is_that_in_float64():
    features, around_zero, labels = drawn(1e4, [40, 30, 50])
    single, double = (part.clone().requires_grad_() for part in (features, around_zero))
    for part in (single, double):
        gnomon.nc1_trace_ratio(class_moments(part, labels, 3)).backward()
    largest = float(double.grad.abs().max())
    torch.testing.assert_close(single.grad.double(), double.grad, rtol=1e-4, atol=1e-5 * largest)


@pytest.mark.bad_input
def test_what_does_not_go_with_the_means_is_named():
    moments = class_moments(*drawn(1, [5, 5], p=3)[::2], 2)
    for rest, error, message in (
        ("none", ArgumentTypeError, r"ClassMoments\(rounded_off\): expected a floating-point tensor, got str"),
        (torch.zeros(3, 3), ShapeError, r"\(rounded_off\): expected shape \(2, 3\) as means has, got \(3, 3\)"),
        (torch.zeros(2, 3).double(), RangeError, r"\(rounded_off\): expected torch.float32 as means have"),
        (torch.full((2, 3), torch.nan), RangeError, r"\(rounded_off\): expected finite numbers, got nan"),
    ):
        with pytest.raises(error, match=message):
            ClassMoments(moments.counts, moments.means, moments.within, rest)
