"""The two matrices that the neural feature ansatz compares, and how they are compared."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon._precision import in_single
from gnomon.linalg import Covariance, Dense, Factored, cosine, psd_root, scaled
from gnomon.measure._by_class import roundings


def weight_gram(weight: Float[Tensor, "q *p"]) -> Float[Tensor, "p p"]:
    r"""$W^\top W$, also called the neural feature matrix."""
    rows = weight.flatten(1)
    return rows.mT @ rows


def correlation(
    a: Float[Tensor, "p p"], b: Float[Tensor, "p p"], *, centred: bool, terms: int | None = None
) -> Float[Tensor, ""]:
    """The cosine between all entries of two matrices, minus their means if centred.

    Their rounding is that of sums of p terms, or of so many.
    """
    if centred:
        a, b = (_centred(matrix, terms or len(matrix)) for matrix in (a, b))
    return cosine(a.flatten(), b.flatten())


def _centred(matrix: Float[Tensor, "p p"], terms: int) -> Float[Tensor, "p p"]:
    """The entries minus their mean; 0 where only rounding tells them apart, which the cosine would take for all."""
    matrix = scaled(matrix)
    centred = matrix - matrix.mean()
    rounding = roundings(terms) * torch.finfo(matrix.dtype).eps * torch.linalg.matrix_norm(matrix.detach())
    return torch.where(torch.linalg.matrix_norm(centred.detach()) <= rounding, 0, centred)  # NaN stays


def root_of(covariance: Covariance) -> Covariance:
    r"""$G^{1/2}$, stored in the same form as G."""
    if isinstance(covariance, Dense):
        return Dense(psd_root(covariance.matrix))
    rows = in_single(covariance.rows)
    _, values, directions = torch.linalg.svd(rows, full_matrices=False)
    return Factored(values.sqrt().unsqueeze(1) * directions)
