"""How many units respond to no sample."""

from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision, single


@full_precision
def dead_units(features: Float[Tensor, "n *p"]) -> Float[Tensor, ""]:
    r"""The share of units that are exactly zero at all samples.

    Reading:
        Low, high: 0: every unit responds to some sample. High: little of the layer's width is in use, and no gradient
            of these samples reaches the rest.
        Generalising: Not measured here.
        Misleads: It falls with the number of samples, since a single one is enough to wake a unit: compare at the same
            number. Before a ReLU, and after tanh, it is 0; after GELU a unit counts as dead whose inputs are all below
            -5.5, where float32 rounds to 0.

    $\tfrac1p\,|\{j : h_j(x_i) = 0 \text{ for all } i\}|$

    Source:
        Sokar et al., arXiv:2302.12902, with $\tau = 0$.
    Args:
        features: a layer's output for each sample, after its ReLU; a unit is an entry of a sample's output, so that for
            a convolution each position counts.
    Returns:
        In [0, 1], in the features' dtype. Piecewise constant, without a gradient. Invariant under reordering the
        samples.
    Raises:
        ShapeError: if the features have fewer than two axes.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity.
    Cost: O(n p).
    Example:
        >>> import torch, gnomon
        >>> gnomon.dead_units(torch.tensor([[0.0, 2.0, 0.0, 1.0], [1.0, 0.0, 0.0, 1.0]]))
        tensor(0.2500)
    """
    _checks.samples(features=features)
    _checks.finite(features=features)
    dead = (features == 0).all(0)
    return (dead.sum().to(single(features.dtype)) / dead.numel()).to(features.dtype)
