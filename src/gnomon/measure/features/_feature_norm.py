"""How long the features of a sample are."""

from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.linalg import length


@half_as_single
def feature_norm(features: Float[Tensor, "n *p"]) -> Float[Tensor, "n"]:
    r"""The norm of each sample's features.

    Reading:
        Low, high: Low: the layer hardly responds to the sample. High: it responds strongly, or its weights are large.
        Generalising: Not measured here.
        Misleads: The next layer can undo any scale: compare networks with the same architecture and initialisation.

    $\|h(x)\|_2$

    Args:
        features: a layer's output for each sample; further axes are flattened.
    Returns:
        At least 0; unit: that of the features. Invariant under rotations of the features.
    Raises:
        ShapeError: if the features have fewer than two axes.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity.
    Cost: O(n p).
    Example:
        >>> import torch, gnomon
        >>> gnomon.feature_norm(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([5., 0.])
    """
    _checks.samples(features=features)
    _checks.finite(features=features)
    return length(features.flatten(1))
