"""Spectra of batches of matrices."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

BLOCK = 2**18
"""Entries that are processed at once: they stay in the CPU's cache, and no copy of all is made."""


def top_share(matrix: Float[Tensor, "n r s"]) -> Float[Tensor, "n"]:
    r"""The share $\sigma_1^2/\sum_i\sigma_i^2$ of the largest singular value, in [1/min(r, s), 1]; 0 for a zero matrix.

    From the eigenvalues of the smaller Gram matrix: its largest eigenvalue is as exact as the singular value, and its
    gradient has no division by gaps between singular values.
    """
    grams, _ = scaled_gram(matrix)
    total = grams.diagonal(dim1=1, dim2=2).sum(1)
    return gram_eigenvalues(grams)[:, -1] / torch.where(total > 0, total, 1)


def gram_eigenvalues(grams: Float[Tensor, "*n q q"]) -> Float[Tensor, "*n q"]:
    """The eigenvalues of Gram matrices, ascending; as `decomposed` takes them."""
    return decomposed(lambda matrices: (torch.linalg.eigvalsh(matrices),), grams)[0]


def gram_eigenvectors(grams: Float[Tensor, "*n q q"]) -> tuple[Float[Tensor, "*n q"], Float[Tensor, "*n q q"]]:
    """The same eigenvalues, and the eigenvectors, one per column."""
    values, vectors = decomposed(torch.linalg.eigh, grams)
    return values, vectors


def decomposed(decompose: Callable[[Tensor], tuple[Tensor, ...]], grams: Float[Tensor, "*n q q"]) -> tuple[Tensor, ...]:
    """What LAPACK makes of Gram matrices, where it would fail too; the gradient is as it is.

    Entries off the diagonal that are far below the rounding of the largest count as zero. Saturated outputs have them.
    LAPACK squares such numbers, which underflow: its iterations then may not converge, or end in NaN or in wrong values
    without a word.
    In float32 MKL also returns NaN for one in 200 sparse matrices of rank 1 with some 40 rows, as collapse makes them,
    but for none in float64, which is used after a failure.
    """
    entries = grams.detach()
    least = torch.finfo(grams.dtype).eps ** 2 * entries.diagonal(dim1=-2, dim2=-1).amax(-1)
    apart = entries - torch.diag_embed(entries.diagonal(dim1=-2, dim2=-1))
    grams = grams - torch.where(entries.abs() < least[..., None, None], apart, 0)
    try:
        found = decompose(grams)
        if found[0].isfinite().all():
            return found
    except LinAlgError:
        if grams.dtype == torch.float64:
            raise
    return tuple(part.to(grams) for part in decompose(grams.to("cpu", torch.float64)))


def scaled_gram(matrix: Float[Tensor, "n r s"]) -> tuple[Float[Tensor, "n q q"], Float[Tensor, "n"]]:
    """The smaller Gram matrix of each matrix divided by its largest entry, and that entry."""
    wide = matrix.shape[1] <= matrix.shape[2]

    def gram(part: Tensor) -> tuple[Tensor, Tensor]:
        part, largest = over_largest(part)
        return part @ part.mT if wide else part.mT @ part, largest

    parts = [gram(part) for part in torch.split(matrix, max(1, BLOCK // matrix[0].numel()))]
    return torch.cat([products for products, _ in parts]), torch.cat([largest for _, largest in parts])


def over_largest(matrix: Float[Tensor, "n r s"]) -> tuple[Float[Tensor, "n r s"], Float[Tensor, "n"]]:
    """Each matrix divided by its largest entry, so that squares neither overflow nor underflow, and that entry."""
    largest = matrix.detach().abs().amax((1, 2))
    return matrix / torch.where(largest > 0, largest, 1).view(-1, 1, 1), largest
