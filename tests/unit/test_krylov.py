"""Golub-Kahan and Lanczos steps beside the plainest way to the same space: values, errors, and where they end."""

import math

import pytest
import torch
from scipy.optimize import brentq

from gnomon.linalg import generator_of, krylov, lanczos
from tests.drawn import normal, orthogonal
from tests.unit.test_estimates import of_matrix

LENGTH = 24


def seen(matrix, start, steps):
    """The eigenvalues in the space of so many products with a start, their residuals, and the excess of the first.

    The residual of the space itself is the polynomial with the eigenvalues as its zeros, times the start.
    """
    basis = last = (start / start.norm())[:, None]
    for _ in range(steps - 1):
        basis = torch.linalg.qr(torch.cat([basis, matrix @ basis[:, -1:]], 1)).Q
    values, vectors = torch.linalg.eigh(basis.mT @ matrix @ basis)
    values, vectors = values.flip(0), basis @ vectors.flip(1)
    for value in values:
        last = matrix @ last - value * last
    bound = float(last.norm()) / (0.05 * math.sqrt(math.pi / (2 * LENGTH)))
    below = (values[0] - values).tolist()
    excess = brentq(lambda x: math.prod(x + each for each in below) - bound, 0, 1e6, xtol=1e-14)
    return values, (matrix @ vectors - vectors * values).norm(dim=0), excess


def errors_of(values, residuals):
    """By the residual, or twice its square over the gap to the nearest other; of the last nothing lies below."""
    gaps = (values - values[:, None]).abs().fill_diagonal_(math.inf).amin(0)[:-1]
    closer = torch.minimum(residuals[:-1], 2 * residuals[:-1].square() / gaps)
    return torch.cat([closer, residuals[-1:]])


def with_places(values, errors, far, least):
    """Later ones may be others: up to the first where they are not known, and within the tolerance where they are."""
    later = torch.where(far, values[0] + errors[0] - values, least)
    return torch.cat([errors[:1], torch.maximum(errors, later)[1:]])


def first_unknown(values, errors, residuals, tolerance, size):
    """Which are not known yet, with residuals of the squares, or of the values where these may be negative."""
    far = (errors > tolerance / 10 * size) | (residuals > min(tolerance / 2, 0.025))
    far[0] = errors[0] > tolerance * size[0]
    return far


