"""The inner product of a sample and its centroid."""

from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single


@half_as_single
def centroid_inner_product(centroid: Float[Tensor, "n *d"], x: Float[Tensor, "n *d"]) -> Float[Tensor, "n"]:
    r"""The inner product of each sample with the centroid of its linear region.

    Reading:
        Low, high: Neither is good: with ReLUs and no biases it is the sum of the outputs, 1 for fitted one-hot labels.
        Generalising: Says nothing: on digits 0.95 at the end in a network that generalises, 1.00 in one that memorised.
        Misleads: As a sign of feature learning: under a constant kernel it moved by 6.9 of its 9.8 (ntk-regime).

    $\langle x, \mu_x\rangle$

    Its rate of change is a sum over the training points of the neural tangent kernel times the residual. The papers
    interpret a changing inner product as feature learning; under a constant kernel it changes too (docs/errata.md).

    Source:
        Walker et al., Jacobian Alignment Explains Grokking, theorem 6 (theorem 9 of arXiv:2506.12284).
    Args:
        centroid: the centroids; unit: outputs per input.
        x: the samples at which they were taken.
    Returns:
        Unit: outputs. Bilinear. Where all pieces go through zero, as in a ReLU network without biases, it is the sum
        of the outputs at x; with hard tanh it is not.
    Raises:
        ShapeError: if the shapes differ.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, or if the dtype does not hold the product.
    Cost: O(n d).
    Example:
        >>> import torch, gnomon
        >>> gnomon.centroid_inner_product(torch.tensor([[3.0, 1.0]]), torch.tensor([[1.0, 2.0]]))
        tensor([5.])
    """
    _checks.samples(centroid=centroid, x=x)
    _checks.same_shape(x=x, centroid=centroid)
    _checks.finite(centroid=centroid, x=x)
    product = (centroid * x).flatten(1).sum(1)
    _checks.held("centroid", "products", product)
    return product
