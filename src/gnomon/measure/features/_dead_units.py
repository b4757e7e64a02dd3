"""How many units answer to no sample."""

from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision


@full_precision
def dead_units(features: Float[Tensor, "n *p"]) -> Float[Tensor, ""]:
    r"""The share of units that are exactly zero at all samples.

    Reading:
        Low, high: 0: every unit answers to some sample. High: of the layer's width little is in use, and no gradient
            of these samples reaches the rest.
        Generalising: Not measured here.
        Misleads: It falls with the number of samples, of which one is enough to wake a unit: compare at one number.
            Behind anything but a ReLU or its like it is 0.

    $\tfrac1p\,|\{j : h_j(x_i) = 0 \text{ for all } i\}|$

    Source:
        Sokar et al., arXiv:2302.12902, with $\tau = 0$.
    Args:
        features: what a layer puts out at each sample, behind its ReLU; a unit is an entry of what a sample gives, so
            that of a convolution each place counts.
    Returns:
        In [0, 1], in the features' dtype. Piecewise constant: its gradient is zero. Invariant under the order of the
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
    return (dead.sum() / dead.numel()).to(features.dtype)
