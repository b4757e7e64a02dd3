"""Kernels, their random features and the AGOP of kernel machines, against loops, autodiff and closed forms."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from gnomon.errors import EmptyError, RangeError, ShapeError
from gnomon.kernels import (
    FeatureMap,
    FourierFeatures,
    GaussianKernel,
    Kernel,
    LaplaceKernel,
    ReLUFeatures,
    kernel_agop,
    kernel_gram,
    over_pairs,
    squared_distances,
)
from gnomon.kernels import _agop as agop_module
from gnomon.kernels._agop import _by_gradients, _by_samples
from gnomon.linalg import unit
from tests.drawn import normal

KERNELS = [LaplaceKernel(1.3), GaussianKernel(0.9)]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=["laplace", "gaussian"])


def some_metric(d, seed=7):
    half = normal(d, d, seed=seed)
    return half @ half.mT / d


def machine(kernel, x, coefficients, metric=None):
    """The plain function of one point, whose gradient at a kink is 0 by the double where."""

    def f(point):
        apart = point - x
        squares = ((apart if metric is None else apart @ metric) * apart).sum(1)
        if isinstance(kernel, GaussianKernel):
            return (-squares / (2 * kernel.bandwidth**2)).exp() @ coefficients
        positive = squares > 0
        distances = torch.where(positive, torch.where(positive, squares, 1).sqrt(), 0)
        return (-distances / kernel.bandwidth).exp() @ coefficients

    return f


def plain_agop(kernel, x, coefficients, metric=None):
    f = machine(kernel, x, coefficients, metric)
    total = torch.zeros(x.shape[1], x.shape[1], dtype=x.dtype)
    for point in x:
        for row in torch.autograd.functional.jacobian(f, point):
            total += torch.outer(row, row)
    return total / len(x)


@pytest.mark.parametrize("metric", [None, some_metric(4)], ids=["identity", "metric"])
def test_squared_distances_are_those_of_the_loop(metric):
    x, z = normal(7, 4) + 100, normal(5, 4, seed=1) + 100
    matrix = torch.eye(4).double() if metric is None else metric
    expected = torch.tensor([[float((p - q) @ matrix @ (p - q)) for q in z] for p in x], dtype=torch.float64)
    torch.testing.assert_close(squared_distances(x, z, metric), expected)
    torch.testing.assert_close(
        squared_distances(x.float(), z.float(), None if metric is None else metric.float()).double(),
        expected,
        rtol=1e-3,
        atol=1e-3,
    )


def test_points_may_lie_at_their_mean():
    x = torch.tensor([[-1.0], [0.0], [1.0]])
    torch.testing.assert_close(squared_distances(x, x), torch.tensor([[0.0, 1, 4], [1, 0, 1], [4, 1, 0]]))


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_a_metric_is_symmetric_up_to_a_share_of_its_largest_entry(size):
    x = normal(3, 2)
    rounded, skewed = (size * torch.tensor([[1.0, off], [0.0, 0.0]], dtype=torch.float64) for off in (1e-9, 1e-7))
    torch.testing.assert_close(squared_distances(x, x, rounded), size * squared_distances(x[:, :1], x[:, :1]))
    with pytest.raises(RangeError, match="got one that is not symmetric"):
        squared_distances(x, x, skewed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_coincident_and_close_points_are_exact(dtype):
    x = (normal(6, 50) + 3).to(dtype)
    x[1], x[3] = x[0], x[2]
    x[5] = x[4]
    x[5, 0] += 1e-3
    squares = squared_distances(x, x)
    torch.testing.assert_close(squares.diagonal(), torch.zeros(6, dtype=dtype), rtol=0, atol=0)
    assert squares[0, 1] == squares[1, 0] == squares[2, 3] == 0
    torch.testing.assert_close(squares[4, 5], (x[4] - x[5]).square().sum(), rtol=1e-2, atol=0)


def test_close_points_far_from_the_centre_keep_their_digits():
    """Moved there, points would be rounded: neighbours in float32 would coincide, or be twice as far apart."""
    centres, near = 1000 * normal(3, 50), 1e-4 * normal(40, 50, seed=1)
    x = (centres.repeat(14, 1)[:40] + near).float()
    exact = (x.double()[:, None] - x.double()).square().sum(2)
    torch.testing.assert_close(squared_distances(x, x).double(), exact, rtol=1e-3, atol=0)
    kernel = LaplaceKernel(1e-4)
    torch.testing.assert_close(over_pairs(kernel.value, x, None, 7).double(), kernel.value(exact), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("beside", [1e2, 1e3, 1e4, 1e6])
def test_what_a_metric_of_low_rank_does_not_see_does_not_matter_much(beside, dtype):
    """Far apart in directions that the metric maps to 0, where its products cancel."""
    direction = unit(normal(1, 50))[0]
    along, across = normal(30, 50, seed=1), normal(30, 50, seed=2)
    x = (along + beside * (across - (across @ direction)[:, None] * direction)).to(dtype)
    metric = torch.outer(direction, direction).to(dtype)
    squares = squared_distances(x, x, metric)
    torch.testing.assert_close(squares.diagonal(), torch.zeros(30, dtype=dtype), rtol=0, atol=0)
    assert squares.min() >= 0
    near = (x.double() @ metric.double()) @ direction  # the metric as rounded
    exact = (near[:, None] - near).square()
    # The rounding of a product of 50 numbers, twice.
    assert (squares - exact).abs().max() <= 100 * torch.finfo(dtype).eps * float(x.square().sum(1).max())


def test_squares_that_the_dtype_cannot_hold_are_said_and_nan_stays_nan():
    far = torch.tensor([[1e20], [2e20]])
    for function in (squared_distances, partial(kernel_gram, LaplaceKernel(1e20))):
        with pytest.raises(RangeError, match=r"\(x\): expected lengths well below 2e\+19, whose squares torch.float32"):
            function(far, far)
    with pytest.raises(RangeError, match=r"kernel_agop\(x\): .* got more. Scale the points, or use float64"):
        kernel_agop(LaplaceKernel(1e20), far, torch.ones(2, 1))
    with pytest.raises(RangeError, match=r"kernel_agop\(coefficients\): expected an AGOP that torch.float32 can hold"):
        kernel_agop(LaplaceKernel(1.0), far / 1e20, torch.tensor([[1e25], [0.0]]))
    for kernel in KERNELS:
        torch.testing.assert_close(
            kernel.value(torch.tensor([math.nan, 0.0])), torch.tensor([math.nan, 1.0]), equal_nan=True
        )
        assert kernel.slope(torch.tensor([math.nan])).isnan().all()


def test_squares_that_underflow_are_said_and_points_in_one_place_are_fine():
    """Computed as 0, all distances would be those of points in one place."""
    for size in (1e-20, 1e-30):
        near = size * torch.tensor([[1.0], [2.0]])
        for function in (squared_distances, partial(kernel_gram, LaplaceKernel(size))):
            with pytest.raises(
                RangeError, match=r"\(x\): expected lengths well above 3e-16, whose squares .*, got less"
            ):
                function(near, near)
        torch.testing.assert_close(
            squared_distances(near.double(), near.double())[0, 1], torch.tensor(size).double() ** 2
        )
        torch.testing.assert_close(squared_distances(near[:1], near[:1]), torch.zeros(1, 1))
    x, blind = torch.eye(2), torch.diag(torch.tensor([0.0, 1.0]))
    torch.testing.assert_close(squared_distances(x[:1], -x[:1], blind), torch.zeros(1, 1))


@pytest.mark.parametrize("n", [4, 30])
@every_kernel
def test_agop_in_large_units_is_that_in_small_ones(kernel, n):
    """The products of its slopes, which fall with the fourth power of the unit, are beyond float32."""
    x, coefficients = normal(n, 3).float(), normal(n, 8).float()
    expected = kernel_agop(kernel, x, coefficients)
    for size in (1e12, 1e17):
        found = kernel_agop(replace(kernel, bandwidth=kernel.bandwidth * size), size * x, coefficients)
        torch.testing.assert_close(found * size * size, expected, rtol=1e-4, atol=1e-4 * float(expected.max()))


@pytest.mark.parametrize("bandwidth", [1e-200, 1e200, 1e-25])
def test_bandwidths_whose_square_is_beyond_the_range_are_no_trouble(bandwidth):
    kernel, squares = GaussianKernel(bandwidth), torch.tensor([0.0, 1.0]).double()
    torch.testing.assert_close(kernel.value(squares), torch.tensor([1.0, float(bandwidth > 1)]).double())
    assert not kernel.slope(squares).isnan().any()


@every_kernel
def test_gradients_are_those_of_autodiff_and_zero_at_coincident_points(kernel):
    x, z, metric = normal(5, 3), normal(6, 3, seed=1), some_metric(3)
    z[2] = x[1]
    slopes = kernel.slope(squared_distances(x, z, metric))
    gradients = -slopes[..., None] * ((x[:, None] - z) @ metric)
    one = torch.eye(6).double()
    for i, point in enumerate(x):
        expected = torch.autograd.functional.jacobian(machine(kernel, z, one, metric), point)
        torch.testing.assert_close(gradients[i], expected)
    torch.testing.assert_close(gradients[1, 2], torch.zeros(3).double(), rtol=0, atol=0)
    assert isinstance(kernel, Kernel)


@every_kernel
def test_gram_matrices_are_positive_definite_with_a_unit_diagonal_and_differentiable(kernel):
    x, metric = normal(20, 3), some_metric(3)
    gram = kernel_gram(kernel, x, x, metric)
    torch.testing.assert_close(gram.diagonal(), torch.ones(20).double(), rtol=0, atol=0)
    assert torch.linalg.eigvalsh(gram)[0] > 0
    torch.testing.assert_close(gram[3], machine(kernel, x, torch.eye(20).double(), metric)(x[3]))
    assert torch.autograd.gradcheck(lambda a, b: kernel_gram(kernel, a, b, metric), (x[:3].requires_grad_(), x[4:8]))


def test_values_of_the_paper():
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    torch.testing.assert_close(kernel_gram(LaplaceKernel(2.0), x, x)[0, 1].item(), math.exp(-2.5))
    torch.testing.assert_close(kernel_gram(GaussianKernel(2.0), x, x)[0, 1].item(), math.exp(-25 / 8))


@every_kernel
@pytest.mark.parametrize(("n", "d", "c"), [(20, 5, 3), (40, 3, 2), (7, 12, 4), (1, 3, 2), (30, 2, 1)])
@pytest.mark.parametrize("with_metric", [False, True])
def test_agop_is_that_of_autodiff(kernel, n, d, c, with_metric):
    x, coefficients = normal(n, d) + 3, normal(n, c, seed=1)
    x[n // 2] = x[0]
    metric = some_metric(d) if with_metric else None
    expected = plain_agop(kernel, x, coefficients, metric)
    torch.testing.assert_close(kernel_agop(kernel, x, coefficients, metric), expected, rtol=1e-9, atol=1e-12)
    gradients = torch.stack(
        [torch.autograd.functional.jacobian(machine(kernel, x, coefficients, metric), p) for p in x]
    )
    apart = (gradients - gradients.mean(0)).flatten(0, 1)
    centred = kernel_agop(kernel, x, coefficients, metric, centred=True)
    torch.testing.assert_close(centred, apart.mT @ apart / n, rtol=1e-9, atol=1e-12)
    few = kernel_agop(kernel, x, coefficients, metric, memory=100 * n)
    torch.testing.assert_close(few, expected, rtol=1e-9, atol=1e-12)
    single = kernel_agop(kernel, x.float(), coefficients.float(), None if metric is None else metric.float())
    assert single.dtype == torch.float32
    assert (single.double() - expected).norm() <= 1e-5 * expected.norm()


@every_kernel
def test_both_forms_agree_and_the_cheaper_is_taken(kernel, monkeypatch):
    x, coefficients = normal(30, 4), normal(30, 3, seed=1)
    slopes = over_pairs(kernel.slope, x, None, 7)
    whole, none = _by_samples(slopes, x, coefficients, 30), torch.zeros(3, 4, dtype=torch.float64)
    for block, budget in ((1, 1), (7, 2 * 8 * x.numel() * 2), (16, 2**20)):
        torch.testing.assert_close(_by_samples(slopes, x, coefficients, block), whole)
        torch.testing.assert_close(_by_gradients(slopes, x, coefficients, none, block, budget), whole)
    taken = []
    for name in ("_by_samples", "_by_gradients"):
        form = getattr(agop_module, name)
        monkeypatch.setattr(agop_module, name, lambda *a, form=form, name=name: taken.append(name) or form(*a))
    kernel_agop(kernel, normal(30, 40), normal(30, 3))
    kernel_agop(kernel, normal(60, 4), normal(60, 3))
    assert taken == ["_by_samples", "_by_gradients"]


@pytest.mark.bad_input
@pytest.mark.parametrize("kernel", [GaussianKernel, LaplaceKernel])
def test_a_bandwidth_that_the_dtype_rounds_to_zero_is_refused(kernel):
    """The Gram matrix was NaN, its diagonal too."""
    x = torch.tensor([[0.0], [1.0]])
    with pytest.raises(
        RangeError, match=r"Kernel\.value\(bandwidth\): expected at least 1.2e-38, .*float32, got 1e-46"
    ):
        kernel_gram(kernel(1e-46), x, x)
    with pytest.raises(RangeError, match=r"bandwidth.* got 1e-46"):
        kernel_agop(kernel(1e-46), x, x)
    torch.testing.assert_close(kernel_gram(kernel(1e-46), x.double(), x.double()), torch.eye(2).double())
    torch.testing.assert_close(kernel_gram(kernel(1.2e-38), x, x), torch.eye(2))


@pytest.mark.parametrize(("n", "d", "bandwidth"), [(200, 10, 30.0), (200, 10, 100.0), (50, 100, 100.0)])
def test_what_is_left_beside_a_large_mean_keeps_its_digits(n, d, bandwidth):
    """Wide kernels make nearly linear machines, whose gradients are all nearly their mean."""
    x, y = normal(n, d), torch.ones(n, 1, dtype=torch.float64)
    y[::2] = -1
    x[:, 0] += y[:, 0]
    kernel = GaussianKernel(bandwidth)
    coefficients = torch.linalg.solve(kernel_gram(kernel, x, x) + 1e-3 * torch.eye(n, dtype=torch.float64), y)
    apart = x[:, None] - x
    gradients = -torch.einsum("jc,ij,ijk->ick", coefficients, kernel.slope(apart.square().sum(2)), apart)
    gradients = (gradients - gradients.mean(0)).flatten(0, 1)
    expected = gradients.mT @ gradients / n
    torch.testing.assert_close(kernel_agop(kernel, x, coefficients, centred=True), expected, rtol=1e-6, atol=1e-15)
    single = kernel_agop(kernel, x.float(), coefficients.float(), centred=True).double()
    assert (single - expected).norm() <= 1e-3 * expected.norm()
    assert torch.linalg.eigvalsh(single)[0] >= -1e-6 * torch.linalg.eigvalsh(single)[-1]


@every_kernel
def test_agop_has_its_invariances_and_gradients(kernel):
    x, coefficients = normal(12, 5), normal(12, 3, seed=1)
    agop = kernel_agop(kernel, x, coefficients)
    order, turn = torch.randperm(12), torch.linalg.qr(normal(5, 5, seed=2))[0]
    torch.testing.assert_close(kernel_agop(kernel, x[order] - 7, coefficients[order]), agop)
    torch.testing.assert_close(kernel_agop(kernel, x, coefficients @ torch.linalg.qr(normal(3, 3))[0]), agop)
    torch.testing.assert_close(kernel_agop(kernel, x @ turn, coefficients), turn.mT @ agop @ turn)
    assert torch.linalg.eigvalsh(agop)[0] > -1e-12 * agop.norm()
    arguments = (x[:4].requires_grad_(), coefficients[:4].requires_grad_())
    assert torch.autograd.gradcheck(lambda a, b: kernel_agop(kernel, a, b), arguments)


def test_agop_keeps_its_digits_where_the_gram_matrix_is_nearly_singular():
    """As in the last layers of Deep RFM with a Gaussian kernel: the coefficients' squares would cost them all."""
    x, kernel = unit(normal(300, 40)), GaussianKernel(1000.0)
    gram = kernel_gram(kernel, x, x) + 1e-13 * torch.eye(300).double()
    coefficients = torch.linalg.solve(gram, normal(300, 5, seed=1))
    apart = [point - x for point in x]
    gradients = [(kernel.slope(d.square().sum(1)).unsqueeze(1) * coefficients).mT @ d for d in apart]
    expected = sum(gradient.mT @ gradient for gradient in gradients) / 300
    weights = over_pairs(kernel.slope, x - x.mean(0), None, 300)
    lossy = _by_samples(weights, x - x.mean(0), coefficients, 300) / 300
    size = float(expected.norm())
    assert (lossy - expected).norm() > 1e-3 * size
    torch.testing.assert_close(kernel_agop(kernel, x, coefficients), expected, rtol=0, atol=1e-6 * size)


