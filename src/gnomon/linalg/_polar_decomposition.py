"""A matrix as a rotation followed by a positive semi-definite map."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.errors import RangeError, ShapeError


@dataclass(frozen=True)
class PolarDecomposition:
    r"""The two factors of $W = |W|R$.

    Attributes:
        modulus: $|W| = (WW^\top)^{1/2}$, symmetric and positive definite; unit: that of W.
        rotation: R, with orthonormal rows: $RR^\top = 1$, and orthogonal if square, of either determinant.
    """

    modulus: Float[Tensor, "h h"]
    rotation: Float[Tensor, "h q"]


@half_as_single
def polar_decomposition(matrix: Float[Tensor, "h q"]) -> PolarDecomposition:
    r"""The polar decomposition with the orthogonal factor on the right.

    Reading:
        Low, high: For the distance of a layer's rotation from the initial one: 0 where it only stretches.
        Generalising: Tells nothing: in the plane 2.03 where two clusters are apart (100 % of unseen points), 1.22 where
            they overlap (70 %).
        Misleads: Where the weight passes through a singular one: the rotation is then on the other side, 2 away, while
            the network hardly differs (truncation-practice).

    $W = |W|R$ with $|W| = USU^\top$, $R = UV^\top$ for $W = USV^\top$

    R is the matrix with orthonormal rows that is nearest to W in the Frobenius norm.

    Source:
        Chen, arXiv:2501.07400, eq. (2.28).
    Args:
        matrix: W, with no more rows than columns, of full row rank.
    Returns:
        Both factors. R is invariant under positive scaling of W; for orthogonal A and B, AWB has the factors
        $A|W|A^\top$ and ARB.
    Raises:
        ShapeError: if it is not a matrix, or has more rows than columns.
        EmptyError: if it has no entries.
        RangeError: at NaN or infinity, or if the matrix lacks full row rank up to rounding: R would not be unique.
    Cost: O(h² q). Precision: R is orthogonal up to rounding. Gradients are those of the singular value decomposition,
        which are NaN where two singular values are equal.
    Example:
        >>> import torch, gnomon
        >>> polar = gnomon.polar_decomposition(torch.tensor([[0.0, 3.0], [-2.0, 0.0]]))
        >>> polar.modulus.round(decimals=4).abs(), polar.rotation.round(decimals=4) + 0.0
        (tensor([[3., 0.],
                [0., 2.]]), tensor([[ 0.,  1.],
                [-1.,  0.]]))
    """
    if matrix.ndim != 2 or matrix.shape[0] > matrix.shape[1]:
        raise ShapeError(
            "matrix",
            "no more rows than columns",
            f"shape {_checks.shape_of(matrix)}",
            "Pass its transpose for the other order of factors.",
        )
    _checks.entries(matrix=matrix)
    _checks.finite(matrix=matrix)
    u, values, v = torch.linalg.svd(matrix, full_matrices=False)
    if values[-1] <= torch.finfo(matrix.dtype).eps * matrix.shape[1] * values[0]:
        raise RangeError(
            "matrix",
            "full row rank",
            f"singular values from {float(values[0]):.1e} down to {float(values[-1]):.1e}",
            "Leave out dependent rows.",
        )
    return PolarDecomposition((u * values) @ u.mT, u @ v)
