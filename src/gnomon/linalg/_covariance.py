"""Positive semi-definite matrices, held in full or as rows, whichever is smaller."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.errors import RangeError, ShapeError

FEW = 1024
"""Up to this many rows, their products with each other are used, even if these outnumber the full matrix's entries."""


@dataclass(frozen=True)
class Dense:
    """A positive semi-definite matrix held in full.

    Attributes:
        matrix: the matrix itself, symmetric.
    """

    matrix: Float[Tensor, "p p"]

    @property
    def held(self) -> Float[Tensor, "p p"]:
        """The tensor that is held."""
        return self.matrix

    @full_precision
    def dense(self) -> Float[Tensor, "p p"]:
        """The matrix."""
        return self.matrix

    def trace(self) -> Float[Tensor, ""]:
        """The sum of its eigenvalues."""
        return self.matrix.diagonal().sum()

    @full_precision
    def quadratic_trace(self, a: Float[Tensor, "m p"]) -> Float[Tensor, ""]:
        r"""$\operatorname{tr} a\Sigma a^\top$, without the m x m matrix."""
        return ((a @ self.matrix) * a).sum()

    @full_precision
    def regression(
        self, rows: Float[Tensor, "m p"], shift: float | int, eps: float | None = None
    ) -> Float[Tensor, "m p"]:
        r"""$A\,(\Sigma + A^\top A + \mathrm{shift}\,I)^{-1}$ for the rows A; at shift 0 with the pseudo-inverse."""
        return shifted_solve(self.matrix + rows.mT @ rows, rows, shift, eps)

    @full_precision
    def solve(
        self, v: Float[Tensor, "p"], shift: float | int, eps: float | None = None
    ) -> tuple[Float[Tensor, "p"], Float[Tensor, "p"]]:
        r"""$(\Sigma + \mathrm{shift}\,I)^{-1}v$, and the part of v beyond the range: at shift 0, by pseudo-inverse."""
        if shift > 0:
            return shifted_solve(self.matrix, v[None], shift)[0], torch.zeros_like(v)
        inverse = pseudo_inverse(self.matrix, eps)
        rank = (inverse * self.matrix).sum().detach().round()
        beyond = v - self.matrix @ (inverse @ v)
        # Twice, because the first difference still contains rounding errors within the range.
        beyond = beyond - self.matrix @ (inverse @ beyond)
        return inverse @ v, torch.where(rank < len(v), beyond, 0)

    def to(self, dtype: torch.dtype) -> "Dense":
        """The same in another precision."""
        return Dense(self.matrix.to(dtype))

    def __truediv__(self, divisor: Tensor | float | int) -> "Dense":
        return Dense(self.matrix / divisor)

    def __add__(self, other: "Dense | Factored") -> "Dense":
        return Dense(self.matrix + other.dense())