def test_agop_of_a_map_before_the_machine_is_the_chain_rule():
    """AGOP of f(Ax) in x is AᵀMA with M that of f at Ax; a metric AᵀA is the same machine."""
    x, coefficients, a = normal(15, 4), normal(15, 2, seed=1), normal(4, 4, seed=2)
    inner = kernel_agop(LaplaceKernel(2.0), x @ a.mT, coefficients)
    torch.testing.assert_close(kernel_agop(LaplaceKernel(2.0), x, coefficients, a.mT @ a), a.mT @ inner @ a)


def pairs(r):
    return torch.tensor([[1.0, 0.0, 0.0], [r, math.sqrt(1 - r * r), 0.0]], dtype=torch.float64)


@pytest.mark.parametrize("r", [-0.7, 0.0, 0.5, 0.99])
def test_proposition_a1_mean_and_variance_of_products_of_relu_features(r):
    angle, draws = math.acos(r), 400
    mean = (math.sin(angle) + r * (math.pi - angle)) / math.pi
    printed = (1 - r * r) ** 1.5 / math.pi + r * r * math.sqrt(1 - r * r) / math.pi
    printed += r / 2 + r / math.pi * math.atan(r / math.sqrt(1 - r * r))
    assert printed == pytest.approx(mean, abs=1e-15)
    assert mean > r  # so that unit vectors come closer, at every angle
    # The arc-cosine kernel of order 2: the mean of the products' squares.
    second = (3 * math.sin(angle) * r + (math.pi - angle) * (1 + 2 * r * r)) / (2 * math.pi)
    for width in (50, 800):
        features = ReLUFeatures(width)
        generator = torch.Generator().manual_seed(width)
        phi = torch.stack([features.apply(pairs(r), features.draw(3, generator)) for _ in range(draws)])
        products = (phi[:, 0] * phi[:, 1]).sum(1)
        variance = (4 * second - mean**2) / width
        assert abs(products.mean() - mean) < 5 * math.sqrt(variance / draws)
        # Of a variance of nearly normal draws, the relative standard error is about the root of 2 / draws.
        torch.testing.assert_close(products.var().item(), variance, rtol=5 * math.sqrt(3 / draws), atol=0)