def steps_of_krylov(matrix, start, k, tolerance, most):
    """Values, errors and passes by the docstring's rules."""
    among = k + 2 if k > 1 else 1
    for steps in range(1, most // 2 + 1):
        squares, residuals, excess = seen(matrix @ matrix.mT, start, steps)
        values = squares.sqrt()
        errors = (squares + errors_of(squares, residuals)).sqrt() - values
        errors[0] = (squares[0] + excess).sqrt() - values[0]
        size = torch.maximum(values, 0.1 * values[0])
        far = first_unknown(values, errors, residuals / size.square(), tolerance, size)
        if steps >= max(among, 4) and not far[:among].any():
            break
    return values[:k], with_places(values, errors, far, tolerance * size)[:k], 2 * steps


SPECTRA = {
    "steep": (-torch.arange(LENGTH) / 2).exp(),
    "steeper": (-1.5 * torch.arange(LENGTH)).exp(),
    "flat": torch.linspace(1, 0.1, LENGTH),
    "apart": torch.cat([torch.tensor([9.0, 8.0, 7.0, 3.0]), torch.linspace(1, 0, LENGTH - 4)]),
    "below": torch.cat([torch.tensor([0.3]), torch.linspace(-1, -5, LENGTH - 1)]),
    "steepest": (-4.0 * torch.arange(LENGTH)).exp(),
    "signs": torch.cat([torch.tensor([3.0, 2.0, -2.0]), torch.linspace(-3, -5, LENGTH - 3)]),
}


@pytest.mark.parametrize(
    ("name", "k", "tolerance", "most"),
    [
        ("steep", 1, 1.0, 40),
        ("flat", 1, 0.1, 40),
        ("apart", 3, 0.3, 40),
        ("steep", 3, 0.02, 40),
        ("steeper", 3, 0.02, 40),
        ("apart", 2, 0.02, 12),
    ],
)
def test_singular_values_are_those_of_the_space_with_their_errors(name, k, tolerance, most):
    """Of two samples, each of which ends for itself; no two steps are alike."""
    matrix = orthogonal(LENGTH) @ SPECTRA[name].double().diag()
    of = of_matrix(matrix, 2)
    found = krylov(of, k, tolerance, most)
    for i, start in enumerate(of.normal(0, 1)[:, 0]):
        values, errors, passes = steps_of_krylov(matrix, start, k, tolerance, most)
        torch.testing.assert_close(found.values[i], values)
        torch.testing.assert_close(found.errors[i], errors, rtol=1e-5, atol=1e-9)
        assert int(found.passes[i]) == passes
        basis = found.basis[i][: passes // 2]
        torch.testing.assert_close(basis @ basis.mT, torch.eye(passes // 2).double())
        assert not found.basis[i][passes // 2 :].any()
        inside = (basis @ matrix).square().sum()
        torch.testing.assert_close(found.captured[i] * found.scale[i] ** 2, inside)
        torch.testing.assert_close(torch.linalg.svdvals(basis @ matrix)[:k], values)


@pytest.mark.parametrize(
    ("name", "k", "tolerance", "most"),
    [
        ("steep", 1, 1.0, 20),
        ("signs", 1, 0.1, 20),
        ("below", 1, 0.1, 20),
        ("steepest", 3, 1.0, 20),
        ("apart", 3, 0.3, 20),
        ("steeper", 3, 0.02, 20),
        ("signs", 3, 0.02, 22),
        ("signs", 2, 0.02, 6),
    ],
)
def test_eigenvalues_are_those_of_the_space_with_their_errors(name, k, tolerance, most):
    """Of both signs too, where sizes are measured by the largest absolute value of those that are asked for."""
    q = orthogonal(LENGTH)
    matrix = q @ SPECTRA[name].double().diag() @ q.mT
    found = lanczos(matrix.matmul, matrix[0], k, tolerance, most, 5)
    start = torch.randn(LENGTH, generator=generator_of(5)).double()
    for steps in range(1, most + 1):
        values, residuals, excess = seen(matrix, start, steps)
        errors = errors_of(values, residuals)
        errors[0] = excess
        size = torch.maximum(values.abs(), 0.1 * values[:k].abs().max())
        far = first_unknown(values, errors, residuals / size, tolerance, size)
        among = k + 2 if k > 1 else 1
        if steps >= max(among, 4) and not far[:among].any():
            break
    assert found.passes == steps
    torch.testing.assert_close(found.values, values[:k])
    expected = with_places(values, errors, far, tolerance * size)[:k]
    torch.testing.assert_close(found.errors, expected, rtol=1e-5, atol=1e-9)
    basis = torch.cat(found.basis)
    torch.testing.assert_close(basis @ basis.mT, torch.eye(steps).double())
    torch.testing.assert_close(found.trace, (basis @ matrix @ basis.mT).trace())


@pytest.mark.parametrize(("c", "d", "steps"), [(8, 5, 6), (5, 8, 5), (6, 6, 6)])
def test_the_whole_space_leaves_no_error(c, d, steps):
    """Of a matrix with more rows than columns it has a vector more than columns."""
    matrix = normal(c, d)
    of = of_matrix(matrix, 2)
    values = torch.linalg.svdvals(matrix)
    whole = krylov(of, 4, 1e-9, 2 * steps)
    assert whole.passes.tolist() == [2 * steps] * 2
    torch.testing.assert_close(whole.values, values[:4].expand(2, -1))
    assert (whole.errors <= 1e-12).all()
    assert krylov(of, 4, 1e-9, 99).passes.tolist() == [2 * steps] * 2
    some = krylov(of, 4, 0.3, 2 * steps - 2)
    assert (some.errors[:, 1:] >= 0.3 * some.values[:, 1:]).all()


def test_a_space_that_ends_is_left_for_another():
    """Where values are equal; a matrix of zeros has no other space."""
    values = torch.tensor([2.0, 2.0, 2.0, 1.0, 1.0, 0.0]).double()
    for each, k in ((values, 4), (values[:3], 3), (0 * values, 6)):
        p = len(each)
        found = lanczos(each.mul, each, k, 1e-9, 99, 0)
        torch.testing.assert_close(found.values, each[:k])
        assert (found.errors <= 1e-9).all()
        basis = torch.cat(found.basis)
        torch.testing.assert_close(basis @ basis.mT, torch.eye(found.passes).double())
        torch.testing.assert_close(found.trace, each.sum())
        assert found.passes == p
        of = krylov(of_matrix(each.diag(), 2), k, 1e-9, 99)
        torch.testing.assert_close(of.values, each[:k].expand(2, -1))
        assert (of.errors <= 1e-9).all()


def test_of_fewer_steps_than_values_nothing_is_known_of_the_others():
    matrix = orthogonal(6) @ torch.arange(6.0).double().diag()
    for found in (lanczos(matrix.matmul, matrix[0], 3, 0.1, 2, 0), krylov(of_matrix(matrix, 1), 3, 0.1, 5)):
        assert found.values[..., 2] == 0
        assert (found.errors.isinf() == torch.tensor([False, False, True])).all()


def test_the_basis_stays_orthonormal_where_one_value_is_far_above_the_others():
    values = torch.cat([torch.ones(1), 1e-10 * torch.linspace(1, 0.5, LENGTH - 1)]).double()
    found = krylov(of_matrix((orthogonal(LENGTH) * values) @ orthogonal(LENGTH, seed=1), 1), 4, 1e-3, 40)
    basis = found.basis[0]
    torch.testing.assert_close(basis @ basis.mT, torch.eye(len(basis)).double(), rtol=0, atol=1e-12)
