"""Positive semi-definite matrices, held in full or as rows, whichever is smaller."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.errors import RangeError
from gnomon.linalg._spectra import decomposed, gram_eigenvectors

Solver = Callable[[Float[Tensor, "m p"]], tuple[Float[Tensor, "m p"], Float[Tensor, "m p"]]]
"""Maps rows to their products with a pseudo-inverse, and to what it leaves out."""
BLOCK = 4096
"""Rows that are converted to float64 at once."""


@dataclass(frozen=True)
class Dense:
    """A positive semi-definite matrix held in full: what `AGOP` computes, or the scatter in `ClassMoments`.

    Where rows are smaller, `Factored` takes its place; the methods are the same.

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

    def diagonal(self) -> Float[Tensor, "p"]:
        """Its diagonal."""
        return self.matrix.diagonal()

    def trace(self) -> Float[Tensor, ""]:
        """The sum of its eigenvalues."""
        return self.diagonal().sum()

    @full_precision
    def variances(self, a: Float[Tensor, "m p"]) -> Float[Tensor, "m"]:
        r"""The diagonal of $a\Sigma a^\top$, without the m x m matrix; what rounding puts below 0 is 0."""
        return ((a @ self.matrix) * a).sum(1).clamp(min=0)

    @full_precision
    def shifted_solve(self, rows: Float[Tensor, "m p"], shift: Float[Tensor, "p"]) -> Float[Tensor, "m p"]:
        r"""$A(\Sigma + \operatorname{diag}(\mathrm{shift}))^{-1}$ for the rows A, at shifts above 0."""
        shifted = Dense(self.matrix + shift.diag())
        scale = shifted.diagonal().detach().sqrt()
        return torch.linalg.solve(shifted.over(scale).matrix, rows / scale, left=False) / scale

    @full_precision
    def pseudo_solver(self, eps: float) -> Solver:
        r"""What maps rows A to $A\Sigma^+$, and to their part beyond the range, $A(I - \Sigma\Sigma^+)$."""
        inverse = pseudo_inverse(self.matrix, eps)
        rank = (inverse * self.matrix).sum().detach().round()

        @full_precision
        def solve(rows: Float[Tensor, "m p"]) -> tuple[Float[Tensor, "m p"], Float[Tensor, "m p"]]:
            beyond = rows - rows @ inverse @ self.matrix
            # Twice, because the first difference still contains rounding errors within the range.
            beyond = beyond - beyond @ inverse @ self.matrix
            return rows @ inverse, torch.where(rank < rows.shape[1], beyond, 0)

        return solve

    @full_precision
    def spanning(self, eps: float) -> Float[Tensor, "r p"]:
        """Linearly independent rows that span its range, without what rounding fills, as in `pseudo_inverse`."""
        return above_rounding(self.matrix, eps).mT @ self.matrix

    def over(self, scale: Float[Tensor, "p"]) -> "Dense":
        """The covariance of features divided by these."""
        return Dense(self.matrix / scale / scale.unsqueeze(1))

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

    def diagonal(self) -> Float[Tensor, "p"]:
        """The matrix's diagonal."""
        return self.rows.square().sum(0)

    def trace(self) -> Float[Tensor, ""]:
        """The sum of its eigenvalues."""
        return self.rows.square().sum()

    @full_precision
    def variances(self, a: Float[Tensor, "m p"]) -> Float[Tensor, "m"]:
        r"""The diagonal of $aF^\top F a^\top$."""
        return (a @ self.rows.mT).square().sum(1)

    @full_precision
    def shifted_solve(self, rows: Float[Tensor, "m p"], shift: Float[Tensor, "p"]) -> Float[Tensor, "m p"]:
        r"""$A(F^\top F + \operatorname{diag}(\mathrm{shift}))^{-1}$ for the rows A, at shifts above 0."""
        scale = shift.sqrt()
        own = self.rows / scale
        gram = own @ own.mT
        gram = gram + identity(gram)

        def inverted(a: Tensor) -> Tensor:
            return a - torch.linalg.solve(gram, a @ own.mT, left=False) @ own

        wanted = rows / scale
        first = inverted(wanted)
        # Once more, for the digits that the difference has cost.
        return (first + inverted(wanted - first - first @ own.mT @ own)) / scale

    @full_precision
    def pseudo_solver(self, eps: float) -> Solver:
        r"""What maps rows A to $A(F^\top F)^+$, and to their part beyond the range of $F^\top$."""
        own = self.rows
        inverse = pseudo_inverse(own @ own.mT, eps)

        @full_precision
        def solve(rows: Float[Tensor, "m p"]) -> tuple[Float[Tensor, "m p"], Float[Tensor, "m p"]]:
            inside = rows @ own.mT @ inverse
            beyond = rows - inside @ own
            beyond = beyond - beyond @ own.mT @ inverse @ own
            return inside @ inverse @ own, beyond

        return solve

    @full_precision
    def spanning(self, eps: float) -> Float[Tensor, "r p"]:
        """Linearly independent rows that span its range, without what rounding fills, as in `pseudo_inverse`."""
        return above_rounding(self.rows @ self.rows.mT, eps).mT @ self.rows

    def over(self, scale: Float[Tensor, "p"]) -> "Factored":
        """The covariance of features divided by these."""
        return Factored(self.rows / scale)

    def to(self, dtype: torch.dtype) -> "Factored":
        """The same in another precision."""
        return Factored(self.rows.to(dtype))

    def __truediv__(self, divisor: Tensor | float | int) -> "Factored":
        return Factored(self.rows / torch.as_tensor(divisor, dtype=self.rows.dtype, device=self.rows.device).sqrt())

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
    r"""$F^\top F$ as its rows if they are fewer than its columns, otherwise in full, in float64.

    Where $WF^\top$ is small, $WF^\top FW^\top$ is a small difference of large entries: these need more digits than F.
    """
    if rows.shape[0] < rows.shape[1]:
        return Factored(rows)
    blocks = torch.split(rows, max(BLOCK, rows.shape[1]))
    return Dense(functools.reduce(torch.add, (Factored(block.double()).dense() for block in blocks)))