@dataclass(frozen=True)
class Factored:
    r"""The matrix $F^\top F$, held as the rows F and never in full: for few samples of many features.

    Attributes:
        rows: F; the order and the signs of its rows do not matter.
    """

    rows: Float[Tensor, "r p"]

    @property
    def held(self) -> Float[Tensor, "r p"]:
        """The tensor that is held."""
        return self.rows

    @full_precision
    def dense(self) -> Float[Tensor, "p p"]:
        """The matrix; O(p²) memory. Only what lies on and to the right of the diagonal is multiplied, in panels."""
        p = self.rows.shape[1]
        width = max(64, -(-p // 8))
        matrix = self.rows.new_empty(p, p)
        for start in range(0, p, width):
            stop = start + width
            matrix[start:stop, start:] = self.rows[:, start:stop].mT @ self.rows[:, start:]
            matrix[stop:, start:stop] = matrix[start:stop, stop:].mT
        return matrix

    def trace(self) -> Float[Tensor, ""]:
        """The sum of its eigenvalues."""
        return self.rows.square().sum()

    @full_precision
    def quadratic_trace(self, a: Float[Tensor, "m p"]) -> Float[Tensor, ""]:
        r"""$\operatorname{tr} aF^\top F a^\top$."""
        return (a @ self.rows.mT).square().sum()

    @full_precision
    def regression(
        self, rows: Float[Tensor, "m p"], shift: float | int, eps: float | None = None
    ) -> Float[Tensor, "m p"]:
        r"""$A\,(F^\top F + A^\top A + \mathrm{shift}\,I)^{-1}$ for the rows A; at shift 0 with the pseudo-inverse."""
        if len(self.rows) + len(rows) > max(rows.shape[1], FEW):
            return Dense(self.dense()).regression(rows, shift, eps)
        joined = torch.cat([self.rows, rows])
        gram = joined @ joined.mT
        return shifted_solve(gram, identity(gram)[len(self.rows) :], shift, eps) @ joined

    @full_precision
    def solve(
        self, v: Float[Tensor, "p"], shift: float | int, eps: float | None = None
    ) -> tuple[Float[Tensor, "p"], Float[Tensor, "p"]]:
        r"""$(F^\top F + \mathrm{shift}\,I)^{-1}v$ and, at shift 0, by pseudo-inverse, v's part beyond the range."""
        gram = self.rows @ self.rows.mT
        if shift > 0:

            def inverted(v: Tensor) -> Tensor:
                return (v - shifted_solve(gram, (self.rows @ v)[None], shift)[0] @ self.rows) / shift

            first = inverted(v)
            # Once more, for the digits that the difference has cost.
            return first + inverted(v - shift * first - self.rows.mT @ (self.rows @ first)), torch.zeros_like(v)
        inverse = pseudo_inverse(gram, eps)
        within = inverse @ (self.rows @ v)
        beyond = v - self.rows.mT @ within
        beyond = beyond - self.rows.mT @ (inverse @ (self.rows @ beyond))
        return self.rows.mT @ (inverse @ within), beyond

    def to(self, dtype: torch.dtype) -> "Factored":
        """The same in another precision."""
        return Factored(self.rows.to(dtype))

    def __truediv__(self, divisor: Tensor | float | int) -> "Factored":
        return Factored(self.rows / torch.as_tensor(divisor, dtype=self.rows.dtype).sqrt())

    def __add__(self, other: "Dense | Factored") -> "Dense | Factored":
        if isinstance(other, Dense):
            return other + self
        return smaller(torch.cat([self.rows, other.rows]))


Covariance = Dense | Factored
"""A positive semi-definite matrix; both ways of holding it have the same methods."""


def covariance(held: Float[Tensor, "r p"]) -> Covariance:
    """The matrix that is held as this tensor: in full if that is square, and as rows if not."""
    return Dense(held) if len(held) == held.shape[1] else Factored(held)


def smaller(rows: Float[Tensor, "r p"]) -> Covariance:
    r"""$F^\top F$ as its rows if they are fewer than its columns, otherwise in full."""
    factored = Factored(rows)
    return factored if rows.shape[0] < rows.shape[1] else Dense(factored.dense())


def shifted_solve(
    matrix: Float[Tensor, "p p"], b: Float[Tensor, "m p"], shift: float | int, eps: float | None = None
) -> Float[Tensor, "m p"]:
    r"""$b\,(\Sigma + \mathrm{shift}\,I)^{-1}$; at shift 0 the pseudo-inverse."""
    if shift > 0:
        return torch.linalg.solve(matrix + shift * identity(matrix), b, left=False)
    return b @ pseudo_inverse(matrix, eps)


def pseudo_inverse(matrix: Float[Tensor, "p p"], eps: float | None = None) -> Float[Tensor, "p p"]:
    """The pseudo-inverse, ignoring what rounding fills: eigenvalues below p epsilons, the dtype's, of the largest."""
    eps = torch.finfo(matrix.dtype).eps if eps is None else eps
    return torch.linalg.pinv(matrix, rtol=len(matrix) * eps, hermitian=True)


def identity(like: Float[Tensor, "p p"]) -> Float[Tensor, "p p"]:
    """The identity matrix of the same size, dtype and device."""
    return torch.eye(len(like), dtype=like.dtype, device=like.device)


def covariance_of(agop: Float[Tensor, "p p"] | Covariance) -> Covariance:
    """The AGOP that a quantity was given, checked."""
    if not isinstance(agop, Dense | Factored):
        if agop.ndim != 2 or agop.shape[0] != agop.shape[1] or agop.numel() == 0:
            raise ShapeError(
                "agop",
                "a square matrix",
                f"shape {_checks.shape_of(agop)}",
                "Pass gnomon.agop of the Jacobians, or what gnomon.AGOP computes.",
            )
        agop = Dense(agop)
    found = agop.held.detach()
    _checks.finite(agop=found)
    if isinstance(agop, Dense) and (found - found.mT).abs().max() > _checks.ROUNDED * found.abs().max():
        raise RangeError("agop", "a symmetric matrix", "one that is not", "Pass an AGOP; of a weight W, W.T @ W.")
    return agop
