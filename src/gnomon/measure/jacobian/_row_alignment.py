"""How far each row of the Jacobian points along its sample."""

from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.linalg import cosine


@half_as_single
def row_alignment(jacobian: Float[Tensor, "n c *d"], x: Float[Tensor, "n *d"]) -> Float[Tensor, "n c"]:
    r"""The cosine of the angle between each row of the Jacobian and the sample.

    Reading:
        Low, high: 1 in the label's row: the sample raises its own output. Rows of other classes may have either sign.
        Generalising: On digits the label's row is at 0.051 in a network that memorised, and at 0.624 in one that
            generalises.
        Misleads: As the largest and smallest of many: at 85 % accuracy on unseen MNIST digits their range is hardly
            wider with GrokAlign than with weight decay, 1.10 and 1.04 times (row-alignment).

    $\cos(J_{k\cdot}, x)$, one for each output k

    It needs the Jacobian itself, for many outputs too: a product gives all $J_{k\cdot}x$, but the rows' norms would
    need 770 products with random inputs to be known to 5 %, which costs no less than a thousand rows.

    Source:
        Walker et al., arXiv:2506.12284, table 2, which prints its largest and smallest value over the training set.
    Args:
        jacobian: the Jacobians.
        x: the samples at which they were taken.
    Returns:
        In [-1, 1] up to rounding; all 1 or -1 exactly when the Jacobian is aligned (definition 1) and no row is zero;
        0 where the row or the sample is zero. Invariant under positive scaling of rows and samples, and under rotations
        of the inputs of both.
    Raises:
        ShapeError: if the axes of the Jacobian after the second are not those of x.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity.
    Cost: O(n c d).
    Example:
        >>> import torch, gnomon
        >>> gnomon.row_alignment(torch.tensor([[[3.0, 0.0], [-1.0, -1.0]]]), torch.tensor([[2.0, 0.0]]))
        tensor([[ 1.0000, -0.7071]])
    """
    _checks.jacobian_at(jacobian, x)
    _checks.finite(jacobian=jacobian, x=x)
    return cosine(jacobian.flatten(2), x.flatten(1).unsqueeze(1))
