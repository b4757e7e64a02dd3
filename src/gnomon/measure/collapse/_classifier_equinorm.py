"""Whether the rows of the classifier have equal lengths (NC2)."""

from jaxtyping import Float
from torch import Tensor

from gnomon._precision import half_as_single
from gnomon.measure._frames import variation_of_lengths


@half_as_single
def classifier_equinorm(classifier: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    r"""The coefficient of variation of the lengths of the classifier's rows.

    Reading:
        Low, high: 0: all rows of the classifier are equally long.
        Generalising: After zero training error it fell to between 0.82 and 0.90 times its value, on Fashion-MNIST
            (mse-collapse). A comparison with a network that memorised was not measured.
        Misleads: It is small from the start, 0.057 before training and 0.087 at the end.

    $\operatorname{Std}_c\|w_c\| / \operatorname{Ave}_c\|w_c\|$

    Source:
        Papyan, Han, Donoho, arXiv:2008.08186, figure 2, which also shows `equinorm`.
    Args:
        classifier: the weight of the final linear layer, one row for each class.
    Returns:
        In $[0, \sqrt{k-1}]$; 0 exactly where all lengths are equal, including all zero. Invariant under scaling, and
        under rotations of each row.
    Raises:
        ShapeError: if the classifier is not (k p).
        EmptyError: if it has no rows.
        RangeError: at NaN or infinity.
    Cost: O(k p).
    Example:
        >>> import torch, gnomon
        >>> gnomon.classifier_equinorm(torch.tensor([[3.0, 4.0], [0.0, 15.0]]))
        tensor(0.5000)
    """
    return variation_of_lengths(classifier=classifier)
