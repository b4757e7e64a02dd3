"""Least squares, the decomposition of the MSE and the signal-to-noise ratio, against the samples themselves."""

from dataclasses import replace

import pytest
import torch
from scipy.linalg import eigh, inv, sqrtm
from torch.nn import functional

import gnomon
from gnomon import (
    central_path_distance,
    class_moments,
    least_squares_classifier,
    mse_decomposition,
    snr,
    snr_singular_values,
    spectral_mse,
)
from gnomon.errors import RangeError, ShapeError
from gnomon.linalg import Dense, Factored
from tests.drawn import normal

EQUAL, UNEQUAL = (12,) * 5, (100, 50, 200, 100, 80)
settings = pytest.mark.parametrize("bias", [True, False])
decays = pytest.mark.parametrize("decay", [0.0, 5e-4, 0.3])
sizes = pytest.mark.parametrize(("counts", "width"), [(EQUAL, 7), (UNEQUAL, 7), ((3, 1, 5, 2), 40)], ids=str)


def samples(counts, width, seed=0):
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    means = normal(len(counts), width, seed=seed + 10)
    return normal(len(labels), width, seed=seed) + 2 * means[labels] + 1, labels


def least_squares(*arguments, **settings):
    best = least_squares_classifier(*arguments, **settings)
    return best.weight, best.bias


def moments_of(features, labels):
    return class_moments(features, labels, int(labels.max()) + 1)


def loss(weight, bias, features, labels, decay):
    """The paper's equation 2, on the samples."""
    errors = features @ weight.mT + bias - functional.one_hot(labels).to(features.dtype)
    return errors.square().sum(1).mean() / 2 + decay / 2 * (weight.square().sum() + bias.square().sum())


def solver(features, labels, decay, bias):
    """torch.linalg.lstsq on the samples, with a row of the root of n times decay for each number to be chosen."""
    n, width = features.shape
    design = torch.cat([features, torch.ones(n, 1).double()], 1) if bias else features
    target = functional.one_hot(labels).double()
    ridge = (n * decay) ** 0.5 * torch.eye(design.shape[1]).double()
    design = torch.cat([design, ridge])
    target = torch.cat([target, torch.zeros(len(ridge), target.shape[1]).double()])
    found = torch.linalg.lstsq(design, target, driver="gelsd").solution.mT
    return (found[:, :width], found[:, width]) if bias else (found, torch.zeros(len(found)).double())


