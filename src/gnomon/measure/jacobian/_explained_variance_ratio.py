"""How much of the Jacobian one direction explains."""

from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.linalg import top_share


@half_as_single
def explained_variance_ratio(jacobian: Float[Tensor, "n c *d"]) -> Float[Tensor, "n"]:
    r"""The share of each Jacobian's squared norm that its first singular direction carries (PC1).

    $\mathrm{PC1} = \sigma_1^2 / \sum_i \sigma_i^2$, the rows not centred.

    Source:
        Walker et al., arXiv:2506.12284, figure 2.
    Args:
        jacobian: the Jacobians.
    Returns:
        In [1/min(c, d), 1]; 1 exactly when the Jacobian has rank one; 0 for a zero Jacobian. Invariant under scaling
        and under rotations of inputs and of outputs.
    Raises:
        ShapeError: if the Jacobian has fewer than three axes.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity.
    Cost: O(n c² d), through the c × c Gram matrix (d × d where d < c).
    Example:
        >>> import torch, gnomon
        >>> gnomon.explained_variance_ratio(torch.tensor([[[2.0, 0.0], [0.0, 1.0]]]))
        tensor([0.8000])
    """
    _checks.samples(3, jacobian=jacobian)
    _checks.finite(jacobian=jacobian)
    return top_share(jacobian.flatten(2))
