"""How similar the similarity matrices of features and of labels are."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon._precision import half_as_single
from gnomon.linalg import Dense, norm
from gnomon.measure._moments import ClassMoments


@half_as_single
def label_cka(class_moments: ClassMoments) -> Float[Tensor, ""]:
    r"""The linear centred kernel alignment of the features with the one-hot labels.

    Reading:
        Low, high: 0: the class means coincide. 1: the samples of each class are one point, and the classes form a
            simplex, as in neural collapse.
        Generalising: Not measured here.
        Misleads: Uninformative features have $\sqrt{(k-1)/(n-1)}$ where there are many more of them than samples: 0.30
            for 100 samples in ten classes. Compare at the same number of samples. A few wide directions dominate it.

    $\dfrac{\|Y^\top H\|_F^2}{\|H^\top H\|_F\,\|Y^\top Y\|_F}$ for the features H and the one-hot labels Y, both centred

    From the class moments alone: $Y^\top H$ has the rows $n_c(\mu_c - \mu_G)$, $H^\top H$ is $n(\Sigma_W + \Sigma_B)$,
    and $\|Y^\top Y\|_F^2 = n^2\bigl(\sum_c w_c^2(1-w_c)^2 + \sum_{c\ne c'} w_c^2w_{c'}^2\bigr)$. No n x n kernel is
    formed, and data may come in batches.

    Source:
        Kornblith, Norouzi, Lee, Hinton, arXiv:1905.00414, with the linear kernel.
    Args:
        class_moments: the class moments of the features.
    Returns:
        In [0, 1] up to rounding; 0 where all samples coincide. Invariant under scaling, shift and rotation of the
        features, not under other linear maps.
    Cost: O(p²), or O(n² p) where the scatter is stored as n < p rows.
    Example:
        >>> import torch, gnomon
        >>> h = torch.tensor([[0.0], [2.0], [10.0], [12.0]])
        >>> gnomon.label_cka(gnomon.class_moments(h, torch.tensor([0, 0, 1, 1]), 2))
        tensor(0.9615)
    """
    weights, between = class_moments.weights, class_moments.between_covariance
    both = class_moments.within_covariance + between
    total = both.trace()
    unit = torch.where(total > 0, total, 1)  # divided out, since squares are squared
    matrix = both.matrix if isinstance(both, Dense) else both.rows @ both.rows.mT
    size = norm((matrix / unit).flatten())
    shared = (weights * between.rows.square().sum(1) / unit).sum()
    labels = _size_of_labels(class_moments.counts).to(size)
    return (shared / torch.where(total > 0, size * labels, 1)).to(between.rows.dtype)


def _size_of_labels(counts: Int[Tensor, "k"]) -> Float[Tensor, ""]:
    r"""$\|Y^\top Y\|_F/n$ in float64, from positive terms only: nothing cancels where one class has most samples."""
    n = counts.sum()
    squares = (counts.double() / n).square()
    others = ((n - counts).double() / n).square()
    before = squares.cumsum(0).roll(1).index_fill(0, torch.zeros_like(n), 0)
    return ((squares * others).sum() + 2 * (squares * before).sum()).sqrt()
