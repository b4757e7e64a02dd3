"""The quantities of neural collapse: plain loops, closed forms at the simplex, invariances, gradients."""

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gnomon import (
    ClassMoments,
    ClassStatistics,
    class_moments,
    equiangularity,
    equinorm,
    maximal_equiangularity,
    nc1,
    nc1_trace_ratio,
    nearest_mean_disagreement,
    self_duality,
    snr,
    snr_singular_values,
)
from gnomon.errors import ShapeError
from tests.drawn import normal

K, P = 4, 6


def orthogonal(d, seed=3):
    return torch.linalg.qr(normal(d, d, seed=seed))[0]


def simplex(k=K, p=P):
    """A simplex equiangular tight frame, turned."""
    frame = math.sqrt(k / (k - 1)) * (torch.eye(k, dtype=torch.float64) - 1 / k)
    return frame @ orthogonal(p)[:k]


def samples(n=50, p=P, k=K, seed=0):
    """Unequal classes: of 50 samples about 23, 14, 8 and 5."""
    labels = torch.cat([torch.arange(k), torch.arange(n - k).sqrt().long() * 5 // 7 % k])
    return 2 * normal(k, p, seed=seed + 1)[labels] + normal(n, p, seed=seed), labels


def moments_of(n=50, p=P, seed=0):
    features, labels = samples(n, p, seed=seed)
    return class_moments(features, labels, K)


def loop_covariances(features, labels, k=K):
    """Within and between, by outer products, sample by sample."""
    n, p = features.shape
    means = [features[labels == c].mean(0) for c in range(k)]
    middle = features.mean(0)
    within, between = torch.zeros(p, p).double(), torch.zeros(p, p).double()
    for row, label in zip(features, labels.tolist(), strict=True):
        within += torch.outer(row - means[label], row - means[label]) / n
        between += torch.outer(means[label] - middle, means[label] - middle) / n
    return within, between


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("n", "p"), [(50, 6), (50, 2), (50, 1), (20, 60)])
def test_variability_is_the_plain_loop(n, p, seed):
    """Also with fewer features than classes, and with fewer samples than features."""
    features, labels = samples(n, p, seed=seed)
    assert labels.bincount().unique().numel() > 1
    within, between = loop_covariances(features, labels)
    moments = class_moments(features, labels, K)
    inverse = torch.linalg.pinv(between, hermitian=True, rtol=1e-10)
    torch.testing.assert_close(nc1(moments), (within @ inverse).trace() / K)
    torch.testing.assert_close(nc1_trace_ratio(moments), within.trace() / between.trace())
    torch.testing.assert_close(moments.between_covariance.dense(), between)
    torch.testing.assert_close(moments.within_covariance.dense(), within)


@pytest.mark.parametrize(("offset", "dtype"), [(0, torch.float64), (0, torch.float32), (1e6, torch.float64)])
def test_nearest_mean_is_the_plain_loop(offset, dtype):
    features, labels = samples(200)
    features = features + offset
    moments = class_moments(features, labels, K)
    distances = [[math.dist(row, mean) for mean in moments.means.tolist()] for row in features.tolist()]
    nearest = torch.tensor([row.index(min(row)) for row in distances])
    logits = normal(200, K, seed=7)
    expected = (nearest != logits.argmax(1)).to(dtype)
    assert 0.5 < expected.mean() < 0.95
    torch.testing.assert_close(nearest_mean_disagreement(features.to(dtype), logits.to(dtype), moments), expected)
    agrees = torch.nn.functional.one_hot(nearest, K).to(dtype)
    images = features.to(dtype).view(200, 2, 3)
    torch.testing.assert_close(nearest_mean_disagreement(images, agrees, moments), torch.zeros(200, dtype=dtype))


@pytest.mark.parametrize("seed", range(20))
def test_of_equally_near_means_the_first_is_the_nearest(seed):
    """Of small integers, to which 2^40 is added at some classes: many ties, and whole numbers for distances."""
    generator = torch.Generator().manual_seed(seed)
    means = torch.randint(-1, 2, (9, 2), generator=generator) + 2**40 * torch.randint(0, 2, (9, 1), generator=generator)
    features = means.repeat(20, 1) + torch.randint(-1, 2, (180, 2), generator=generator)
    distances = [[math.dist(row, mean) for mean in means.tolist()] for row in features.tolist()]
    nearest = torch.tensor([row.index(min(row)) for row in distances])
    moments = class_moments(means.double(), torch.arange(9), 9)
    logits = torch.nn.functional.one_hot(nearest, 9).double()
    assert not nearest_mean_disagreement(features.double(), logits, moments).any()


def test_of_two_equally_near_means_the_first_is_the_nearest_beside_one_hardly_farther():
    """With the third as the origin, rounding tells the two apart; with one of them, mirrored, it does not."""
    for angle in normal(200, 2).tolist():
        (a, b), far = (math.sin(angle[0]), math.cos(angle[0])), 1 + 3e-15
        third = [far * math.sin(angle[1]), far * math.cos(angle[1])]
        means = torch.tensor([third, [a, b], [a, -b]], dtype=torch.float64)
        moments = class_moments(means, torch.arange(3), 3)
        assert nearest_mean_disagreement(0 * means, torch.eye(3)[[2, 2, 2]].double(), moments).all()


class Operations(TorchDispatchMode):
    """Counts them."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


def test_ties_take_no_step_for_each_class():
    """Zero is equally near to all means, of which the first is the nearest so far and stays it."""
    counts = []
    for k in (30, 300):
        moments = class_moments(torch.eye(k).double(), torch.arange(k), k)
        with Operations() as operations:
            found = nearest_mean_disagreement(torch.zeros(40, k).double(), torch.zeros(40, k).double(), moments)
        assert not found.any()
        counts.append(operations.count)
    assert counts[0] == counts[1]


@pytest.mark.parametrize("apart", [1e-2, 1e-4])
def test_nearest_mean_of_two_classes_far_from_a_third(apart):
    """In float32, where the products of the features lack the digits in which the two differ."""
    labels, means = torch.arange(3000) % 3, torch.zeros(3, 8).double()
    means[:, 0], means[1, 1] = torch.tensor([1e3, 1e3, -1e3]), 1e3 * apart
    features = (means[labels] + 50 * apart * normal(3000, 8)).float()
    distances = torch.cdist(features.double(), means, compute_mode="donot_use_mm_for_euclid_dist")
    assert (distances.argmin(1) == labels).all()
    logits = torch.nn.functional.one_hot(labels, 3).float()
    disagree = nearest_mean_disagreement(features, logits, class_moments(features, labels, 3))
    torch.testing.assert_close(disagree, torch.zeros(3000))


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_all_is_zero_at_the_collapse(k, size):
    means = size * simplex(k, 12)
    labels = torch.arange(5 * k) % k
    features = means[labels] + size
    moments = class_moments(features, labels, k)
    zero = torch.zeros((), dtype=torch.float64)
    for value in (
        nc1(moments),
        nc1_trace_ratio(moments),
        equinorm(moments.centred_means),
        equiangularity(moments.centred_means),
        maximal_equiangularity(moments.centred_means),
        self_duality(3 * means, moments),
    ):
        torch.testing.assert_close(value, zero, rtol=0, atol=1e-14)
    torch.testing.assert_close(
        nearest_mean_disagreement(features, means[labels] @ means.T, moments), torch.zeros(5 * k).double()
    )
    torch.testing.assert_close(self_duality(-means, moments), zero + 4)
    across = orthogonal(12)[k:][torch.arange(k) % (12 - k)] * torch.arange(1, k + 1).unsqueeze(1)
    torch.testing.assert_close(self_duality(across, moments), zero + 2)
    torch.testing.assert_close(self_duality(torch.zeros_like(means), moments), zero + 1)


@pytest.mark.parametrize("k", [2, 3, 10])
def test_closed_forms(k):
    """White noise of variance s² around a simplex of unit vectors in R^p: trΣ_B = 1, Σ_B = P/(k - 1)."""
    eye = torch.eye(k, dtype=torch.float64)
    torch.testing.assert_close(maximal_equiangularity(eye), torch.tensor(1 / (k - 1)).double())
    torch.testing.assert_close(maximal_equiangularity(torch.ones_like(eye)), torch.tensor(k / (k - 1)).double())
    one_long = torch.zeros(k, k).double()
    one_long[0, 0] = 1
    torch.testing.assert_close(equinorm(one_long), torch.tensor(math.sqrt(k - 1)).double())
    torch.testing.assert_close(equinorm(0 * eye), torch.zeros(()).double())
    p, s = 12, 0.3
    noise = s * math.sqrt(p) * torch.cat([torch.eye(p), -torch.eye(p)]).double()
    features = (simplex(k, p).unsqueeze(1) + noise).flatten(0, 1)
    moments = class_moments(features, torch.arange(k).repeat_interleave(2 * p), k)
    torch.testing.assert_close(nc1(moments), torch.tensor(s**2 * (k - 1) ** 2 / k).double())
    torch.testing.assert_close(nc1_trace_ratio(moments), torch.tensor(s**2 * p).double())


def test_unequal_classes_count_as_their_samples():
    """Doubling every sample changes nothing; doubling one class does."""
    features, labels = samples()
    base = moments_of()
    twice = class_moments(features.repeat(2, 1), labels.repeat(2), K)
    more = labels == 2
    other = class_moments(torch.cat([features, features[more]]), torch.cat([labels, labels[more]]), K)
    for quantity in (nc1, nc1_trace_ratio, lambda moments: equinorm(moments.centred_means)):
        torch.testing.assert_close(quantity(twice), quantity(base))
        assert not torch.isclose(quantity(other), quantity(base), rtol=1e-4)


@pytest.mark.parametrize("p", [P, 60])
def test_invariances(p):
    features, labels = samples(p=p)
    weight, logits = normal(K, p, seed=5), normal(50, K, seed=6)
    turn = orthogonal(p)

    def values(features, weight):
        moments = class_moments(features, labels, K)
        means = moments.centred_means
        return torch.cat(
            [
                torch.stack([nc1(moments), nc1_trace_ratio(moments), self_duality(weight, moments)]),
                torch.stack(
                    [f(v) for f in (equinorm, equiangularity, maximal_equiangularity) for v in (means, weight)]
                ),
                nearest_mean_disagreement(features, logits, moments),
            ]
        )

    expected = values(features, weight)
    for changed in ((features @ turn, weight @ turn), (1e5 * features, 1e-5 * weight), (features + 100, weight)):
        torch.testing.assert_close(values(*changed), expected)


def test_lengths_beyond_the_dtype_have_a_spread():
    corner = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    torch.testing.assert_close(equinorm(3e38 * corner), equinorm(corner))
    torch.testing.assert_close(equinorm(corner).item(), (2**0.5 - 1) / (2**0.5 + 1), rtol=1e-6, atol=0)


def test_nc1_sees_directions_and_the_trace_ratio_does_not():
    """Between two classes of the plane: noise across the means is free for the one, not for the other."""
    means = torch.tensor([[-1.0, 0.0], [1.0, 0.0]]).double()
    labels = torch.arange(8) % 2
    sign = torch.tensor([1.0, 1, -1, -1, 1, 1, -1, -1]).double()
    along = class_moments(means[labels] + sign.unsqueeze(1) * torch.tensor([0.5, 0.0]).double(), labels, 2)
    across = class_moments(means[labels] + sign.unsqueeze(1) * torch.tensor([0.0, 0.5]).double(), labels, 2)
    quarter = torch.tensor(0.25).double()
    torch.testing.assert_close(nc1_trace_ratio(along), quarter)
    torch.testing.assert_close(nc1_trace_ratio(across), quarter)
    torch.testing.assert_close(nc1(along), quarter / 2)
    torch.testing.assert_close(nc1(across), 0 * quarter)


def test_nc1_of_full_rank_is_unchanged_by_linear_maps():
    features, labels = samples(p=3)
    stretched = features @ normal(3, 3, seed=9)
    torch.testing.assert_close(nc1(class_moments(stretched, labels, K)), nc1(class_moments(features, labels, K)))


@pytest.mark.parametrize("closeness", [1e-3, 1e-6, 1e-9])
def test_nc1_where_means_are_nearly_collapsed(closeness):
    """Means of length 1e3 that are closer and closer, with the noise: only their own digits are lost."""
    labels = torch.arange(50) % K
    noise = normal(50, P)
    noise -= torch.stack([noise[labels == c].mean(0) for c in range(K)])[labels]
    deviation = simplex()[labels] + noise
    expected = nc1(class_moments(deviation, labels, K))
    found = nc1(class_moments(1e3 + closeness * deviation, labels, K))
    torch.testing.assert_close(found, expected, rtol=1e-12 / closeness, atol=0)


def test_where_class_means_coincide():
    labels = torch.arange(8) % 2
    noise = torch.tensor([1.0, 1, -1, -1, 2, 2, -2, -2]).double().unsqueeze(1)
    moments = class_moments(noise, labels, 2)
    assert nc1(moments) == 0
    assert nc1_trace_ratio(moments) == torch.inf
    # Two of three coincide: the pseudo-inverse leaves their difference out.
    labels = torch.arange(24) % 3
    means = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-2.0, 0.0]]).double()
    features = means[labels] + noise.repeat_interleave(3, 0) * torch.tensor([0.5, 0.5]).double()
    within, between = loop_covariances(features, labels, 3)
    expected = within[0, 0] / between[0, 0] / 3
    torch.testing.assert_close(nc1(class_moments(features, labels, 3)), expected)


@pytest.mark.unchecked
@pytest.mark.parametrize("p", [2, P, 13])
def test_gradient(p):
    features, labels = samples(12, p)
    weight = normal(K, p, seed=4)

    def numbers(features, weight):
        moments = class_moments(features, labels, K)
        means = moments.centred_means
        return (
            nc1(moments),
            nc1_trace_ratio(moments),
            self_duality(weight, moments),
            *(f(v) for f in (equinorm, equiangularity, maximal_equiangularity) for v in (means, weight)),
        )

    assert torch.autograd.gradcheck(numbers, (features.requires_grad_(), weight.requires_grad_()))


def test_gradient_at_the_collapse_is_a_number():
    """There all singular values are equal, where their derivatives are not. Standard deviations have a kink there."""
    means = simplex().requires_grad_()
    labels = torch.arange(12) % K
    features = means[labels]
    moments = class_moments(features, labels, K)
    for value in (nc1(moments), nc1_trace_ratio(moments)):
        (gradient,) = torch.autograd.grad(value, means, retain_graph=True)
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-13)
    for quantity in (equinorm, equiangularity, maximal_equiangularity):
        for vectors in (means, torch.eye(3, dtype=torch.float64, requires_grad=True)):
            (gradient,) = torch.autograd.grad(quantity(vectors), vectors)
            assert gradient.isfinite().all()


def test_float32_classifiers_meet_float64_moments():
    moments, weight = moments_of(), normal(K, P)
    single = self_duality(weight.float(), moments)
    assert single.dtype == torch.float64
    torch.testing.assert_close(single, self_duality(weight, moments), rtol=1e-6, atol=0)
    features, labels = samples()
    lower = class_moments(features.float(), labels, K)
    for quantity in (nc1, nc1_trace_ratio, lambda m: equinorm(m.means), lambda m: self_duality(weight.float(), m)):
        assert quantity(lower).dtype == torch.float32
        torch.testing.assert_close(quantity(lower).double(), quantity(moments), rtol=1e-5, atol=0)


@pytest.mark.bad_input
def test_vectors_and_widths_that_do_not_fit_are_named():
    features, _ = samples()
    moments, logits, vectors = moments_of(), normal(50, K), normal(K, P)
    for quantity in (equinorm, equiangularity, maximal_equiangularity):
        with pytest.raises(ShapeError, match=rf"{quantity.__name__}\(centred_means\): expected at least 2 axes"):
            quantity(vectors[0])
    for quantity in (equiangularity, maximal_equiangularity):
        with pytest.raises(
            ShapeError, match=rf"{quantity.__name__}\(centred_means\): expected vectors \(k, p\) of at least 2 classes"
        ):
            quantity(vectors[:1])
    with pytest.raises(ShapeError, match=r"self_duality\(classifier\): expected shape \(4, 6\) as class_means has"):
        self_duality(vectors[:, 1:], moments)
    name = "nearest_mean_disagreement"
    with pytest.raises(ShapeError, match=rf"{name}\(features\): expected width 6 as in class_moments, got 5"):
        nearest_mean_disagreement(features[:, 1:], logits, moments)
    with pytest.raises(ShapeError, match=rf"{name}\(logits\): expected width 4 as in class_moments, got 3"):
        nearest_mean_disagreement(features, logits[:, 1:], moments)


def of_constant(value, k, streamed, n=1000):
    features, labels = torch.full((n, 6), value), torch.arange(n) % k
    if not streamed:
        return class_moments(features, labels, k)
    statistics = ClassStatistics(k)
    for part, its in zip(features.split(300), labels.split(300), strict=True):
        statistics.update(part, its)
    return statistics.compute()


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("value", [0.1, 1e4, 1e-4])
def test_samples_that_coincide_have_no_separation_made_of_rounding(value, k, streamed):
    moments = of_constant(value, k, streamed)
    zero = torch.zeros((), dtype=moments.means.dtype)
    torch.testing.assert_close(moments.centred_means, zero.expand(k, 6))
    torch.testing.assert_close(moments.means, torch.full_like(moments.means, value))
    torch.testing.assert_close(nc1(moments), zero)
    assert nc1_trace_ratio(moments).isnan()
    torch.testing.assert_close(snr(moments), zero.expand(6, k))
    torch.testing.assert_close(snr_singular_values(moments), zero.expand(min(k - 1, 6)))
    weight = torch.randn(k, 6, dtype=moments.means.dtype)
    torch.testing.assert_close(self_duality(weight, moments), torch.ones_like(zero))
    for angle_or_length in (equinorm, equiangularity):
        torch.testing.assert_close(angle_or_length(moments.centred_means), zero)


@pytest.mark.parametrize("value", [0.1, 1e4])
def test_means_that_coincide_are_no_separation_where_samples_do_not(value):
    """Each class has the same samples, in another order: the sums of float32 differ by rounding."""
    one = value + value / 1000 * torch.randn(500, 6, generator=torch.Generator().manual_seed(0))
    orders = [torch.randperm(500, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    moments = class_moments(torch.cat([one[order] for order in orders]), torch.arange(3).repeat_interleave(500), 3)
    torch.testing.assert_close(nc1(moments), torch.tensor(0.0))
    torch.testing.assert_close(nc1_trace_ratio(moments), torch.tensor(torch.inf))


@pytest.mark.parametrize("offset", [1e3, 1e4])
def test_rounding_of_means_on_a_line_makes_no_second_direction(offset):
    labels = torch.arange(3000) % 3
    noise, line = normal(3000, 6), normal(6, seed=1)
    noise = noise - torch.stack([noise[labels == c].mean(0) for c in range(3)])[labels]
    moments = class_moments((offset + labels[:, None] * line + noise).float(), labels, 3)
    # Of one direction, u: the variance within along u over that between, a third of it.
    direction = line / line.norm()
    expected = (noise @ direction).square().mean() / (2 / 3 * line.square().sum()) / 3
    torch.testing.assert_close(nc1(moments).double(), expected, rtol=1e-2, atol=0)


def test_samples_close_beside_their_mean_keep_the_digits_of_their_scatter():
    labels = torch.arange(4000) % 4
    features = (1e4 + normal(4000, 3) + normal(4, 3, seed=1)[labels]).float()
    single, exact = (class_moments(part, labels, 4) for part in (features, features.double()))
    torch.testing.assert_close(single.within.dense().double(), exact.within.dense(), rtol=1e-5, atol=1e-2)
    torch.testing.assert_close(single.means.double(), exact.means, rtol=1e-7, atol=0)


def test_coincidence_keeps_the_gradient_of_the_means():
    moments = class_moments(torch.zeros(4, 2, dtype=torch.float64), torch.tensor([0, 0, 1, 1]), 2)
    means = moments.means.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(ClassMoments(moments.counts, means, moments.within).centred_means[0, 0], means)
    torch.testing.assert_close(gradient, torch.tensor([[0.5, 0.0], [-0.5, 0.0]]).double())
