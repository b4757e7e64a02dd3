"""The input directions to which outputs are most sensitive."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.errors import ArgumentTypeError, ShapeError
from gnomon.linalg import Covariance, Dense, covariance_of, gram_eigenvectors


@dataclass(frozen=True)
class Eigenvectors:
    """The largest eigenvalues of a positive semi-definite matrix and their directions.

    Attributes:
        values: the eigenvalues, the largest first.
        vectors: a unit vector for each, with the axes of the input where these were given.
    """

    values: Float[Tensor, "m"]
    vectors: Float[Tensor, "m *d"]


@half_as_single
def top_eigenvectors(
    agop: Float[Tensor, "p p"] | Covariance, k: int, *, shape: Sequence[int] | None = None
) -> Eigenvectors:
    r"""The eigenvectors of the average gradient outer product with the largest eigenvalues, optionally as images.

    Reading:
        Low, high: Not a number: look at them as images, the input directions to which the outputs react most.
        Generalising: On digits, noise over all pixels in a network that memorised, parts of strokes in one that
            generalises.
        Misleads: Where eigenvalues lie close together: the vectors are then arbitrary within their plane, and change
            from reading to reading.

    $G v_i = \lambda_i v_i$, $\lambda_1 \ge \lambda_2 \ge \dots$

    Source:
        Radhakrishnan, Beaglehole, Pandit, Belkin, arXiv:2212.13881, who show them as images.
    Args:
        agop: a positive semi-definite matrix, in full or as rows.
        k: how many; no more than p, or than the number of rows. In a probe, use
            `functools.partial(top_eigenvectors, k=6)`.
        shape: the axes of one input, such as (3, 32, 32); vectors of length p if None.
    Returns:
        Each vector with its largest entry positive; unit of the values: that of the AGOP. Where eigenvalues are equal,
        any basis of their space.
    Raises:
        ShapeError: if the matrix is not square, or `shape` does not have p entries, in whole numbers of at least 1.
        ArgumentTypeError: if `shape` is not a sequence.
        RangeError: at NaN or infinity, if the matrix is not symmetric, or if there are not that many eigenvectors.
    Cost: O(p³), or O(r² p) for r rows.
    Example:
        >>> import torch, gnomon
        >>> found = gnomon.top_eigenvectors(torch.diag(torch.tensor([1.0, 9.0, 4.0, 0.0])), 2, shape=(2, 2))
        >>> found.values, found.vectors[0]
        (tensor([9., 4.]), tensor([[0., 1.],
                [0., 0.]]))
    """
    held = covariance_of(agop)
    if isinstance(held, Dense):
        values, columns = gram_eigenvectors(held.matrix)
        values, vectors = values.flip(0), columns.mT.flip(0)
    else:
        _, roots, vectors = torch.linalg.svd(held.rows, full_matrices=False)
        values = roots.square()
    _checks.settings(_checks.whole_number("k", k, 1, len(values)))
    axes = _axes(vectors.shape[1:] if shape is None else shape, vectors.shape[1])
    top = vectors[:k]
    largest = top.gather(1, top.abs().argmax(1, keepdim=True))
    return Eigenvectors(values[:k], (top * largest.sign()).reshape(k, *axes))


def _axes(shape: Sequence[int], entries: int) -> tuple[int, ...]:
    """The axes; raises unless they are those of so many entries."""
    advice = "Pass the shape of one input."
    try:
        axes = tuple(shape)
    except TypeError as error:
        raise ArgumentTypeError("shape", "a sequence of whole numbers", type(shape).__name__, advice) from error
    if not all(_checks.whole(axis, 1) for axis in axes) or math.prod(axes) != entries:
        raise ShapeError("shape", f"axes of at least 1, in whole numbers, of {entries} entries together", axes, advice)
    return axes
