"""How many directions the features fill."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.linalg import scaled
from gnomon.measure._entropy_rank import entropy_rank


@half_as_single
def rank_me(features: Float[Tensor, "n *p"]) -> Float[Tensor, ""]:
    r"""The effective rank of the features: the exponential of the entropy of their singular values' shares.

    Reading:
        Low, high: 1: all features lie on one line through zero. High: many directions are used equally.
        Generalising: Not measured here.
        Misleads: Neural collapse ends at k - 1 directions or k, so that for a classifier a low value may be good. The
            features are not centred: a mean far from zero is enough to pull it to 1. It never exceeds the number of
            samples.

    $\exp\bigl(-\sum_j p_j\log p_j\bigr)$, $\quad p_j = \sigma_j / \sum_i\sigma_i$

    The paper adds $\epsilon = 10^{-7}$ to each share, to keep 0 out of the logarithm; here $0\log 0 = 0$. With
    $\epsilon$ the shares sum to more than 1, and 2,048 equal directions count as 2,050.8 (docs/errata.md).

    Source:
        Garrido, Balestriero, Najman, LeCun, arXiv:2210.02885, after Roy, Vetterli, The Effective Rank
        (2007). Departs from the former in $\epsilon$.
    Args:
        features: a layer's output for each sample; further axes are flattened.
    Returns:
        In [1, min(n, p)] up to rounding; 0 where all features are zero. Invariant under scaling and rotation of the
        features.
    Raises:
        ShapeError: if the features have fewer than two axes.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity.
    Cost: O(n p min(n, p)), for the singular values.
    Example:
        >>> import torch, gnomon
        >>> gnomon.rank_me(torch.tensor([[2.0, 0.0, 0.0], [0.0, -2.0, 0.0]]))
        tensor(2.)
    """
    _checks.samples(features=features)
    _checks.finite(features=features)
    return entropy_rank(torch.linalg.svdvals(scaled(features.flatten(1))))
