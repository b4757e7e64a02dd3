"""By how much the label's output leads."""

from jaxtyping import Float, Int
from torch import Tensor

from gnomon._precision import half_as_single
from gnomon.measure._lead import lead


@half_as_single
def margin(logits: Float[Tensor, "n c"], labels: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
    r"""The label's output minus the largest other one.

    Reading:
        Low, high: Above 0 a sample is classified correctly, below 0 wrongly; a high value means that the outputs are
            far from another class.
        Generalising: Not measured here.
        Misleads: It has the outputs' scale, which weights can inflate: compare it with the norm of the weights, or of
            the Jacobian (`robust_radius`).

    $f(x)_y - \max_{j \ne y} f(x)_j$

    Source:
        Bartlett, Foster, Telgarsky, arXiv:1706.08498.
    Args:
        logits: the outputs.
        labels: the classes, 0 to c - 1.
    Returns:
        Any number; unit: outputs; infinity for a single output, which has no rival. Invariant under adding a number to
        all outputs of a sample.
    Raises:
        ShapeError: if the logits are not (n, c), or labels not (n).
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity in the logits, or at labels that are not classes.
    Cost: O(n c).
    Example:
        >>> import torch, gnomon
        >>> gnomon.margin(torch.tensor([[3.0, 1.0, 0.5], [0.0, 2.0, 1.0]]), torch.tensor([0, 2]))
        tensor([ 2., -1.])
    """
    return lead(logits, labels)
