"""The lengths of the classes' vectors, and the angles between them."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon.errors import ShapeError
from gnomon.linalg import identity, length, root, scaled, unit

BLOCK = 1024
"""The number of vectors whose cosines with all others are held at once. For more vectors than this, and than
dimensions, sums are computed from p x p products: with so many vectors no quantity is near 0, where that would cost
digits."""


def variation_of_lengths(**named: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    """The coefficient of variation of the lengths of the vectors, which are passed under the argument's name."""
    (vectors,) = named.values()
    _checks.rows(**named)
    _checks.finite(**named)
    lengths = length(scaled(vectors))
    mean = lengths.mean()
    return lengths.std(correction=0) / torch.where(mean > 0, mean, 1)


def variation_of_cosines(**named: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    r"""The standard deviation of the cosines of all q = k(k - 1)/2 pairs of different vectors.

    For many vectors U, from $\sum_{c\ne c'}\cos = \|\sum_c u_c\|^2 - \sum_c\|u_c\|^2$ and
    $\sum_{c\ne c'}\cos^2 = \|U^\top U\|_F^2 - \sum_c\|u_c\|^4$.
    """
    directions = unit(at_least_two(**named))
    k = len(directions)
    if not _many(directions):
        first, second = torch.triu_indices(k, k, 1, device=directions.device)
        return (directions @ directions.mT)[first, second].std(correction=0)
    gram, total, squares = _sums(directions)
    pairs = k * (k - 1)
    mean = (total.square().sum() - squares.sum()) / pairs
    variance = (gram.square().sum() - squares.square().sum()) / pairs - mean.square()
    return root(variance).to(directions.dtype)


def distance_from_simplex(**named: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    """The mean distance of the cosines of all pairs from the cosine in a simplex, -1/(k - 1)."""
    directions = unit(at_least_two(**named))
    k = len(directions)
    apart = directions.new_zeros((), dtype=torch.float64)
    for start in range(0, k, BLOCK):
        cosines = directions[start : start + BLOCK] @ directions[start:].mT
        apart = apart + (cosines + 1 / (k - 1)).abs().triu(1).sum(dtype=torch.float64)
    return (apart / (k * (k - 1) / 2)).to(directions.dtype)


def distance_of_cosines(vectors: Float[Tensor, "k p"], wanted: float) -> Float[Tensor, ""]:
    r"""The Frobenius norm of the matrix of cosines of all vectors minus the one wanted, whose diagonal is 1.

    For many vectors, with S the wanted cosines, from
    $\|UU^\top - S\|^2 = \|U^\top U\|^2 - 2\langle UU^\top, S\rangle + \|S\|^2$.
    """
    directions = unit(vectors)
    k = len(directions)
    if not _many(directions):
        cosines = directions @ directions.mT
        return torch.linalg.matrix_norm(cosines - ((1 - wanted) * identity(cosines) + wanted))
    gram, total, squares = _sums(directions)
    along = (1 - wanted) * squares.sum() + wanted * total.square().sum()
    square = gram.square().sum() - 2 * along + (k + k * (k - 1) * wanted**2)
    return square.clamp(min=0).sqrt().to(directions.dtype)


def at_least_two(**named: Float[Tensor, "k p"]) -> Float[Tensor, "k p"]:
    """The vectors, if they are finite and at least two."""
    ((argument, vectors),) = named.items()
    _checks.rows(**named)
    _checks.finite(**named)
    if len(vectors) < 2:
        raise ShapeError(
            argument,
            "vectors (k, p) of at least 2 classes",
            f"shape {_checks.shape_of(vectors)}",
            "Take more classes, or outputs.",
        )
    return vectors


def _many(directions: Float[Tensor, "k p"]) -> bool:
    """Whether there are so many vectors that their cosines are not stored."""
    return len(directions) > max(BLOCK, directions.shape[1] + 1)


def _sums(
    directions: Float[Tensor, "k p"],
) -> tuple[Float[Tensor, "p p"], Float[Tensor, "p"], Float[Tensor, "k"]]:
    r"""$U^\top U$, the sum of all, and the squared length of each, 1 or 0: in float64, as they are then subtracted."""
    gram = torch.zeros((), dtype=torch.float64, device=directions.device)
    total, squares = gram, []
    for some in torch.split(directions, BLOCK):
        rows = some.double()
        gram, total = gram + rows.mT @ rows, total + rows.sum(0)
        squares.append(rows.square().sum(1))
    return gram, total, torch.cat(squares)
