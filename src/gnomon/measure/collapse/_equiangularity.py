"""Whether vectors stand at equal angles (NC2)."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.errors import ShapeError
from gnomon.linalg import unit


@half_as_single
def equiangularity(vectors: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    r"""The standard deviation of the cosines between all pairs of the vectors.

    $\operatorname{Std}_{c\ne c'}\cos(v_c, v_{c'})$

    Of class means, `equiangularity(moments.centred_means)`; of classifiers, `equiangularity(weight)`.

    Source:
        Papyan, Han, Donoho, arXiv:2008.08186, figure 3. The standard deviation is that of the k(k - 1)/2 pairs, over
        their number.
    Args:
        vectors: one for each class, at least two.
    Returns:
        In [0, 1]; 0 exactly where all angles are equal, as they are for two vectors. The cosine with a zero vector is
        0. Unchanged by positive scaling of each vector, and by rotations of all.
    Raises:
        ShapeError: if the vectors are not (k p) with k at least 2.
        EmptyError: if there are none.
        RangeError: at NaN or infinity.
    Cost: O(k² p).
    Example:
        >>> import torch, gnomon
        >>> gnomon.equiangularity(torch.tensor([[1.0, 0.0], [2.0, 0.0], [-3.0, 0.0], [-1.0, 0.0]]))
        tensor(0.9428)
    """
    return pair_cosines("equiangularity", vectors).std(correction=0)


def pair_cosines(where: str, vectors: Float[Tensor, "k p"]) -> Float[Tensor, "q"]:
    """The cosines of all q = k(k - 1)/2 pairs of different vectors."""
    _checks.rows(where, vectors=vectors)
    _checks.finite(where, vectors=vectors)
    k = len(vectors)
    if k < 2:
        raise ShapeError("vectors", "at least 2 vectors", k, "Pass one for each class.", where=where)
    directions = unit(vectors)
    first, second = torch.triu_indices(k, k, 1, device=vectors.device)
    return (directions @ directions.mT)[first, second]
