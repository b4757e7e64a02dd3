"""How far the AGOP's estimate may lie off: moments against those of the covariance itself, widths against quantiles."""

import itertools

import pytest
import torch
from scipy.optimize import brentq
from scipy.stats import chi2

from gnomon.measure._outer_products import variances
from gnomon.measure._spread import MANY, SKEWED, Spread, spread


def covariances(n, p):
    """Of samples, positive definite and unlike each other."""
    roots = torch.randn(n, p, p, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    roots[:, :, 0] *= 2
    return roots, roots @ roots.mT


def exact(sigma):
    """The covariance of the sum of one outer product a sample, written out, and what a `Spread` says of it."""
    p = sigma.shape[1]
    swap = torch.eye(p * p, dtype=sigma.dtype).view(p, p, p, p).transpose(0, 1).reshape(p * p, p * p)
    s = sum((torch.eye(p * p) + swap) @ torch.kron(each, each) for each in sigma)
    g = sigma.mean(0).flatten()
    return Spread(float(s.trace() ** 2 / (s @ s).trace()), float(g @ s @ g / (g @ g) / s.trace())), float(s.trace())


@pytest.mark.parametrize(("n", "m"), [(1, 240), (4, 60)])
def test_moments_are_those_of_the_covariance(n, m):
    roots, sigma = covariances(n, 3)
    draws = torch.randn(12, n, m, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) @ roots.mT
    found, (truth, trace) = [spread(rows) for rows in draws], exact(sigma)
    assert sum(each.directions for each in found) / 12 == pytest.approx(truth.directions, rel=0.1)
    assert sum(each.along for each in found) / 12 == pytest.approx(truth.along, rel=0.1)
    assert float(variances(draws[:, :, ::2], draws[:, :, 1::2]).mean((0, 2)).sum()) == pytest.approx(trace, rel=0.1)


def written_out(rows):
    """The two numbers before their limits: means over different draws, two of either half for the trace of S²."""
    m = rows.shape[1]
    half, whole = m // 2, torch.einsum("nma,nmb->ab", rows, rows)
    trace = along = second = 0.0
    for own in rows:
        for a, b in itertools.permutations(own, 2):
            trace += float(a @ a * (b @ b) + (a @ b) ** 2) / (m * (m - 1))
            along += 2 * float(a @ whole @ b) ** 2 / float(whole.square().sum()) / (m * (m - 1))
    for some, others in itertools.product(rows[:, :half], rows[:, half : 2 * half]):
        for (a, c), (b, d) in itertools.product(itertools.permutations(some, 2), itertools.permutations(others, 2)):
            second += 2 * float((a @ b * (c @ d)) ** 2 + a @ b * (c @ b) * (c @ d) * (a @ d))
    return trace**2 / second * (half * (half - 1)) ** 2, along / trace


@pytest.mark.parametrize(("p", "seed"), [(4, 4), (4, 0), (4, 2), (1, 16), (1000, 0)])
def test_moments_are_means_over_different_draws(p, seed):
    """From one direction to many, and with no more errors along the estimate than those of all directions allow."""
    rows = torch.randn(2, 5, p, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    directions, along = written_out(rows)
    found = spread(rows)
    assert found.directions == pytest.approx(min(max(1.0, directions), MANY))
    assert found.along == pytest.approx(min(along, found.directions**-0.5))


def test_the_size_of_the_rows_and_their_order_change_nothing():
    roots, _ = covariances(3, 4)
    rows = torch.randn(3, 16, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64) @ roots.mT
    found = spread(rows)
    for other in (1e60 * rows, 1e-60 * rows, rows.flip(0)):
        assert spread(other).directions == pytest.approx(found.directions)
        assert spread(other).along == pytest.approx(found.along)


def test_one_direction_has_all():
    """Of rows of one number, and of rows of none."""
    found = spread(torch.randn(2, 64, 1, generator=torch.Generator().manual_seed(0)))
    assert (found.directions, found.along) == pytest.approx((1, 1), abs=0.1)
    assert spread(torch.zeros(2, 8, 5)) == Spread(1.0, 1.0)


def test_the_width_is_a_quantile():
    """Of chi squared for one direction, of equal directions, and of one beside many; of none it is the mean."""
    huge = 1e12
    assert Spread(1.0, 1.0).width(2.0, huge) ** 2 == pytest.approx(2 * chi2.ppf(0.95, 1))
    assert Spread(7.0, 0.0).width(2.0, huge) ** 2 == pytest.approx(2 * chi2.ppf(0.95, 7) / 7)
    assert Spread(4.0, 0.5).width(1.0, huge) ** 2 == pytest.approx(0.5 + 0.5 * chi2.ppf(0.95, 1))
    # Three moments make it one of chi squared: of these shares, of one direction at least.
    shares = torch.tensor([0.3] + 7 * [0.1]).double()
    second, third = float(shares.square().sum()), float(shares.pow(3).sum())
    degrees = second**3 / third**2
    quantile = 1 + (second / degrees) ** 0.5 * (chi2.ppf(0.95, degrees) - degrees)
    assert Spread(1 / second, 0.3).width(2.0, huge) ** 2 == pytest.approx(2 * quantile)
    assert Spread(1.0, 0.5).width(2.0, huge) ** 2 == pytest.approx(2 * chi2.ppf(0.95, 1))
    assert Spread(MANY, 0.0).width(2.0, 1.0) ** 2 == pytest.approx(2, rel=0.01)
    assert Spread().width(0.0, 0.0) == 0


@pytest.mark.parametrize("count", [256, 4096])
def test_an_estimate_of_a_size_that_finds_its_own_error(count):
    """What half the interval around a mean of squares has to be, by the distribution of such a mean."""

    def held(half):
        return chi2.cdf(count / (1 - half), count) - chi2.cdf(count / (1 + half), count)

    half = brentq(lambda half: held(half) - 0.95, 1e-4, 0.9)
    assert Spread(1.0, 1.0).width(2 / count, 1.0) == pytest.approx(half, rel=0.5 / count)
    beyond = (half**2 - chi2.ppf(0.95, 1) * 2 / count) / (2 / count) ** 2
    assert beyond == pytest.approx(SKEWED, rel=30 / count)
