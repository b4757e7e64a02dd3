"""The largest eigenvalues of a symmetric matrix that is known only by its products, and a space where it is large."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from gnomon.linalg._directions import largest, length, unit
from gnomon.linalg._krylov import AHEAD, ASIDE, LEAST, SMALL, above, error_of, of_later
from gnomon.linalg._normal import generator_of, normal

ROOM = 32
"""Vectors for which memory is allocated at once."""
Multiply = Callable[[Float[Tensor, "p"]], Float[Tensor, "p"]]
"""The product of the matrix with a vector."""


@dataclass(frozen=True)
class Lanczos:
    """Eigenvalues and the space in which they were seen.

    Attributes:
        values: the first k, the largest first: lower bounds on those of the matrix.
        errors: how far those of the matrix lie from them, at most: for the first with a probability of 95 % or more;
            the others rest on the residuals, see `of_later`.
        basis: orthonormal vectors, one per row, in blocks: joined, they would need their memory twice.
        trace: the trace of the matrix in the space of the basis.
        passes: the number of products used.
    """

    values: Float[Tensor, "k"]
    errors: Float[Tensor, "k"]
    basis: list[Float[Tensor, "_ p"]]
    trace: Float[Tensor, ""]
    passes: int


def lanczos(
    multiply: Multiply, like: Float[Tensor, "p"], k: int, tolerance: float | int, most: int, seed: int
) -> Lanczos:
    r"""Lanczos' method from a random vector, until the first k eigenvalues are known; all vectors orthogonalised.

    $Hq_j = \beta_{j-1}q_{j-1} + \alpha_jq_j + \beta_jq_{j+1}$. It ends by the rules of `krylov`: when the first value
    is known to the tolerance, and the others, and two more, with errors of a tenth of it and small residuals.

    This takes 7 to 14 products for the first eigenvalue of a network's Hessian, where SciPy's `eigsh` always takes 21,
    does not report how far off it is, keeps no basis for the trace, and raises for a matrix of zeros; `krylov` would
    need two products per step, and could not tell values from their negatives.

    Source:
        Lanczos 1950; Parlett, The Symmetric Eigenvalue Problem, theorems 4.5.1 and 11.7.1; for the first value `above`.
    Args:
        multiply: the matrix.
        like: a vector of the dtype and on the device of the products.
        k: how many values, at most p; 0 for the space alone, from as many steps as are allowed.
        tolerance: the allowed error, relative to each value, or to a tenth of the largest of the first k in absolute
            value if the value is smaller than that.
        most: the number of products allowed.
        seed: the seed of the first vector.
    """
    p = len(like)
    steps = max(1, min(p, most))
    blocks: list[Tensor] = []
    tridiagonal = like.new_zeros(steps + 1, steps + 1)
    values, errors = like.new_zeros(k), like.new_full((k,), torch.inf)
    draw = partial(normal, p, generator=generator_of(seed), like=like)
    q = unit(draw())
    for j in range(steps):
        if j % ROOM == 0:
            blocks.append(like.new_empty(min(ROOM, steps - j), p))
        blocks[-1][j % ROOM] = q
        basis = [*blocks[:-1], blocks[-1][: j % ROOM + 1]]
        q = multiply(q)
        tridiagonal[j, j] = q @ basis[-1][-1]
        q = _outside(basis, q)
        beta, q = length(q), unit(q)
        if beta <= 64 * torch.finfo(beta.dtype).eps * tridiagonal.abs().max():
            # Only rounding errors are left of this space: continue with another.
            beta, q = torch.zeros_like(beta), unit(_outside(basis, draw()))
        tridiagonal[j, j + 1] = tridiagonal[j + 1, j] = beta
        if k:
            values, errors, known = _ritz(tridiagonal[: j + 2, : j + 2], k, tolerance, p)
            if known and j + 1 >= min(LEAST, p):
                break
    return Lanczos(values, errors, basis, tridiagonal.diagonal()[: j + 1].sum(), j + 1)


def _outside(basis: list[Float[Tensor, "_ p"]], q: Float[Tensor, "p"]) -> Float[Tensor, "p"]:
    """The part of a vector that is orthogonal to a basis."""
    for _ in range(2):  # because one pass leaves rounding errors along the basis
        for rows in basis:
            q = q - (rows @ q) @ rows
    return q


def _ritz(
    tridiagonal: Float[Tensor, "s1 s1"], k: int, tolerance: float | int, p: int
) -> tuple[Float[Tensor, "k"], Float[Tensor, "k"], bool]:
    """The first k eigenvalues as seen after s steps, their errors, and whether these are small; as in `ritz`."""
    couplings = tridiagonal.diagonal(1)
    s = len(couplings)
    scale = largest(tridiagonal)
    values, vectors = torch.linalg.eigh(tridiagonal[:s, :s] / scale)
    values, last = values.flip(0), vectors[-1].flip(0).abs()
    residual = couplings[-1] / scale * last
    errors = error_of(values, residual)
    product = (couplings / scale).log().sum()
    errors[0] = torch.where(product > -torch.inf, above(values[None], product[None], p)[0], 0)
    # Not by a large negative value at the other end, which says nothing about how well these are known.
    size = torch.maximum(values.abs(), SMALL * values[:k].abs().amax())
    far = (errors > tolerance / 10 * size) | (residual > min(tolerance / 2, ASIDE) * size)
    far[0] = errors[0] > tolerance * size[0]
    among = min(k + AHEAD, p) if k > 1 else 1
    known = s >= among and not bool(far[:among].any())
    later = (0, max(0, k - s))
    values, errors, far = values[:k], errors[:k], far[:k]
    if s < p:  # in the whole space nothing is sought elsewhere
        errors = of_later(values, errors, far, tolerance * size[:k])
    return functional.pad(scale * values, later), functional.pad(scale * errors, later, value=torch.inf), known
