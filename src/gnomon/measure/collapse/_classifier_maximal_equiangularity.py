"""Whether the rows of the classifier are at equal angles that are as wide as possible (NC2)."""

from jaxtyping import Float
from torch import Tensor

from gnomon._precision import half_as_single
from gnomon.measure._frames import distance_from_simplex


@half_as_single
def classifier_maximal_equiangularity(classifier: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    r"""The mean distance of the cosines between the classifier's rows from those of a simplex.

    Reading:
        Low, high: 0: the directions of the classifier's rows form a simplex.
        Generalising: After zero training error it fell to between 0.61 and 0.66 times its value, on Fashion-MNIST
            (mse-collapse). A comparison with a network that memorised was not measured.
        Misleads: It sees the classifier alone: the class means may have other angles, see `self_duality`.

    $\operatorname{Ave}_{c\ne c'}\left|\cos(w_c, w_{c'}) + \tfrac1{k-1}\right|$

    Source:
        Papyan, Han, Donoho, arXiv:2008.08186, figure 4, which also shows `maximal_equiangularity`.
    Args:
        classifier: the weight of the final linear layer, one row for each class.
    Returns:
        In [0, k/(k - 1)] up to rounding; 0 exactly where the directions form a simplex equiangular tight frame.
        Invariant under positive scaling of each row, and under rotations of all.
    Raises:
        ShapeError: if the classifier is not (k p) with k at least 2.
        EmptyError: if it has no rows.
        RangeError: at NaN or infinity.
    Cost: O(k² p) time, O(k p) memory; with gradients O(k²).
    Example:
        >>> import torch, gnomon
        >>> gnomon.classifier_maximal_equiangularity(torch.eye(3))
        tensor(0.5000)
    """
    return distance_from_simplex(classifier=classifier)
