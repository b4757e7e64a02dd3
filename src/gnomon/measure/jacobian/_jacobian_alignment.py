"""How much of the Jacobian looks along its sample."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.linalg import unit


@half_as_single
def jacobian_alignment(jacobian: Float[Tensor, "n c *d"], x: Float[Tensor, "n *d"]) -> Float[Tensor, "n"]:
    r"""The share of each Jacobian's norm that lies along the sample: 1 exactly when $J = c\,x^\top$.

    $\|J\hat x\| / \|J\|_F$ with $\hat x = x/\|x\|$

    Source:
        Walker et al., Jacobian Alignment Explains Grokking, definition 1, made a number.
    Args:
        jacobian: the Jacobians.
        x: the samples at which they were taken.
    Returns:
        In [0, 1] up to rounding; 1 exactly when every row is a multiple of x (definition 1), 0 when every row is
        orthogonal to it, and 0 where either is zero. Invariant under scaling of either, under rotations of the inputs
        of both, and under rotations of the outputs.
    Raises:
        ShapeError: if the axes of the Jacobian after the second are not those of x.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity.
    Cost: O(n c d).
    Example:
        >>> import torch, gnomon
        >>> gnomon.jacobian_alignment(torch.tensor([[[3.0, 0.0], [0.0, 4.0]]]), torch.tensor([[0.0, 2.0]]))
        tensor([0.8000])
    """
    _checks.jacobian_at(jacobian, x)
    _checks.finite(jacobian=jacobian, x=x)
    whole = unit(jacobian.flatten(1)).view(*jacobian.shape[:2], -1)
    along = torch.linalg.vecdot(whole, unit(x.flatten(1)).unsqueeze(1))
    return torch.linalg.vector_norm(along, dim=1)
