"""Whether the rows of the classifier are at equal angles (NC2)."""

from jaxtyping import Float
from torch import Tensor

from gnomon._precision import half_as_single
from gnomon.measure._frames import variation_of_cosines


@half_as_single
def classifier_equiangularity(classifier: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    r"""The standard deviation of the cosines between all pairs of the classifier's rows.

    Reading:
        Low, high: 0: all pairs of the classifier's rows are at the same angle.
        Generalising: After zero training error it fell to between 0.69 and 0.74 times its value, on Fashion-MNIST
            (mse-collapse). A comparison with a network that memorised was not measured.
        Misleads: It sees the classifier alone: the class means may have other angles, see `self_duality`.

    $\operatorname{Std}_{c\ne c'}\cos(w_c, w_{c'})$

    Source:
        Papyan, Han, Donoho, arXiv:2008.08186, figure 3, which also shows `equiangularity`.
    Args:
        classifier: the weight of the final linear layer, one row for each class.
    Returns:
        In [0, 1]; 0 exactly where all angles are equal, as they are for two classes. The cosine with a zero row is 0.
        Invariant under positive scaling of each row, and under rotations of all.
    Raises:
        ShapeError: if the classifier is not (k p) with k at least 2.
        EmptyError: if it has no rows.
        RangeError: at NaN or infinity.
    Cost: O(k p min(k, p)) time, O(k p) memory, and O(p²) or 1,024² numbers.
    Example:
        >>> import torch, gnomon
        >>> gnomon.classifier_equiangularity(torch.tensor([[1.0, 0.0], [2.0, 0.0], [-3.0, 0.0], [-1.0, 0.0]]))
        tensor(0.9428)
    """
    return variation_of_cosines(classifier=classifier)
