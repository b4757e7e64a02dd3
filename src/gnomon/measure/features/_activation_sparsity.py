"""How many of a sample's features are zero."""

from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision, single


@full_precision
def activation_sparsity(features: Float[Tensor, "n *p"]) -> Float[Tensor, "n"]:
    r"""The share of each sample's features that are exactly zero.

    Reading:
        Low, high: 0: every unit responds to the sample. 1: none does. Random ReLUs without biases give about ½.
        Generalising: Not measured here.
        Misleads: It is informative only after a ReLU, or another function that cuts to zero. Before one, and after
            tanh, it is 0 whatever the features are; after GELU it counts inputs below about -5.5, which are 0 in
            float32.

    $\tfrac1p\,|\{j : h_j(x) = 0\}|$

    Source:
        Glorot, Bordes, Bengio, Deep Sparse Rectifier Neural Networks (AISTATS 2011).
    Args:
        features: a layer's output for each sample, after its ReLU; further axes are flattened.
    Returns:
        In [0, 1], in the features' dtype. Piecewise constant, without a gradient. Invariant under scaling each unit.
    Raises:
        ShapeError: if the features have fewer than two axes.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity.
    Cost: O(n p).
    Example:
        >>> import torch, gnomon
        >>> gnomon.activation_sparsity(torch.tensor([[0.0, 2.0, 0.0, 1.0]]))
        tensor([0.5000])
    """
    _checks.samples(features=features)
    _checks.finite(features=features)
    rows = features.flatten(1)
    return ((rows == 0).sum(1).to(single(features.dtype)) / rows.shape[1]).to(features.dtype)
