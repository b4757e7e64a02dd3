"""Pseudo-inverses of positive semidefinite matrices, and what of their rank rounding explains."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gnomon._precision import full_precision
from gnomon.errors import RangeError
from gnomon.linalg._spectra import decomposed, gram_eigenvalues, gram_eigenvectors

Solver = Callable[[Float[Tensor, "m p"]], tuple[Float[Tensor, "m p"], Float[Tensor, "m p"]]]
"""Maps rows to their products with a pseudo-inverse, and to what it leaves out."""


def scales(variances: Float[Tensor, "p"], least: Float[Tensor, "p"]) -> tuple[Float[Tensor, "p"], Float[Tensor, "p"]]:
    """The features' spreads and their inverses; both are 0 where a spread is at most `least`, which rounding explains.

    Divided by its spread no feature, however wide, makes the others look like rounding.
    """
    spreads = variances.detach().sqrt()
    spreads = torch.where(spreads > least, spreads, 0)
    return spreads, torch.where(spreads > 0, 1 / spreads, 0)


def rank_of(covariance: Float[Tensor, "p p"], eps: float, least: Float[Tensor, "p"]) -> int:
    """The rank of a covariance whose entries are off by eps in units of two spreads; `least` as for `scales`."""
    _, inverse = scales(covariance.diagonal(), least)
    values = gram_eigenvalues(covariance.detach() * inverse * inverse.unsqueeze(1))
    return int(above_rounding(values, eps).sum())


def kept(matrix: Float[Tensor, "q q"], eps: float) -> tuple[Float[Tensor, "r"], Float[Tensor, "q r"]]:
    """The eigenvalues above rounding, ascending, and their vectors."""
    values, vectors = gram_eigenvectors(matrix)
    above = above_rounding(values, eps)
    return values[above], vectors[:, above]


def above_rounding(values: Float[Tensor, "q"], eps: float) -> Bool[Tensor, "q"]:
    """Which of ascending eigenvalues rounding does not explain: those above q epsilons of the largest."""
    least = len(values) * eps * values[-1:]
    if (values[:1] < -least).any():
        raise indefinite(f"{float(values[0]):.2g} of features with spread 1")
    return values > least


def indefinite(got: str) -> RangeError:
    """The error for moments that are none of any features."""
    expected, advice = "a covariance within classes whose eigenvalues are not negative", "Take the moments of features"
    return RangeError("class_moments", expected, got, f"{advice}, and do not round them to half precision.")


def solver_of(rows: Float[Tensor, "r p"]) -> Solver:
    r"""The solver of $F^\top F$ for rows that are linearly independent."""
    basis, triangle = torch.linalg.qr(rows.mT)

    @full_precision
    def solve(wanted: Float[Tensor, "m p"]) -> tuple[Float[Tensor, "m p"], Float[Tensor, "m p"]]:
        inside = wanted @ basis
        # Twice, because the first difference still contains rounding errors within the range.
        beyond = wanted - inside @ basis.mT
        beyond = beyond - beyond @ basis @ basis.mT
        half = torch.linalg.solve_triangular(triangle.mT, inside, upper=False, left=False)
        along = torch.linalg.solve_triangular(triangle, half, upper=True, left=False) @ basis.mT
        return along, beyond if len(rows) < rows.shape[1] else torch.zeros_like(beyond)

    return solve


def pseudo_inverse(matrix: Float[Tensor, "p p"], eps: float) -> Float[Tensor, "p p"]:
    """The pseudo-inverse, ignoring what rounding fills: eigenvalues below p epsilons of the largest."""
    rtol = len(matrix) * eps
    return decomposed(lambda held: (torch.linalg.pinv(held, rtol=rtol, hermitian=True),), matrix)[0]