def test_random_relu_features_bring_points_closer_and_close_ones_least():
    """docs/errata.md: distances do not increase."""
    for r, before, after in ((0.0, 2.0, 1.363), (0.5, 1.0, 0.782), (0.99, 0.02, 0.0194)):
        mean = (math.sqrt(1 - r * r) + r * (math.pi - math.acos(r))) / math.pi
        assert 2 - 2 * r == pytest.approx(before)
        assert 2 - 2 * mean == pytest.approx(after, rel=1e-3)
        features, x = ReLUFeatures(100_000), pairs(r)
        phi = features.apply(x, features.draw(3, torch.Generator().manual_seed(0)))
        assert (phi[0] - phi[1]).square().sum().item() == pytest.approx(after, rel=0.03)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("d", [1, 3, 40])
def test_fourier_features_have_the_laplace_kernel_for_their_mean(norm, d):
    x, width = normal(6, d) / d, 50_000
    features = FourierFeatures(width, 0.8, norm)
    phi = features.apply(x, features.draw(d, torch.Generator().manual_seed(d)))
    exact = (-torch.cdist(x, x, p=float(norm[1])) / 0.8).exp()
    errors = ((phi @ phi.mT - exact) / ((1 - exact**2 / 2) / width).sqrt())[*torch.triu_indices(6, 6)]
    assert errors.abs().max() < 5
    assert 0.5 < errors.square().mean().sqrt() < 1.6
    if norm == "l2":
        torch.testing.assert_close(exact, kernel_gram(LaplaceKernel(0.8), x, x))


