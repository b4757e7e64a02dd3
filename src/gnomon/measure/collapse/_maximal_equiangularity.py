"""Whether vectors stand at equal angles as wide as can be (NC2)."""

from jaxtyping import Float
from torch import Tensor

from gnomon._precision import half_as_single
from gnomon.measure.collapse._equiangularity import pair_cosines


@half_as_single
def maximal_equiangularity(vectors: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    r"""The mean distance of the cosines between the vectors from that of a simplex.

    $\operatorname{Ave}_{c\ne c'}\left|\cos(v_c, v_{c'}) + \tfrac1{k-1}\right|$

    Of class means, `maximal_equiangularity(moments.centred_means)`; of classifiers, `maximal_equiangularity(weight)`.

    Source:
        Papyan, Han, Donoho, arXiv:2008.08186, figure 4.
    Args:
        vectors: one for each class, at least two.
    Returns:
        In [0, k/(k - 1)]; 0 exactly where the directions form a simplex equiangular tight frame, which takes p of at
        least k - 1; $\tfrac1{k-1}$ for orthogonal vectors, and k/(k - 1) where all directions are one. Unchanged by
        positive scaling of each vector, and by rotations of all.
    Raises:
        ShapeError: if the vectors are not (k p) with k at least 2.
        EmptyError: if there are none.
        RangeError: at NaN or infinity.
    Cost: O(k² p).
    Example:
        >>> import torch, gnomon
        >>> gnomon.maximal_equiangularity(torch.eye(3)), gnomon.maximal_equiangularity(torch.eye(3) - 1 / 3)
        (tensor(0.5000), tensor(0.))
    """
    return (pair_cosines("maximal_equiangularity", vectors) + 1 / (len(vectors) - 1)).abs().mean()