@settings
@decays
@sizes
def test_least_squares_classifier_is_that_of_a_solver_on_the_samples(counts, width, decay, bias):
    features, labels = samples(counts, width)
    moments = moments_of(features, labels)
    weight, offset = least_squares(moments, weight_decay=decay, with_bias=bias)
    expected, expected_offset = solver(features, labels, decay, bias)
    if decay or width < len(features):
        torch.testing.assert_close(weight, expected, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(offset, expected_offset, rtol=1e-9, atol=1e-11)
    lowest = loss(expected, expected_offset, features, labels, decay)
    torch.testing.assert_close(loss(weight, offset, features, labels, decay), lowest, rtol=1e-10, atol=1e-20)
    if not bias:
        torch.testing.assert_close(offset, torch.zeros_like(offset))


def test_few_samples_of_many_features_interpolate_with_the_least_weight_and_no_square_matrix():
    features, labels = samples((3, 1, 5, 2), 40)
    moments = moments_of(features, labels)
    assert isinstance(moments.within, Factored)
    weight, offset = least_squares(moments)
    torch.testing.assert_close(features @ weight.mT + offset, functional.one_hot(labels).double())
    centred = features - features.mean(0)
    assert torch.linalg.matrix_rank(torch.cat([centred, weight])) == torch.linalg.matrix_rank(centred)
    wide = torch.randn(6, 300_000, generator=torch.Generator().manual_seed(0))
    least_squares(moments_of(wide, torch.arange(6) % 3), weight_decay=1e-3)


@settings
def test_both_ways_of_holding_the_scatter_agree(bias):
    features, labels = samples((6, 9, 4), 30)
    held = moments_of(features, labels)
    whole = gnomon.ClassMoments(held.counts, held.means, Dense(held.within.dense()))
    for decay in (0.0, 1e-3):
        rows, matrix = (least_squares(moments, weight_decay=decay, with_bias=bias) for moments in (held, whole))
        torch.testing.assert_close(rows, matrix, rtol=1e-8, atol=1e-10)


def test_it_is_where_an_optimiser_with_torchs_loss_and_weight_decay_comes_to_rest():
    """torch's MSE averages over outputs: its weight decay wd is k wd / 2 of ours, not wd / 2."""
    features, labels = samples((10, 5, 20, 10, 8), 4)
    features, target, wd = features / 2, functional.one_hot(labels).double(), 0.02
    layer = torch.nn.Linear(4, 5).double()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.3, momentum=0.9, weight_decay=wd)
    for _ in range(1000):
        optimizer.zero_grad()
        functional.mse_loss(layer(features), target).backward()
        optimizer.step()
    weight, offset = least_squares(moments_of(features, labels), weight_decay=5 * wd / 2)
    torch.testing.assert_close(layer.weight.detach(), weight, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(layer.bias.detach(), offset, rtol=1e-8, atol=1e-10)
    notebook, _ = least_squares(moments_of(features, labels), weight_decay=wd / 2)
    assert ((notebook - weight).norm() / weight.norm()).item() > 0.01


@settings
@decays
@sizes
@pytest.mark.parametrize("seed", range(2))
def test_parts_sum_to_the_loss_on_the_samples(counts, width, decay, bias, seed):
    features, labels = samples(counts, width, seed)
    weight = normal(len(counts), width, seed=seed + 1)
    offset = normal(len(counts), seed=seed + 2) if bias else None
    parts = mse_decomposition(weight, offset, moments_of(features, labels), weight_decay=decay)
    offset = torch.zeros(len(counts)).double() if offset is None else offset
    expected = loss(weight, offset, features, labels, decay)
    torch.testing.assert_close(parts.total, expected, rtol=1e-11, atol=0)
    torch.testing.assert_close(parts.nc1 + parts.nc23, parts.least_squares)
    best = loss(*solver(features, labels, decay, bias), features, labels, decay)
    torch.testing.assert_close(parts.least_squares, best, rtol=1e-9, atol=1e-20)
    torch.testing.assert_close(parts.deviation, expected - best, rtol=1e-9, atol=0)


def printed(weight, features, labels, decay):
    """Theorems 1 and 2 with the printed 1/C, term by term, in extended matrices."""
    ones = torch.ones(len(features), 1).double()
    extended = torch.cat([features, ones], 1)
    target = functional.one_hot(labels).double()
    means = (target.mT @ extended) / target.sum(0).unsqueeze(1)
    classes, width = means.shape
    rest, ridge = extended - means[labels], decay * torch.eye(width).double()
    second = extended.mT @ extended / len(extended) + ridge
    best = means @ torch.linalg.inv(second) / classes
    spread = torch.trace(best @ (rest.mT @ rest / len(rest) + ridge) @ best.mT) / 2
    fit = (best @ means.mT - torch.eye(classes).double()).square().sum() / (2 * classes)
    away = torch.trace((weight - best) @ second @ (weight - best).mT) / 2
    return spread, fit, away


def test_the_printed_form_holds_for_equal_classes_only():
    """At the least-squares classifier itself the printed sum is 2.63 times the loss for counts 100 to 200."""
    for counts, factor in ((EQUAL, 1), (UNEQUAL, 2.630)):
        features, labels = samples(counts, 7)
        weight = torch.cat([w.view(5, -1) for w in least_squares(moments_of(features, labels), weight_decay=5e-4)], 1)
        expected = loss(weight[:, :7], weight[:, 7], features, labels, 5e-4)
        found = printed(weight, features, labels, 5e-4)
        parts = mse_decomposition(weight[:, :7], weight[:, 7], moments_of(features, labels), weight_decay=5e-4)
        torch.testing.assert_close(parts.total, expected, rtol=1e-12, atol=0)
        torch.testing.assert_close(sum(found) / expected, torch.tensor(factor).double(), rtol=1e-3, atol=0)
        if counts == EQUAL:
            torch.testing.assert_close(torch.stack(found), torch.stack([parts.nc1, parts.nc23, parts.deviation]))


def test_classes_of_unequal_size_need_their_shares_in_the_covariance_and_the_mean_of_means_in_a_simplex():
    """docs/errata.md, of what the paper leaves out: its classes have one size."""
    features, labels = samples(UNEQUAL, 7)
    moments, counts = moments_of(features, labels), torch.tensor(UNEQUAL)
    shares, total = counts / counts.sum(), (features - features.mean(0)).mT @ (features - features.mean(0)) / 530
    away = moments.means - features.mean(0)
    for weights, off in ((torch.full((5,), 0.2).double(), 0.203), (shares.double(), 0.0)):
        between = away.mT @ (weights[:, None] * away)
        found = (moments.within_covariance.dense() + between - total).norm() / total.norm()
        assert float(found) == pytest.approx(off, abs=5e-4)
    simplex = torch.eye(5).double()[labels]
    moments = moments_of(simplex, labels)
    assert float(gnomon.equinorm(moments.centred_means)) == pytest.approx(0.1225, abs=5e-5)
    assert float(gnomon.maximal_equiangularity(moments.centred_means)) == pytest.approx(0.1774, abs=5e-5)
    even = moments.means - moments.means.mean(0)
    assert float(gnomon.equinorm(even)) < 1e-15
    assert float(gnomon.maximal_equiangularity(even)) < 1e-15


def test_the_parts_of_the_least_squares_loss_know_nothing_but_the_signal_to_noise_ratio():
    """docs/errata.md: neither is a distance from equal angles, and a large spread makes the first vanish too."""
    generator = torch.Generator().manual_seed(0)
    rest, means, mixing = (
        torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((6, 36), (6, 4), (6, 6))
    )
    labels = torch.arange(4).repeat_interleave(9)
    features = (rest + 2 * means[:, labels]).mT
    of_class = moments_of(features, labels).means[labels]
    collapsing, spreading = (of_class + scale * (features - of_class) for scale in (1e-3, 1e3))
    expected = {
        "drawn": (features, 0.0430616, 0.0085084, 0.1793, 0.1423),
        "mixed": (features @ mixing.mT, 0.0430616, 0.0085084, 0.4316, 0.4922),
        "collapsing": (collapsing, 6.2125e-8, 1.31497e-14, 0.1793, 1.423e-7),
        "spreading": (spreading, 2.8516e-6, 0.374994, 0.1793, 142_274),
    }
    for x, *numbers in expected.values():
        moments = moments_of(x, labels)
        parts = mse_decomposition(torch.zeros(4, 6).double(), torch.zeros(4).double(), moments)
        angles = gnomon.equiangularity(moments.centred_means)
        found = torch.stack([parts.nc1, parts.nc23, angles, gnomon.nc1(moments)])
        torch.testing.assert_close(found, torch.tensor(numbers).double(), rtol=5e-4, atol=0)
        squares = snr_singular_values(moments)[:3].square()
        alone = torch.stack([squares / (4 + squares) ** 2, 4 / (4 + squares) ** 2]).sum(1) / 2
        # Of squares of outputs: those that differ by 1e-7 are known to some eight digits.
        torch.testing.assert_close(torch.stack([parts.nc1, parts.nc23]), alone, rtol=1e-9, atol=1e-21)


@pytest.mark.parametrize(
    ("means", "left"),
    [
        ([[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]], 1 / 6),
        ([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 1 / 6),
        ([[1.0, 0.0], [-0.5, 0.8], [-0.5, -0.8]], 0.0),
    ],
    ids=["on a line", "two equal", "triangle"],
)
def test_of_means_of_low_rank_the_fit_of_the_means_does_not_vanish_with_the_spread(means, left):
    """docs/errata.md: each singular value that is missing adds 1/(2C)."""
    labels, rest = torch.arange(60) % 3, normal(60, 2)
    for label in range(3):
        rest[labels == label] -= rest[labels == label].mean(0)
    moments = moments_of(torch.tensor(means).double()[labels] + 1e-4 * rest, labels)
    parts = mse_decomposition(torch.zeros(3, 2).double(), torch.zeros(3).double(), moments)
    assert float(parts.nc1) < 1e-7
    assert float(parts.nc23) == pytest.approx(left, rel=1e-6, abs=1e-15)


def test_means_far_from_the_origin_cost_no_more_than_their_own_digits():
    features, labels = samples(UNEQUAL, 7)
    far = (features * 2**20).round() / 2**20 + 2**20
    near = moments_of(far - 2**20, labels)
    weight, offset = least_squares(near)
    shifted, _ = least_squares(moments_of(far, labels))
    torch.testing.assert_close(shifted, weight, rtol=1e-8, atol=1e-9)
    parts = mse_decomposition(weight, offset - weight.sum(1) * 2**20, moments_of(far, labels))
    torch.testing.assert_close(parts.total, mse_decomposition(weight, offset, near).total, rtol=1e-8, atol=0)


def test_moments_that_were_rounded_to_half_precision_are_refused_where_they_are_none_of_any_features():
    moments = class_moments(normal(5, 5, seed=1), torch.tensor([0, 1, 2, 3, 0]), 4)
    within = Dense(moments.within.matrix.bfloat16())
    rounded = replace(moments, means=moments.means.bfloat16(), within=within, rounded_off=None)
    with pytest.raises(RangeError, match=r"expected a covariance within classes whose eigenvalues are not negative"):
        mse_decomposition(normal(4, 5, seed=1).bfloat16(), normal(4, seed=2).bfloat16(), rounded)


@decays
def test_distance_is_zero_on_the_path_and_the_root_mean_square_of_outputs_off_it(decay):
    features, labels = samples(UNEQUAL, 4)
    moments = moments_of(features, labels)
    weight, offset = least_squares(moments, weight_decay=decay)
    zero = torch.zeros((), dtype=torch.float64)
    on = weight.clone().requires_grad_()
    distance = central_path_distance(on, offset, moments, weight_decay=decay)
    torch.testing.assert_close(distance, zero)
    torch.testing.assert_close(torch.autograd.grad(distance, on)[0], torch.zeros_like(weight))
    away, offset_away = normal(5, 4), normal(5)
    square = (features @ away.mT + offset_away).square().sum(1).mean()
    square += decay * (away.square().sum() + offset_away.square().sum())
    found = central_path_distance(weight + away, offset + offset_away, moments, weight_decay=decay)
    torch.testing.assert_close(found, square.sqrt())
    alone, _ = least_squares(moments, weight_decay=decay, with_bias=False)
    torch.testing.assert_close(central_path_distance(alone, None, moments, weight_decay=decay), zero)


def test_weights_of_lower_precision_are_taken_up_and_of_higher_refused():
    features, labels = samples(EQUAL, 7)
    weight, offset = normal(5, 7).float(), normal(5).float()
    moments = moments_of(features, labels)
    parts = mse_decomposition(weight, offset, moments)
    assert parts.total.dtype == torch.float64
    torch.testing.assert_close(parts.total, loss(weight.double(), offset.double(), features, labels, 0))
    single = moments_of(features.float(), labels)
    torch.testing.assert_close(mse_decomposition(weight, offset, single).total, parts.total.float())
    with pytest.raises(
        RangeError, match=r"expected moments at least as precise as classifier, torch.float64, got torch.f"
    ):
        mse_decomposition(weight.double(), offset, single)


@pytest.mark.parametrize("counts", [EQUAL, UNEQUAL], ids=str)
def test_snr_is_the_means_of_the_renormalised_features(counts):
    features, labels = samples(counts, 7)
    moments = moments_of(features, labels)
    root = torch.from_numpy(inv(sqrtm(moments.within_covariance.dense().numpy())))
    torch.testing.assert_close(snr(moments), root @ (moments.means - features.mean(0)).mT)
    renormalised = moments_of((features - features.mean(0)) @ root, labels)
    torch.testing.assert_close(renormalised.within_covariance.dense(), torch.eye(7).double())
    torch.testing.assert_close(renormalised.means.mT, snr(moments))
    values = snr_singular_values(moments)
    assert values.shape == (4,)
    signal = moments.centred_means.mT @ moments.centred_means
    squares = eigh(signal.numpy(), moments.within_covariance.dense().numpy(), eigvals_only=True)[:2:-1]
    torch.testing.assert_close(values.square(), torch.from_numpy(squares.copy()))
    mapped = moments_of(features @ normal(7, 7, seed=5) + 100, labels)
    torch.testing.assert_close(snr_singular_values(mapped), values)


def test_dead_units_are_left_out_and_infinite_ratios_refused():
    features, labels = samples(EQUAL, 7)
    moments = moments_of(features, labels)
    turn = torch.linalg.qr(normal(9, 9, seed=3)).Q
    padded = torch.cat([features, torch.full((len(features), 2), 3.0).double()], 1)
    torch.testing.assert_close(snr(moments_of(padded, labels))[:7], snr(moments))
    torch.testing.assert_close(snr(moments_of(padded, labels))[7:], torch.zeros(2, 5).double(), rtol=0, atol=1e-12)
    torch.testing.assert_close(snr_singular_values(moments_of(padded @ turn, labels)), snr_singular_values(moments))
    told = torch.cat([features, labels.double().unsqueeze(1)], 1)
    with pytest.raises(RangeError, match=r"covariance of rank 7 of 8, and means beyond it. The ratio is infinite"):
        snr(moments_of(told, labels))
    with pytest.raises(RangeError, match=r"expected more samples than features, .* 40, got fewer. Take more samples"):
        snr_singular_values(moments_of(*samples((3, 1, 5, 2), 40)))


def test_lemma_1_the_spectral_form_for_equal_classes_with_bias():
    features, labels = samples(EQUAL, 7)
    moments = moments_of(features, labels)
    parts = mse_decomposition(*least_squares(moments), moments)
    spectral = spectral_mse(snr_singular_values(moments), 5)
    for name in ("nc1", "nc23", "least_squares", "deviation", "total"):
        torch.testing.assert_close(getattr(spectral, name), getattr(parts, name))
    # Without a bias, for centred features as the lemma has them, 1/(2C) stays.
    centred = moments_of(features - features.mean(0), labels)
    alone, _ = least_squares(centred, with_bias=False)
    total = mse_decomposition(alone, None, centred).total
    torch.testing.assert_close(total, spectral.total + 1 / 10)
    flat, flat_labels = samples(EQUAL, 2)
    few = moments_of(flat, flat_labels)
    values = snr_singular_values(few)
    assert values.shape == (2,)
    expected = mse_decomposition(*least_squares(few), few)
    torch.testing.assert_close(spectral_mse(values, 5).nc23, expected.nc23)
    assert spectral_mse(values.expand(3, 2), 5).total.shape == (3,)
    torch.testing.assert_close(spectral_mse(torch.ones(1), 2).total, torch.tensor(1 / 6))


def test_nc1_of_the_paper_is_the_ratios_for_renormalised_features_only():
    """Appendix D.6: the trace is C times the sum it prints, and larger where the features are not renormalised."""
    features, labels = samples(EQUAL, 7)
    moments = moments_of(features * torch.arange(1, 8), labels)
    expected = snr_singular_values(moments).pow(-2).sum()
    root = torch.from_numpy(inv(sqrtm(moments.within_covariance.dense().numpy())))
    renormalised = moments_of(features * torch.arange(1, 8) @ root, labels)
    torch.testing.assert_close(gnomon.nc1(renormalised), expected)
    torch.testing.assert_close(gnomon.nc1(moments) / expected, torch.tensor(1.2356).double(), rtol=1e-4, atol=0)


@pytest.mark.unchecked
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("width", [1, 3, 7, 12])
@settings
def test_gradients(decay, width, bias):
    features, labels = samples((4, 3, 2), width)
    weight, offset = normal(3, width, seed=4), normal(3, seed=5)

    def parts(h, w, b):
        moments = moments_of(h, labels)
        found = mse_decomposition(w, b if bias else None, moments, weight_decay=decay)
        return found.nc1, found.nc23, found.deviation, *least_squares(moments, weight_decay=decay, with_bias=bias)

    arguments = [tensor.requires_grad_() for tensor in (features, weight, offset)]
    assert torch.autograd.gradcheck(parts, arguments, fast_mode=True)


def test_gradient_of_the_ratio_also_where_eigenvalues_coincide():
    features, labels = samples((6, 5, 7), 3)
    assert torch.autograd.gradcheck(lambda h: snr(moments_of(h, labels)), features.requires_grad_())
    features = features.detach()
    root = torch.from_numpy(inv(sqrtm(moments_of(features, labels).within_covariance.dense().numpy())))
    renormalised = (features @ root).requires_grad_()
    assert torch.autograd.gradcheck(lambda h: snr(moments_of(h, labels)), renormalised)
    assert torch.autograd.gradcheck(lambda h: snr_singular_values(moments_of(h, labels)), renormalised)
    constant = torch.zeros(18, 2).double()
    assert torch.autograd.gradcheck(
        lambda h: snr(moments_of(torch.cat([h, constant], 1), labels)), features.requires_grad_()
    )
    assert torch.autograd.gradcheck(lambda w: spectral_mse(w, 4).total, normal(3).abs().requires_grad_())


def test_the_gradient_towards_the_kernel_is_that_of_turning():
    """A rotation turns the range of the covariance: constant rank, though each entry of the kernel's rows moves."""
    features, labels = samples((6, 5, 7), 3)
    padded = torch.cat([features, torch.zeros(18, 2).double()], 1)

    def turned(angle):
        generator = torch.zeros(5, 5).double()
        generator[0, 3], generator[3, 0] = 1, -1
        return snr(moments_of(padded @ torch.matrix_exp(angle * generator), labels))

    assert torch.autograd.gradcheck(turned, torch.tensor(0.3, dtype=torch.float64, requires_grad=True))


@pytest.mark.bad_input
def test_bad_input_is_named():
    features, labels = samples(EQUAL, 7)
    moments, weight, offset = moments_of(features, labels), normal(5, 7), normal(5)
    with pytest.raises(RangeError, match=r"least_squares_classifier: expected weight_decay finite and at least 0, got"):
        least_squares(moments, weight_decay=-1.0)
    with pytest.raises(RangeError, match=r"mse_decomposition: expected weight_decay finite and at least 0, got inf"):
        mse_decomposition(weight, offset, moments, weight_decay=float("inf"))
    with pytest.raises(
        ShapeError, match=r"mse_decomposition\(classifier\): expected shape \(5, 7\) as class_means has"
    ):
        mse_decomposition(weight.mT, offset, moments)
    with pytest.raises(ShapeError, match=r"central_path_distance\(bias\): expected shape \(5,\), got \(4,\). Pass one"):
        central_path_distance(weight, offset[:4], moments)
    with pytest.raises(RangeError, match=r"mse_decomposition\(classifier\): expected finite numbers, got nan at index"):
        mse_decomposition(weight * torch.nan, offset, moments)
    with pytest.raises(RangeError, match=r"number of snr_singular_values at most 2, got 3"):
        spectral_mse(torch.ones(3), 3)
    with pytest.raises(RangeError, match=r"spectral_mse: expected classes a whole number of at least 2, got 2\.5"):
        spectral_mse(torch.ones(1), 2.5)
    with pytest.raises(
        ShapeError, match=r"spectral_mse\(snr_singular_values\): expected at least one axis, of the values"
    ):
        spectral_mse(torch.tensor(1.0), 3)


def of_moments(moments, decay, bias):
    """Least squares in float64 on a design that has these moments, not on its squares."""
    counts, means = moments.counts.double(), moments.precise_means.double()
    shares, (classes, width) = counts / counts.sum(), means.shape
    values, vectors = torch.linalg.eigh(moments.within.to(torch.float64).dense() / counts.sum())
    design = torch.cat([values.clamp(min=0).sqrt()[:, None] * vectors.mT, shares.sqrt()[:, None] * means])
    target = torch.cat([torch.zeros(width, classes).double(), shares.sqrt().diag()])
    ones = torch.cat([torch.zeros(width, 1).double(), shares.sqrt()[:, None]])
    design = torch.cat([design, ones], 1) if bias else design
    ridge = decay**0.5 * torch.eye(design.shape[1]).double()
    design = torch.cat([design, ridge])
    target = torch.cat([target, torch.zeros(len(ridge), classes).double()])
    found = torch.linalg.lstsq(design, target, driver="gelsd").solution
    return found[:width].mT, (design @ found - target).square().sum() / 2


@settings
@decays
@pytest.mark.parametrize("mean", [1e3, 1e4, 1e6])
@pytest.mark.parametrize(("n", "width"), [(300, 5), (20, 40)])
def test_a_large_common_mean_costs_no_digits_of_float32_moments(n, width, mean, decay, bias):
    if n < width and decay == 0:
        pytest.skip("features interpolate: the loss is rounding")
    labels = torch.arange(n) % 3
    features = normal(n, width) + normal(3, width, seed=1)[labels] + mean * normal(width, seed=2).sign()
    moments = class_moments(features.float(), labels, 3)
    expected, least = of_moments(moments, decay, bias)
    weight, _ = least_squares(moments, weight_decay=decay, with_bias=bias)
    assert weight.dtype == torch.float32
    torch.testing.assert_close(weight.double(), expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))
    zero = torch.zeros(3, width), torch.zeros(3) if bias else None
    parts = mse_decomposition(*zero, moments, weight_decay=decay)
    assert parts.least_squares.dtype == torch.float32
    torch.testing.assert_close(parts.least_squares.double(), least, rtol=1e-6, atol=0)
    torch.testing.assert_close(parts.total, torch.tensor(0.5))


@pytest.mark.parametrize("width", [5, 40])
def test_a_mean_beyond_the_features_directions_is_fitted_by_itself(width):
    """All samples share one more coordinate, which then is the bias of a classifier without one."""
    features, labels = samples((6, 9, 4), width)
    moved = torch.cat([features - features.mean(0), torch.full((len(labels), 1), 1e3).double()], 1)
    weight, _ = least_squares(moments_of(moved, labels), with_bias=False)
    plain, offset = least_squares(moments_of(features, labels))
    torch.testing.assert_close(weight[:, :-1], plain, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(weight[:, -1] * 1e3, offset + plain @ features.mean(0), rtol=1e-7, atol=1e-9)


@settings
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 1e-7), (torch.float32, 1e-3)])
@pytest.mark.parametrize(("spread", "middle"), [(1, 0), (1, 1000), (1e-2, 0)])
def test_features_in_a_hyperplane_such_as_a_layer_norms_have_no_further_direction(spread, middle, dtype, rtol, bias):
    middle = middle if bias else 0
    for seed in range(12):
        labels = torch.cat([torch.arange(7), normal(7, 1, seed=seed).argsort(0).flatten()])
        free = normal(7, 7, seed=seed + 1)[labels] + spread * normal(14, 7, seed=seed + 2) + middle
        features = torch.cat([free, -free.sum(1, keepdim=True)], dim=1).to(dtype)
        moments, weight = moments_of(features, labels), normal(7, 8).to(dtype)
        parts = mse_decomposition(weight, torch.zeros(7, dtype=dtype) if bias else None, moments)

        features, target = features.double(), functional.one_hot(labels).double()
        total = loss(weight.double(), torch.zeros(7).double(), features, labels, 0)
        centred, aim = (each - each.mean(0) if bias else each for each in (features, target))
        within = torch.linalg.svd(centred)[0][:, :7]
        least = (aim - within @ (within.mT @ aim)).square().sum() / 28
        for part, expected in ((parts.least_squares, least), (parts.deviation, total - least), (parts.total, total)):
            assert abs(part - expected) < rtol * total