def test_the_two_cauchy_laws_are_not_one():
    x = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    for norm, length in (("l1", 2.0), ("l2", math.sqrt(2))):
        features = FourierFeatures(100_000, 1.0, norm)
        phi = features.apply(x, features.draw(2, torch.Generator().manual_seed(0)))
        torch.testing.assert_close((phi[0] @ phi[1]).item(), math.exp(-length), rtol=0, atol=5 / math.sqrt(100_000))


@pytest.mark.parametrize("features", [ReLUFeatures(5), FourierFeatures(5, 1.0)])
def test_feature_maps_keep_the_dtype_and_repeat(features):
    assert isinstance(features, FeatureMap)
    drawn = features.draw(3, torch.Generator().manual_seed(1))
    again = features.draw(3, torch.Generator().manual_seed(1))
    torch.testing.assert_close(drawn, again, rtol=0, atol=0)
    assert features.apply(torch.ones(2, 3), drawn).dtype == torch.float32
    assert features.apply(torch.ones(2, 3), drawn).shape == (2, 5)


def test_the_laplace_slope_between_far_points_is_0_where_bandwidth_times_distance_is_held_as_0():
    """It was 0 / 0."""
    squares = torch.tensor([0.0, 1e-36, 1.0])
    torch.testing.assert_close(LaplaceKernel(1e-30).slope(squares), torch.zeros(3), rtol=0, atol=0)


