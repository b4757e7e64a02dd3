"""Whether class means are at equal angles that are as wide as possible (NC2)."""

from jaxtyping import Float
from torch import Tensor

from gnomon._precision import half_as_single
from gnomon.measure._frames import distance_from_simplex


@half_as_single
def maximal_equiangularity(centred_means: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    r"""The mean distance of the cosines between centred class means from those of a simplex.

    Reading:
        Low, high: 0: the class means' directions form a simplex.
        Generalising: On training digits 0.088 with true labels (96 % accuracy on unseen digits), 0.388 from a large
            initialisation (84 %).
        Misleads: Shuffled labels come closest to the simplex, 0.071.

    $\operatorname{Ave}_{c\ne c'}\left|\cos(\mu_c - \mu_G, \mu_{c'} - \mu_G) + \tfrac1{k-1}\right|$

    `classifier_maximal_equiangularity` is the same for the rows of the classifier.

    Source:
        Papyan, Han, Donoho, arXiv:2008.08186, figure 4.
    Args:
        centred_means: the class means minus the global mean, `moments.centred_means`; or any vectors, at least two.
    Returns:
        In [0, k/(k - 1)] up to rounding; 0 exactly where the directions form a simplex equiangular tight frame, which
        requires p to be at least k - 1; $\tfrac1{k-1}$ for orthogonal vectors, and k/(k - 1) where all directions are
        the same. Invariant under positive scaling of each vector, and under rotations of all.
    Raises:
        ShapeError: if the means are not (k p) with k at least 2.
        EmptyError: if there are none.
        RangeError: at NaN or infinity.
    Cost: O(k² p) time, O(k p) memory; with gradients O(k²).
    Example:
        >>> import torch, gnomon
        >>> gnomon.maximal_equiangularity(torch.eye(3)), gnomon.maximal_equiangularity(torch.eye(3) - 1 / 3)
        (tensor(0.5000), tensor(0.))
    """
    return distance_from_simplex(centred_means=centred_means)
