"""Decompositions of Gram matrices, where LAPACK fails too."""

import pytest
import torch

import gnomon
from gnomon.linalg import gram_eigenvalues, gram_eigenvectors, pseudo_inverse
from gnomon.linalg._spectra import decomposed


def saturated(n):
    """Jacobians of outputs some of which saturate: for one in forty, LAPACK (MKL's) failed or returned other values."""
    scales = torch.tensor([1, 1e-33, 1, 1e-35, 1e-22, 1e-7, 1e-22])
    return torch.randn(n, 7, 8, generator=torch.Generator().manual_seed(0)) * scales[:, None]


def collapsed(n):
    """Gram matrices of one sparse row: for one in 200, MKL returns NaN or does not converge."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(n, 1, 37, generator=generator) * (torch.rand(n, 1, 37, generator=generator) < 0.5)
    return rows.mT @ rows


def test_saturated_outputs_have_a_spectrum():
    jacobian = saturated(1000)
    exact = gnomon.explained_variance_ratio(jacobian.double())
    torch.testing.assert_close(gnomon.explained_variance_ratio(jacobian).double(), exact, rtol=1e-5, atol=0)
    torch.testing.assert_close(gnomon.stable_rank(jacobian).double(), 1 / exact, rtol=1e-5, atol=0)


def test_collapsed_outputs_have_a_spectrum():
    grams = collapsed(1000)
    sizes = grams.diagonal(0, 1, 2).sum(1)
    torch.testing.assert_close(gram_eigenvalues(grams)[:, -1], sizes, rtol=1e-5, atol=0)
    values, vectors = gram_eigenvectors(grams)
    torch.testing.assert_close((vectors * values[:, None]) @ vectors.mT, grams, rtol=0, atol=2e-6 * float(sizes.max()))
    for gram, size in zip(grams[360:370], sizes[360:370], strict=True):  # MKL cannot decompose that of index 367
        root = gnomon.psd_root(gram)
        torch.testing.assert_close(root @ root, gram, rtol=0, atol=1e-5 * float(size))


@pytest.mark.parametrize("failure", ["no convergence", "NaN"])
def test_what_fails_in_float32_is_computed_in_float64(failure):
    def decompose(matrices):
        if matrices.dtype == torch.float64:
            return torch.linalg.eigh(matrices)
        if failure == "NaN":
            return matrices.diagonal() * torch.nan, matrices
        raise torch.linalg.LinAlgError("linalg.eigh: The algorithm failed to converge")

    gram = torch.diag(torch.tensor([1.0, 4.0, 9.0])).requires_grad_()
    values, vectors = decomposed(decompose, gram)
    torch.testing.assert_close(values, torch.tensor([1.0, 4.0, 9.0]))
    torch.testing.assert_close(vectors.abs(), torch.eye(3))
    (got,) = torch.autograd.grad(values[-1], gram)
    torch.testing.assert_close(got, torch.diag(torch.tensor([0.0, 0.0, 1.0])))


def test_what_fails_in_float64_is_raised():
    def decompose(_):
        raise torch.linalg.LinAlgError("linalg.eigh: The algorithm failed to converge")

    with pytest.raises(torch.linalg.LinAlgError, match="failed to converge"):
        decomposed(decompose, torch.eye(3, dtype=torch.float64))


def test_numbers_whose_squares_underflow_are_left_out():
    """What LAPACK makes of these depends on how it was built; all other numbers stay as they are."""
    rows, taken = saturated(5), []
    grams = rows @ rows.mT
    decomposed(lambda matrices: taken.append(matrices) or (matrices.diagonal(0, 1, 2),), grams)
    kept = taken[0] != 0
    assert torch.equal(taken[0], torch.where(kept, grams, 0))
    assert grams[~kept].abs().max() < 1e-12
    assert (taken[0][kept & ~torch.eye(7, dtype=torch.bool)].square() > 0).all()


def test_diagonals_are_exact():
    diagonal = torch.tensor([1e-15, 1.0, 1e-16, 2e-15])
    found = gnomon.top_eigenvectors(diagonal.diag(), 4)
    torch.testing.assert_close(found.values, torch.tensor([1.0, 2e-15, 1e-15, 1e-16]), rtol=1e-6, atol=0)
    assert torch.equal(found.vectors, torch.eye(4)[[1, 3, 0, 2]])
    torch.testing.assert_close(gnomon.psd_root(diagonal.diag()), diagonal.sqrt().diag(), rtol=1e-6, atol=0)


def test_zeros_of_a_gram_matrix_have_a_gradient():
    """Of the first eigenvector's products, though the entries between the rows that it mixes are zero."""
    gram = torch.tensor([[[2.0, 0, 1], [0, 2, 1], [1, 1, 2]]], dtype=torch.float64, requires_grad=True)
    (got,) = torch.autograd.grad(gram_eigenvalues(gram)[0, -1], gram)
    first = torch.tensor([0.5, 0.5, 0.5**0.5], dtype=torch.float64)
    torch.testing.assert_close(got[0], torch.outer(first, first))


def test_rows_of_any_scale_have_a_root_and_a_pseudo_inverse():
    """The square of a root is what is rooted, and a pseudo-inverse is its own inverse, from 1e-17 to 1e17."""
    rows = torch.randn(3, 37, generator=torch.Generator().manual_seed(0))
    for scale in (1e-17, 1.0, 1e17):
        gram = (scale * rows).mT @ (scale * rows)
        root = gnomon.psd_root(gram)
        torch.testing.assert_close((root / scale) @ (root / scale), gram / scale / scale, rtol=0, atol=1e-4)
        inverse = pseudo_inverse(gram, torch.finfo().eps)
        torch.testing.assert_close((gram @ inverse) @ (gram / scale / scale), gram / scale / scale, rtol=0, atol=1e-3)
