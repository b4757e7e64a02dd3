"""How far the centroid points along its sample."""

from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.linalg import cosine


@half_as_single
def centroid_alignment(centroid: Float[Tensor, "n *d"], x: Float[Tensor, "n *d"]) -> Float[Tensor, "n"]:
    r"""The cosine of the angle between each sample and the centroid of its linear region.

    Reading:
        Low, high: 0: the sum of the outputs reacts across the sample, and not along it. 1: along it alone.
        Generalising: On digits it stays at 0.015 in a network that memorised and rises to 0.789 in one that
            generalises, after its accuracy on unseen digits: 0.193 at 92.8 %.
        Misleads: Under cross-entropy: -0.13 at 97 % accuracy on unseen digits. With a one-hot fit by ReLUs without
            biases it only says how short the centroid is. It may rise with learnt noise, as robustness falls (xor).

    $\cos(x, \mu_x) = \langle x, \mu_x\rangle / (\|x\|\,\|\mu_x\|)$

    Source:
        Walker et al., Jacobian Alignment Explains Grokking, definition 5 and section 4.
    Args:
        centroid: the centroids; unit: outputs per input.
        x: the samples at which they were taken.
    Returns:
        In [-1, 1] up to rounding; 1 or -1 exactly when $\mu_x = c x$; 0 where either is the zero vector. Invariant
        under positive scaling of x or of the centroid, and under rotations of both.
    Raises:
        ShapeError: if the shapes differ.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity.
    Cost: O(n d).
    Example:
        >>> import torch, gnomon
        >>> gnomon.centroid_alignment(torch.tensor([[3.0, 0.0], [1.0, 1.0]]), torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
        tensor([1.0000, 0.7071])
    """
    _checks.samples(centroid=centroid, x=x)
    _checks.same_shape(x=x, centroid=centroid)
    _checks.finite(centroid=centroid, x=x)
    return cosine(centroid.flatten(1), x.flatten(1))
