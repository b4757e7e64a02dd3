"""In which directions of the input the outputs move, on average."""

from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single


@half_as_single
def agop(jacobian: Float[Tensor, "n c *d"]) -> Float[Tensor, "p p"]:
    r"""The average gradient outer product: the uncentred covariance of the gradients of all outputs.

    $G = \frac1n\sum_i J_i^\top J_i$, p = d for the input's axes taken together

    The mean squared change of the outputs by a small step u of the input is $u^\top G u$. Outputs are summed over, not
    averaged. `AGOP` gives the same of a network without its Jacobians, and of every layer's input.

    Source:
        Beaglehole et al., arXiv:2402.13728, section 3.3. Departs from it in that samples are counted once (its sum runs
        over K times N of them; docs/errata.md).
    Args:
        jacobian: the Jacobians; unit: outputs per input.
    Returns:
        Symmetric and positive semi-definite, of rank n c at most; unit: squared outputs per squared input. Invariant
        under rotations of the outputs; of $f(Ax)$ it is $A^\top G A$ with the G of f at Ax.
    Raises:
        ShapeError: if the Jacobian has fewer than three axes.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity.
    Cost: O(n c p²) time, O(p²) memory.
    Example:
        >>> import torch, gnomon
        >>> gnomon.agop(torch.tensor([[[2.0, 0.0]], [[0.0, 4.0]]]))
        tensor([[2., 0.],
                [0., 8.]])
    """
    _checks.samples(3, jacobian=jacobian)
    _checks.finite(jacobian=jacobian)
    rows = jacobian.flatten(2).flatten(0, 1)
    return rows.mT @ rows / len(jacobian)
