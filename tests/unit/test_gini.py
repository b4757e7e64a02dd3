"""The Gini coefficient and the Fourier norms: closed forms, pure waves, Parseval."""

import math

import pytest
import torch

from gnomon.errors import EmptyError, RangeError, ShapeError
from gnomon.linalg import fourier_norms, gini
from tests.drawn import normal


def basis(p):
    """The basis as written in the docstring, in loops."""
    rows = [[1 / math.sqrt(p)] * p]
    for k in range(1, p // 2 + 1):
        angles = [2 * math.pi * k * t / p for t in range(p)]
        if 2 * k == p:
            rows.append([(-1) ** t / math.sqrt(p) for t in range(p)])
        else:
            rows.append([math.sqrt(2 / p) * math.cos(angle) for angle in angles])
            rows.append([math.sqrt(2 / p) * math.sin(angle) for angle in angles])
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("p", [1, 2, 7, 113])
def test_gini_is_the_mean_difference(p):
    values = normal(3, 4, p).square()
    by_pairs = (values.unsqueeze(-1) - values.unsqueeze(-2)).abs().sum((-1, -2)) / (2 * p * values.sum(-1))
    torch.testing.assert_close(gini(values), by_pairs)
    torch.testing.assert_close(gini(values[0, 0]), by_pairs[0, 0])
    torch.testing.assert_close(gini(1e-200 * values), by_pairs)
    torch.testing.assert_close(gini(values.flip(-1)), by_pairs)
    assert (by_pairs <= 1 - 1 / p + 1e-12).all()


@pytest.mark.parametrize("p", [1, 2, 10, 113])
def test_gini_closed_forms(p):
    one = torch.zeros(p, dtype=torch.float64)
    one[p // 2] = 7
    assert gini(one).item() == pytest.approx(1 - 1 / p)
    assert gini(torch.full((p,), 3.0)).item() == pytest.approx(0, abs=1e-6)
    assert gini(torch.zeros(p)).item() == 0
    assert gini(torch.arange(1.0, p + 1).double()).item() == pytest.approx((p - 1) / (3 * p))
    k = (p + 1) // 2
    assert gini((torch.arange(p) < k).double()).item() == pytest.approx(1 - k / p)


def test_gini_of_the_exponential_distribution_is_a_half():
    """Its deviation here is about 0.3 / sqrt(n)."""
    draws = torch.empty(10**6, dtype=torch.float64).exponential_(generator=torch.Generator().manual_seed(0))
    assert gini(draws).item() == pytest.approx(0.5, abs=5 * 0.3e-3)


@pytest.mark.parametrize("p", [1, 2, 3, 4, 7, 12, 113])
def test_fourier_norms_are_those_of_the_written_basis(p):
    waves = basis(p)
    torch.testing.assert_close(waves @ waves.T, torch.eye(p, dtype=torch.float64))
    matrix = normal(p, 6)
    norms = fourier_norms(matrix)
    torch.testing.assert_close(norms, (waves @ matrix).norm(dim=1))
    torch.testing.assert_close(norms.square().sum(), matrix.square().sum())
    torch.testing.assert_close(fourier_norms(matrix.view(p, 2, 3)), norms)
    torch.testing.assert_close(fourier_norms(matrix.float()), norms.float(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("p", [12, 113])
def test_each_wave_has_one_norm(p):
    norms = torch.stack([fourier_norms(wave[:, None]) for wave in basis(p)])
    torch.testing.assert_close(norms, torch.eye(p, dtype=torch.float64))
    torch.testing.assert_close(gini(norms), torch.full((p,), 1 - 1 / p).double())
    t, k = torch.arange(p, dtype=torch.float64), 5
    mixed = torch.stack([3 * torch.cos(2 * math.pi * k * t / p), 4 * torch.sin(2 * math.pi * k * t / p)], 1)
    expected = torch.zeros(p, dtype=torch.float64)
    expected[2 * k - 1], expected[2 * k] = 3 * math.sqrt(p / 2), 4 * math.sqrt(p / 2)
    torch.testing.assert_close(fourier_norms(mixed), expected, rtol=1e-9, atol=1e-9)


def test_a_shift_turns_cosine_into_sine_and_keeps_the_frequency():
    matrix = normal(11, 4)
    norms, shifted = fourier_norms(matrix), fourier_norms(matrix.roll(3, 0))
    assert not torch.allclose(norms, shifted)
    torch.testing.assert_close(norms[1::2].hypot(norms[2::2]), shifted[1::2].hypot(shifted[2::2]))


def test_numbers_whose_sum_is_beyond_the_range():
    torch.testing.assert_close(gini(torch.tensor([1e38, 3e38, 2e38])), torch.tensor(2 / 9))
    for p in (64, 63):
        matrix = torch.full((p, 1), 1e37, requires_grad=True)
        norms = fourier_norms(matrix)
        expected = torch.tensor([1e37 * p**0.5, *[0.0] * (p - 1)])
        torch.testing.assert_close(norms, expected, rtol=1e-6, atol=1e31)
        (gradient,) = torch.autograd.grad(norms[0], matrix)
        torch.testing.assert_close(gradient, torch.full((p, 1), p**-0.5))


def test_gradients():
    assert torch.autograd.gradcheck(gini, normal(2, 5).square().requires_grad_())
    for p in (6, 7):
        assert torch.autograd.gradcheck(fourier_norms, normal(p, 3).requires_grad_())
    for function in (gini, fourier_norms):
        zero = torch.zeros(6, 3, dtype=torch.float64, requires_grad=True)
        (gradient,) = torch.autograd.grad(function(zero).sum(), zero)
        assert gradient.isfinite().all()


@pytest.mark.bad_input
def test_bad_input_is_named():
    with pytest.raises(RangeError, match=r"gini\(values\): expected numbers of at least 0, got -2.0 at index \(1,\)"):
        gini(torch.tensor([0.0, -2.0]))
    with pytest.raises(EmptyError, match=r"gini\(values\): expected at least one number"):
        gini(torch.zeros(3, 0))
    with pytest.raises(RangeError, match=r"gini\(values\): expected finite numbers, got inf"):
        gini(torch.tensor([1.0, torch.inf]))
    with pytest.raises(ShapeError, match=r"fourier_norms\(matrix\): expected at least two axes"):
        fourier_norms(torch.zeros(5))
    with pytest.raises(EmptyError, match=r"fourier_norms\(matrix\): expected entries"):
        fourier_norms(torch.zeros(5, 0))
    with pytest.raises(RangeError, match=r"fourier_norms\(matrix\): expected a floating-point tensor, got torch.int64"):
        fourier_norms(torch.zeros(5, 2, dtype=torch.long))