@pytest.mark.bad_input
def test_bad_input_is_named():
    kernel, x, coefficients = LaplaceKernel(1.0), normal(4, 3), normal(4, 2)
    for wrong in (0.0, -1.0, math.inf):
        with pytest.raises(RangeError, match=rf"LaplaceKernel: expected bandwidth finite and above 0, got {wrong}"):
            LaplaceKernel(wrong)
        with pytest.raises(RangeError, match="GaussianKernel: expected bandwidth finite and above 0"):
            GaussianKernel(wrong)
    with pytest.raises(RangeError, match="ReLUFeatures: expected width a whole number of at least 1, got 0"):
        ReLUFeatures(0)
    with pytest.raises(RangeError, match="width a whole number of at least 1, got 0; norm 'l2' or 'l1', got 'l3'"):
        FourierFeatures(0, 1.0, "l3")
    with pytest.raises(RangeError, match="FourierFeatures: expected bandwidth finite"):
        FourierFeatures(1, 0.0)
    for bandwidth in ("2", None):
        with pytest.raises(
            RangeError, match=f"LaplaceKernel: expected bandwidth finite and above 0, got {bandwidth!r}"
        ):
            LaplaceKernel(bandwidth)
    with pytest.raises(RangeError, match="expected kernel an object with value and slope, such as LaplaceKernel"):
        kernel_agop(LaplaceKernel, x, coefficients)
    with pytest.raises(EmptyError, match=r"kernel_agop\(x\): expected at least one sample"):
        kernel_agop(kernel, x[:0], coefficients)
    with pytest.raises(ShapeError, match=r"kernel_agop\(coefficients\): expected 4 samples as in x, got 3"):
        kernel_agop(kernel, x, coefficients[:3])
    with pytest.raises(
        ShapeError, match=r"expected shape \(n, c\), got shape .* For one output, pass coefficients\[:, None\]"
    ):
        kernel_agop(kernel, x, coefficients[:, 0])
    with pytest.raises(ShapeError, match=r"kernel_agop\(x\): expected two axes, got shape \(4, 3, 1\)"):
        kernel_agop(kernel, x[..., None], coefficients)
    with pytest.raises(ShapeError, match=r"kernel_agop\(metric\): expected shape \(3, 3\), got \(2, 2\)"):
        kernel_agop(kernel, x, coefficients, torch.eye(2).double())
    with pytest.raises(RangeError, match=r"kernel_agop\(x\): expected finite numbers, got nan at index \(0, 0\)"):
        kernel_agop(kernel, x * math.nan, coefficients)
    with pytest.raises(RangeError, match=r"kernel_agop\(x\): expected a floating-point tensor, got torch.int64"):
        kernel_agop(kernel, x.long(), coefficients)
    with pytest.raises(RangeError, match=r"kernel_agop\(memory\): expected a positive number of bytes, got 0"):
        kernel_agop(kernel, x, coefficients, memory=0)
    for metric in (torch.tensor([[1.0, 5], [0, 1]]), torch.diag(torch.tensor([1.0, -1]))):
        with pytest.raises(
            RangeError, match=r"squared_distances\(metric\): expected a symmetric positive semi-definite"
        ):
            squared_distances(x[:, :2], x[:, :2], metric.double())


