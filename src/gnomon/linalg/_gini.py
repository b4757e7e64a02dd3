"""How unequally a total is shared out."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.errors import EmptyError, RangeError
from gnomon.linalg._directions import largest


@half_as_single
def gini(values: Float[Tensor, "*n p"]) -> Float[Tensor, "*n"]:
    r"""The Gini coefficient of the last axis: 0 where all entries are equal, near 1 where one of them has it all.

    Reading:
        Low, high: 0: all entries alike. Near 1: few carry all.
        Generalising: For an embedding's Fourier norms, a + b mod 23: it rises in both networks while the pairs are
            memorised; 0.21 in the one that adds (98 % of unseen pairs), 0.08 in the one that does not (58 %).
        Misleads: Its final value depends on the number of entries: look at the rise. With GrokAlign it rises by 55 to
            86 % as much as with weight decay, though both grok (modular-addition).

    $G = \frac{1}{2 p^2 \bar v}\sum_{i,j}|v_i - v_j| = \frac{\sum_i (2i - p - 1)\,v_{(i)}}{p\,\sum_i v_i}$, the
    $v_{(i)}$ in increasing order

    For the `fourier_norms` of an embedding it says how few frequencies a network uses for modular addition.

    Source:
        Nanda et al., Progress measures for grokking via mechanistic interpretability, arXiv:2301.05217; Walker et al.,
        arXiv:2506.12284, figure 8.
    Args:
        values: non-negative numbers of one unit, compared along the last axis.
    Returns:
        In [0, 1 - 1/p]; 1 - 1/p exactly when only one entry is not zero, 0 when all are equal, and 0 for zeros.
        Unchanged by positive scaling and by permuting the entries. Without the small-sample factor p/(p - 1).
    Raises:
        EmptyError: if there is no entry to compare.
        RangeError: at NaN or infinity, or at a negative number.
    Cost: O(n p log p).
    Example:
        >>> import torch
        >>> from gnomon import gini
        >>> gini(torch.tensor([[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 5.0]]))
        tensor([0.0000, 0.7500])
    """
    if values.numel() == 0 or values.ndim == 0:
        raise EmptyError(
            "values",
            "at least one number along the last axis",
            f"shape {_checks.shape_of(values)}",
            "Pass the numbers to compare.",
        )
    _checks.finite(values=values)
    if (values < 0).any():
        index = tuple((values < 0).nonzero()[0].tolist())
        raise RangeError(
            "values",
            "numbers of at least 0",
            f"{float(values[index])} at index {index}",
            "Pass norms, or absolute values.",
        )
    ordered = (values / largest(values, -1, keepdim=True)).sort(-1).values
    p = values.shape[-1]
    rank = torch.arange(1 - p, p, 2, dtype=values.dtype, device=values.device)
    total = ordered.sum(-1)
    return (ordered * rank).sum(-1) / (p * torch.where(total > 0, total, 1))
