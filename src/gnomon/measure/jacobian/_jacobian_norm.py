"""The size of the Jacobian."""

from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.linalg import length


@half_as_single
def jacobian_norm(jacobian: Float[Tensor, "n c *d"]) -> Float[Tensor, "n"]:
    r"""The Frobenius norm of each Jacobian: how far outputs move, in root mean square, when the input does.

    $\|J\|_F = \sqrt{\sum_{kj} J_{kj}^2}$

    Source:
        Walker et al., arXiv:2506.12284, theorem 2 (the constraint) and section 4 (the GrokAlign penalty).
    Args:
        jacobian: the Jacobians.
    Returns:
        In [0, ∞), unit: outputs per input. Invariant under rotations of inputs and of outputs; at a zero Jacobian its
        gradient is taken as zero.
    Raises:
        ShapeError: if the Jacobian has fewer than three axes.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity.
    Cost: O(n c d).
    Example:
        >>> import torch, gnomon
        >>> gnomon.jacobian_norm(torch.tensor([[[3.0, 0.0], [0.0, 4.0]]]))
        tensor([5.])
    """
    _checks.samples(3, jacobian=jacobian)
    _checks.finite(jacobian=jacobian)
    return length(jacobian.flatten(1))
