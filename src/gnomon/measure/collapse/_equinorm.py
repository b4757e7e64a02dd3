"""Whether class means have equal lengths (NC2)."""

from jaxtyping import Float
from torch import Tensor

from gnomon._precision import half_as_single
from gnomon.measure._frames import variation_of_lengths


@half_as_single
def equinorm(centred_means: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    r"""The coefficient of variation of the lengths of the centred class means.

    Reading:
        Low, high: 0: all class means are equally far from the global mean.
        Generalising: On training digits 0.072 with true labels (96 % accuracy on unseen digits), 0.255 from a large
            initialisation (84 %).
        Misleads: Shuffled labels make it even smaller, 0.046: their classes are alike by construction.

    $\operatorname{Std}_c\|\mu_c - \mu_G\| / \operatorname{Ave}_c\|\mu_c - \mu_G\|$

    `classifier_equinorm` is the same for the rows of the classifier.

    Source:
        Papyan, Han, Donoho, arXiv:2008.08186, figure 2. The standard deviation over the k classes divides by k; the
        authors' notebook divides by k - 1, which gives a value larger by $\sqrt{k/(k-1)}$.
    Args:
        centred_means: the class means minus the global mean, `moments.centred_means`; or any vectors.
    Returns:
        In $[0, \sqrt{k-1}]$; 0 exactly where all lengths are equal, including all zero. Invariant under scaling, and
        under rotations of each vector.
    Raises:
        ShapeError: if the means are not (k p).
        EmptyError: if there are none.
        RangeError: at NaN or infinity.
    Cost: O(k p).
    Example:
        >>> import torch, gnomon
        >>> gnomon.equinorm(torch.tensor([[3.0, 4.0], [0.0, 15.0]]))
        tensor(0.5000)
    """
    return variation_of_lengths(centred_means=centred_means)