def test_a_loss_beyond_the_dtypes_range_is_refused():
    moments = moments_of(*samples((6, 9, 4), 5))
    weight, bias = torch.ones(3, 5).double(), torch.ones(3).double()
    for given in ((weight * 1e200, bias), (weight, bias * 1e200)):
        with pytest.raises(
            RangeError, match=r"mse_decomposition\(classifier\): expected a loss that torch.float64 can"
        ):
            mse_decomposition(*given, moments)
    assert mse_decomposition(weight * 1e100, bias, moments).total.isfinite()


@pytest.mark.parametrize("spread", [1e-4, 1e-6, 1e-7])
@pytest.mark.parametrize("copied", [0, 2])
def test_collapsed_features_keep_their_digits(spread, copied):
    """The covariance of all samples has a condition number of a spread's inverse square; it is not inverted."""
    labels = torch.arange(60) % 4
    features = normal(4, 8)[labels] + spread * normal(60, 8, seed=1)
    features = torch.cat([features, features[:, :copied]], 1)
    moments, width = moments_of(features, labels), 8 + copied
    zero = torch.zeros(4, width).double(), torch.zeros(4).double()
    parts, expected = mse_decomposition(*zero, moments), spectral_mse(snr_singular_values(moments), 4)
    torch.testing.assert_close(parts.least_squares, expected.least_squares, rtol=1e-10, atol=0)
    torch.testing.assert_close(parts.nc23, expected.nc23, rtol=0.1, atol=0)  # squares of 1e-14 beside outputs of 1
    torch.testing.assert_close(parts.deviation, 0.5 - expected.total, rtol=1e-10, atol=0)
    without_bias = mse_decomposition(zero[0], None, moments)
    best, _ = solver(features, labels, 0.0, bias=False)
    least = loss(best, zero[1], features, labels, 0.0)
    torch.testing.assert_close(without_bias.least_squares, least, rtol=1e-8, atol=0)  # the solver's own digits
    for bias in (True, False):
        best, offset = solver(features, labels, 0.0, bias)
        found = central_path_distance(best, offset if bias else None, moments)
        torch.testing.assert_close(found, torch.zeros_like(found), atol=1e-12, rtol=0)


