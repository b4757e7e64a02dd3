"""Whether vectors have equal lengths (NC2)."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.linalg import length


@half_as_single
def equinorm(vectors: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    r"""The coefficient of variation of the vectors' lengths.

    $\operatorname{Std}_c\|v_c\| / \operatorname{Ave}_c\|v_c\|$

    Of class means, `equinorm(moments.centred_means)`; of classifiers, `equinorm(weight)`.

    Source:
        Papyan, Han, Donoho, arXiv:2008.08186, figure 2. The standard deviation is that of the k classes, over k; the
        authors' notebook divides by k - 1, which is larger by $\sqrt{k/(k-1)}$.
    Args:
        vectors: one for each class.
    Returns:
        In $[0, \sqrt{k-1}]$; 0 exactly where all lengths are equal, also zero. Unchanged by scaling, and by rotations
        of each vector.
    Raises:
        ShapeError: if the vectors are not (k p).
        EmptyError: if there are none.
        RangeError: at NaN or infinity.
    Cost: O(k p).
    Example:
        >>> import torch, gnomon
        >>> gnomon.equinorm(torch.tensor([[3.0, 4.0], [0.0, 15.0]]))
        tensor(0.5000)
    """
    where = "equinorm"
    _checks.rows(where, vectors=vectors)
    _checks.finite(where, vectors=vectors)
    lengths = length(vectors)
    # A ratio, so that the largest can be divided out: squares neither overflow nor underflow.
    largest = lengths.detach().amax()
    lengths = lengths / torch.where(largest > 0, largest, 1)
    mean = lengths.mean()
    return lengths.std(correction=0) / torch.where(mean > 0, mean, 1)
