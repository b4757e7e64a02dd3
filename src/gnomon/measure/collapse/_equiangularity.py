"""Whether class means are at equal angles (NC2)."""

from jaxtyping import Float
from torch import Tensor

from gnomon._precision import half_as_single
from gnomon.measure._frames import variation_of_cosines


@half_as_single
def equiangularity(centred_means: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    r"""The standard deviation of the cosines between all pairs of centred class means.

    Reading:
        Low, high: 0: all pairs of class means are at the same angle.
        Generalising: On training digits 0.105 with true labels (96 % accuracy on unseen digits); it rises to 0.443 from
            a large initialisation (84 %).
        Misleads: Shuffled labels make it even smaller, 0.086. Equal angles need not be those of the simplex:
            `maximal_equiangularity`.

    $\operatorname{Std}_{c\ne c'}\cos(\mu_c - \mu_G, \mu_{c'} - \mu_G)$

    `classifier_equiangularity` is the same for the rows of the classifier.

    Source:
        Papyan, Han, Donoho, arXiv:2008.08186, figure 3. The standard deviation is taken over the k(k - 1)/2 pairs, and
        divides by their number.
    Args:
        centred_means: the class means minus the global mean, `moments.centred_means`; or any vectors, at least two.
    Returns:
        In [0, 1]; 0 exactly where all angles are equal, as they are for two classes. The cosine with a zero vector is
        0. Invariant under positive scaling of each vector, and under rotations of all.
    Raises:
        ShapeError: if the means are not (k p) with k at least 2.
        EmptyError: if there are none.
        RangeError: at NaN or infinity.
    Cost: O(k p min(k, p)) time, O(k p) memory, and O(p²) or 1,024² numbers.
    Example:
        >>> import torch, gnomon
        >>> gnomon.equiangularity(torch.tensor([[1.0, 0.0], [2.0, 0.0], [-3.0, 0.0], [-1.0, 0.0]]))
        tensor(0.9428)
    """
    return variation_of_cosines(centred_means=centred_means)
