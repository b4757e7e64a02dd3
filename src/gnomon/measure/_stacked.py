"""Matrices that are known by their products, stacked row-wise into one: its first singular value and its norm."""

import math
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon.linalg import BLOCK, Krylov, Products, SquaredNorm, interval, krylov, share_of
from gnomon.measure._estimates import OF_FIRST, Accuracy, FirstAndNorm

PAIRS = 64
"""The least number of random vectors, over all samples, from which their variance is estimated."""
Parts = Callable[[], Iterator[Products]]
"""Yields the matrices of the samples chunk by chunk, from the beginning at each call."""


def first_and_norm_of_all(parts: Parts, shape: tuple[int, int, int], like: Tensor, accuracy: Accuracy) -> FirstAndNorm:
    """As accurate as their quotient needs: Golub-Kahan steps for the first value, random vectors for the rest."""
    known = krylov(transposed(parts, shape, like, accuracy.seed), 1, accuracy.rtol * OF_FIRST, accuracy.passes // 2)
    rest = accuracy.passes - int(known.passes)
    return FirstAndNorm.beside(
        known, accuracy.rtol, lambda tolerance: squared_norm_of_all(parts, shape[0], known, tolerance, rest)
    )


def transposed(parts: Parts, shape: tuple[int, int, int], like: Tensor, seed: int) -> Products:
    """The transpose, with a column for each row: the vectors that are kept then have the length of a row."""
    n, c, d = shape

    def left(v: Float[Tensor, "1 d"]) -> Float[Tensor, "1 r"]:
        return torch.cat([part.right(v.expand(part.shape[0], d)) for part in parts()]).view(1, n * c)

    def right(u: Float[Tensor, "1 r"]) -> Float[Tensor, "1 d"]:
        total, rest = like.new_zeros(1, d), u.view(n, c)
        for part in parts():
            mine, rest = rest.tensor_split([part.shape[0]])
            total += part.left(mine).sum(0)
        return total

    return Products((1, d, n * c), like, right, left, 0, seed)


def squared_norm_of_all(parts: Parts, n: int, known: Krylov, tolerance: Float[Tensor, "1"], most: int) -> SquaredNorm:
    """As `squared_norm`, given a known part; each of the n samples has its own random vectors, so that few suffice."""
    some = max(2, min(BLOCK, math.ceil(PAIRS / n)))
    total, fourth, squared = torch.zeros(3, 1, dtype=known.captured.dtype, device=known.captured.device)
    for count in range(some, max(some, most) + 1, some):
        lengths = total.new_zeros(some)
        for part in parts():
            z = part.normal(count, some)
            rows = torch.stack([part.left(z[:, j].contiguous()) for j in range(some)], 1) / known.scale
            rows = rows - (rows @ known.basis[0].mT) @ known.basis[0]
            gram = rows @ rows.mT
            square = gram.diagonal(dim1=1, dim2=2)
            lengths += square.sum(0)
            fourth += gram.square().sum() - square.square().sum()
        total += lengths.sum()
        squared += lengths.sum().square() - lengths.square().sum()
        share = share_of(fourth, squared)
        found = interval(total, share, share, count, n * count * (some - 1) // 2)
        value, low, high = (known.captured + part for part in found)
        norm = SquaredNorm(known.scale, value, low, high, torch.full_like(known.passes, count))
        if (norm.relative() <= tolerance).all():
            break
    return norm