DEPENDENT = {
    "more classes than features": lambda: normal(8, 3),
    "two coincide": lambda: normal(8, 12)[[0, 1, 2, 3, 4, 5, 6, 6]],
    "on a line": lambda: torch.outer(normal(8), normal(12, seed=1)),
    "far from the origin": lambda: normal(8, 6) + 1e3,
}


@pytest.mark.parametrize("spread", [1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", DEPENDENT)
def test_collapsed_features_whose_means_depend_on_each_other_keep_their_digits(kind, bias, spread):
    """Where no classifier maps the means to the labels, and one of least norm would be lost in rounding."""
    labels, means = torch.arange(80) % 8, DEPENDENT[kind]()
    features = means[labels] + spread * normal(80, means.shape[1], seed=2)
    moments = moments_of(features, labels)
    best, offset = solver(features, labels, 0.0, bias)
    parts = mse_decomposition(best, offset if bias else None, moments)
    assert parts.least_squares > 0.01
    torch.testing.assert_close(parts.total, parts.least_squares, rtol=1e-10, atol=0)
    distance = central_path_distance(best, offset if bias else None, moments)
    # Along what the means do not span, W is as large as the spread is small, and so is what rounding the features adds.
    rounding = 20 * torch.finfo(features.dtype).eps / spread
    torch.testing.assert_close(distance, torch.zeros_like(distance), rtol=0, atol=rounding)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bias", [True, False])
def test_units_of_very_different_sizes_leave_a_classifier_that_is_no_worse_than_none(dtype, bias):
    labels = torch.arange(60) % 4
    sizes = torch.tensor([1e-6, 1, 1e6, 1e3, 1e-3]) if dtype == torch.float64 else torch.tensor([1e3, 1, 1, 1, 1])
    features = (normal(60, 5).relu() * sizes).to(dtype)
    zero = torch.zeros(4, 5).to(dtype), torch.zeros(4).to(dtype) if bias else None
    parts = mse_decomposition(*zero, moments_of(features, labels))
    torch.testing.assert_close(parts.total, torch.tensor(0.5).to(dtype))
    least = loss(*solver(features.double(), labels, 0.0, bias), features.double(), labels, 0.0)
    assert least * 0.999 < parts.least_squares < 1.1 * least  # the smallest units are left out


def test_a_weight_decay_lost_in_rounding_counts_as_the_least():
    features, labels = samples((15,) * 4, 100)
    for kept in (torch.float32, torch.float64):
        zero = torch.zeros(4, 100).to(kept), torch.zeros(4).to(kept)
        parts = mse_decomposition(*zero, moments_of(features.to(kept), labels), weight_decay=1e-20)
        torch.testing.assert_close(parts.total, torch.tensor(0.5).to(kept))
        assert parts.least_squares < 1e-6


@pytest.mark.parametrize(("dtype", "least"), [(torch.float32, torch.finfo(torch.float32).eps), (torch.float64, 1e-12)])
def test_the_least_weight_decay_is_a_share_of_a_feature_s_variance_within_classes(dtype, least):
    within, means = torch.tensor([1.0, least / 100]).double().diag(), torch.tensor([[1.0, least], [-1, 3 * least]])
    moments = gnomon.ClassMoments(torch.tensor([5, 5]), means.to(dtype), Dense(10 * within.to(dtype)))
    weight, _ = least_squares(moments, weight_decay=1e-20, with_bias=False)
    rows = means.double()
    decayed = within + (2 * least * within).clamp(min=1e-20)
    expected = torch.linalg.solve(2 * decayed + rows.mT @ rows, rows.mT).mT
    torch.testing.assert_close(weight.double(), expected, rtol=1e-5, atol=0)


def test_a_direction_of_hardly_any_variance_counts_if_the_means_differ_by_ten_times_its_deviation():
    turn = torch.tensor([[1.0, 1.0], [-1.0, 1.0]]) / 2**0.5
    within = 12 * turn.T @ torch.tensor([1.0, 1e-7]).diag() @ turn
    for deviations, counts in ((5, False), (20, True)):
        means = torch.tensor([[1.0, deviations * 1e-7**0.5], [-1.0, -deviations * 1e-7**0.5]])
        moments = gnomon.ClassMoments(torch.tensor([6, 6]), means @ turn, Dense(within))
        for bias in (True, False):
            weight = least_squares(moments, with_bias=bias)[0] @ turn.T
            expected = torch.stack([torch.zeros(()), 1 / (2 * means[0, 1])]) if counts else torch.tensor([0.25, 0])
            torch.testing.assert_close(weight[0], expected, rtol=1e-3, atol=1e-3)
            torch.testing.assert_close(weight[1], -weight[0])


@pytest.mark.parametrize("width", [5, 100])  # Σ_W whole, and as rows
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("decay", [0.0, 1e-3])
def test_one_wide_feature_hides_none_of_the_others(width, dtype, decay):
    features, labels = samples((12,) * 4, width)
    features = torch.cat([features, torch.full_like(features[:, :1], 0.3)], 1)  # and one that is constant
    wide = features.clone()
    wide[:, 0] *= 1000
    moments, wide_moments = (moments_of(h.to(dtype), labels) for h in (features, wide))
    best, _ = least_squares(wide_moments, weight_decay=decay, with_bias=False)
    expected, _ = solver(wide.to(dtype).double(), labels, decay, False)
    shares = torch.ones(width + 1, dtype=torch.float64)
    shares[0] = 1000
    close = {"rtol": 0, "atol": (1e-4 if dtype == torch.float32 else 1e-9) * float(expected.abs().max())}
    torch.testing.assert_close(best.double() * shares, expected * shares, **close)
    if decay == 0 and width == 5:  # then the fit is invariant under scaling of the features
        torch.testing.assert_close(best.double() * shares, least_squares(moments, with_bias=False)[0].double(), **close)


def test_rows_are_solved_beside_a_feature_a_million_times_as_wide():
    """As if all were of one size, since the solution is the same in any units."""
    rows, sizes = normal(8, 24), torch.ones(24, dtype=torch.float64)
    sizes[0] = 1e6
    wanted = normal(3, 24, seed=1) * sizes
    expected = torch.linalg.solve(rows.mT @ rows + sizes.square().reciprocal().diag(), wanted / sizes, left=False)
    found = Factored(rows * sizes).shifted_solve(wanted, torch.ones_like(sizes))
    torch.testing.assert_close(found * sizes, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("width", [1e-3, 1e3])
def test_ratios_of_features_of_unlike_widths_keep_their_digits_in_float32(width):
    features, labels = samples((100,) * 4, 30)
    features[:, 0] *= width
    single, double = (moments_of(h, labels) for h in (features.float(), features.float().double()))
    torch.testing.assert_close(snr_singular_values(single).double(), snr_singular_values(double), rtol=1e-4, atol=0)
    torch.testing.assert_close(snr(single).double(), snr(double), rtol=1e-4, atol=1e-4)


def test_ratios_keep_their_digits_where_wide_features_depend_on_each_other():
    features, labels = samples((50,) * 4, 3)
    wide = 1e4 * features[:, :2] @ normal(2, 4, seed=3)
    moments = moments_of(torch.cat([wide, features[:, 2:]], 1).float(), labels)
    expected = snr_singular_values(moments_of(features, labels))
    torch.testing.assert_close(snr_singular_values(moments).double(), expected, rtol=1e-4, atol=0)


@pytest.mark.bad_input
@pytest.mark.parametrize("width", [1.0, 1e3, 1e6])
def test_an_infinite_ratio_is_refused_beside_a_wide_feature(width):
    features, labels = samples((50,) * 4, 1)
    features = torch.cat([width * features, torch.eye(4)[labels][:, :1].to(features)], 1).float()
    with pytest.raises(RangeError, match=r"got a within-class covariance of rank 1 of 2, and means beyond it"):
        snr(moments_of(features, labels))


@pytest.mark.parametrize("mean", [0.0, 1e6, 1e9])
def test_what_separates_classes_without_spread_counts_far_from_the_origin_without_bias(mean):
    features, labels = samples((8,) * 3, 2)
    apart = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64) + mean
    features = torch.cat([features, apart[labels]], 1)
    parts = mse_decomposition(torch.zeros(3, 4).double(), None, moments_of(features, labels))
    # Two features span two of the three dimensions of the labels' means.
    tables = torch.linalg.qr(apart)[0]
    expected, _ = solver(torch.cat([features[:, :2], tables[labels]], 1), labels, 0.0, False)
    least = loss(expected, torch.zeros(3).double(), torch.cat([features[:, :2], tables[labels]], 1), labels, 0.0)
    torch.testing.assert_close(parts.least_squares, least, rtol=1e-6, atol=0)


def test_a_feature_that_separates_classes_without_spread_counts_beside_a_wide_one():
    features, labels = samples((12,) * 4, 5)
    features = torch.cat([1000 * features, torch.eye(4)[labels].to(features)], 1).float()
    zero = torch.zeros(4, 9), torch.zeros(4)
    parts = mse_decomposition(*zero, moments_of(features, labels))
    torch.testing.assert_close(parts.least_squares, torch.tensor(0.0), rtol=0, atol=1e-9)