def pseudo_inverse(matrix: Float[Tensor, "p p"], eps: float) -> Float[Tensor, "p p"]:
    """The pseudo-inverse, ignoring what rounding fills: eigenvalues below p epsilons of the largest."""
    rtol = len(matrix) * eps
    return decomposed(lambda held: (torch.linalg.pinv(held, rtol=rtol, hermitian=True),), matrix)[0]


def above_rounding(matrix: Float[Tensor, "p p"], eps: float) -> Float[Tensor, "p r"]:
    """The eigenvectors whose eigenvalues are above p epsilons of the largest; no graph."""
    values, vectors = gram_eigenvectors(matrix.detach())
    return vectors[:, values > len(values) * eps * values[-1:]]


def identity(like: Float[Tensor, "p p"]) -> Float[Tensor, "p p"]:
    """The identity matrix of the same size, dtype and device."""
    return torch.eye(len(like), dtype=like.dtype, device=like.device)


def covariance_of(agop: Float[Tensor, "p p"] | Covariance) -> Covariance:
    """The AGOP that a quantity was given, checked."""
    if not isinstance(agop, Dense | Factored):
        _checks.square("Pass gnomon.agop of the Jacobians, or what gnomon.AGOP computes.", agop=agop)
        agop = Dense(agop)
    found = agop.held.detach()
    _checks.finite(agop=found)
    if isinstance(agop, Dense) and (found - found.mT).abs().max() > _checks.ROUNDED * found.abs().max():
        raise RangeError("agop", "a symmetric matrix", "one that is not", "Pass an AGOP; of a weight W, W.T @ W.")
    return agop