def test_a_point_near_the_centre_is_no_trouble():
    z = torch.tensor([[1.0], [-1.0]])
    torch.testing.assert_close(squared_distances(torch.tensor([[1e-17]]), z), torch.ones(1, 2))
    torch.testing.assert_close(squared_distances(z, torch.zeros(2, 1)), torch.ones(2, 2))


def test_fourier_features_of_half_precision():
    features = FourierFeatures(100_000, 2.0)
    drawn = features.draw(2, torch.Generator().manual_seed(0))
    x = torch.tensor([[0.0, 0.0], [0.5, 0.75]])
    phi = features.apply(x.half(), drawn)
    assert phi.dtype == torch.float16
    torch.testing.assert_close(phi.double(), features.apply(x, drawn).double(), rtol=1e-3, atol=1e-3)


def test_with_a_metric_the_slopes_of_a_close_pair_are_one_number():
    """The AGOP by samples needs a symmetric matrix of slopes: without it this one is off by 0.24 %."""
    generator = torch.Generator().manual_seed(521)
    n, d = (int(torch.randint(*ends, (), generator=generator)) for ends in ((20, 60), (2, 10)))
    torch.randint(1, 3, (), generator=generator)
    x, along = torch.randn(n, d, generator=generator).double(), torch.randn(d, 1, generator=generator).double()
    kernel, metric = LaplaceKernel(2.0), along @ along.mT
    targets = 2 * torch.nn.functional.one_hot(torch.arange(n) % 10, 10).double() - 1
    coefficients = torch.linalg.solve(kernel_gram(kernel, x, x, metric) + 1e-9 * torch.eye(n), targets)
    apart = (x @ along) - (x @ along).mT
    slopes = torch.where(apart != 0, kernel.slope(apart**2), 0)
    squares = torch.einsum("jc,ij->ic", coefficients, slopes * apart).square().sum()
    found = kernel_agop(kernel, x, coefficients, metric)
    torch.testing.assert_close(found, squares / n * metric, rtol=1e-6, atol=1e-6 * float(found.abs().max()))
    roots = over_pairs(torch.sqrt, x, metric, 7)
    torch.testing.assert_close(roots, roots.mT, rtol=0, atol=0)


@pytest.mark.bad_input
def test_a_metric_has_no_eigenvalue_below_rounding():
    x, half = normal(5, 40), normal(2, 40, seed=1).float()
    for size in (0.0, 1e-30, 1.0, 1e30):
        rounded = (half.mT @ half).double() * size
        assert size == 0 or torch.linalg.eigvalsh(rounded)[0] < -1e-9 * size, "by rounding"
        squares = squared_distances(x, x, rounded)
        torch.testing.assert_close(squares, size * squared_distances(x, x, (half.double().mT @ half.double())))
    near, halved = x.bfloat16(), (half.mT @ half).bfloat16()
    assert torch.linalg.eigvalsh(halved.double())[0] < -1e-4 * halved.double().trace()
    squares = squared_distances(near, near, halved)
    torch.testing.assert_close(squares, squared_distances(near.float(), near.float(), halved.float()).bfloat16())
    with pytest.raises(
        RangeError, match=r"metric\): expected a symmetric positive semi-definite matrix, got a negative"
    ):
        kernel_gram(LaplaceKernel(2.0), x[:, :2], x[:, :2], torch.tensor([[1.0, 3.0], [3.0, 1.0]]).double())
