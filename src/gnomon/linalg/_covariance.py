"""Positive semi-definite matrices, held in full or as rows, whichever is smaller."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.errors import RangeError
from gnomon.linalg._pseudo_inverse import Solver, kept, scales, solver_of


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
        r"""The diagonal of $a\Sigma a^\top$, without the m x m matrix."""
        return ((a @ self.matrix) * a).sum(1)

    @full_precision
    def shifted_solve(self, rows: Float[Tensor, "m p"], shift: Float[Tensor, "p"]) -> Float[Tensor, "m p"]:
        r"""$A(\Sigma + \operatorname{diag}(\mathrm{shift}))^{-1}$ for the rows A, at shifts above 0."""
        shifted = self.matrix + shift.diag()
        scale = shifted.diagonal().detach().sqrt()
        return torch.linalg.solve(shifted / scale / scale.unsqueeze(1), rows / scale, left=False) / scale

    @full_precision
    def pseudo_solver(self, eps: float, least: Float[Tensor, "p"]) -> Solver:
        r"""What maps rows A to $A\Sigma^+$, and to their part beyond the range, $A(I - \Sigma\Sigma^+)$."""
        scale, inverse = scales(self.diagonal(), least)
        alike = self.matrix * inverse * inverse.unsqueeze(1)
        values, vectors = kept(alike.detach(), eps)
        if len(values) == len(alike):  # of full rank
            whole = torch.linalg.inv(alike)
            return lambda a: ((a * inverse) @ whole * inverse, torch.zeros_like(a))
        # With V, Λ the eigenvectors that are kept, CV(VᵀCV)⁻¹VᵀC is C, and remains so, to first order, where C changes
        # within its rank: the gradient needs none of the eigenvectors.
        turned = vectors.mT @ alike @ vectors
        turned = turned - (turned - values.diag()).detach()
        rows = torch.linalg.solve_triangular(torch.linalg.cholesky(turned), vectors.mT @ alike, upper=False)
        return solver_of(rows * scale)

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
    def pseudo_solver(self, eps: float, least: Float[Tensor, "p"]) -> Solver:
        r"""What maps rows A to $A(F^\top F)^+$, and to their part beyond the range of $F^\top$."""
        alike = self.rows.detach() * scales(self.diagonal(), least)[1]
        _, vectors = kept(alike @ alike.mT, eps)
        return solver_of(vectors.mT @ self.rows)

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
    r"""$F^\top F$ as its rows if they are fewer than its columns, otherwise in full."""
    factored = Factored(rows)
    return factored if rows.shape[0] < rows.shape[1] else Dense(factored.dense())


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
