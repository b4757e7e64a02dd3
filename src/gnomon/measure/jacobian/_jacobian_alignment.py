"""How much of the Jacobian points along its sample."""

from typing import overload

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.autodiff import RTOL, JacobianOperator
from gnomon.errors import ShapeError
from gnomon.linalg import Estimate, length, unit
from gnomon.measure._estimates import Accuracy, norm_of, warn_if_inaccurate


@overload
def jacobian_alignment(jacobian: Float[Tensor, "n c *d"], x: Float[Tensor, "n *d"]) -> Float[Tensor, "n"]: ...
@overload
def jacobian_alignment(
    jacobian: JacobianOperator,
    x: Float[Tensor, "n *d"],
    *,
    rtol: float | int = RTOL,
    passes: int | None = None,
    seed: int = 0,
) -> Estimate: ...
@half_as_single
def jacobian_alignment(
    jacobian: Float[Tensor, "n c *d"] | JacobianOperator,
    x: Float[Tensor, "n *d"],
    *,
    rtol: float | int = RTOL,
    passes: int | None = None,
    seed: int = 0,
) -> Float[Tensor, "n"] | Estimate:
    r"""The share of each Jacobian's norm that lies along the sample: 1 exactly when $J = c\,x^\top$.

    Reading:
        Low, high: About 1/√d by chance, for d inputs. 1: the outputs react along the sample alone.
        Generalising: On digits it stays at 0.016 in a network that memorised and rises to 0.488 in one that
            generalises. On MNIST it settles after the accuracy on unseen digits, with the robust radius (anatomy).
        Misleads: As a forecast of generalisation: it followed it in all runs of anatomy. With a one-hot fit without
            biases it is 1/(∥J∥ ∥x∥), in other words the norm.

    $\|J\hat x\| / \|J\|_F$ with $\hat x = x/\|x\|$

    Source:
        Walker et al., Jacobian Alignment Explains Grokking, definition 1, made a number.
    Args:
        jacobian: the Jacobians, or an operator that computes products with them.
        x: the samples at which they were taken.
        rtol: for an operator, the relative error at which the estimation stops; default: 0.05.
        passes: for an operator, the largest number of products with each Jacobian; at least 16; default: 256. A warning
            says if they do not suffice.
        seed: for an operator, the seed of the random vectors, which are drawn independently of training's random
            numbers.
    Returns:
        In [0, 1] up to rounding; 1 exactly when every row is a multiple of x (definition 1), 0 when every row is
        orthogonal to it, and 0 where either is zero. Invariant under scaling of either, under rotations of the inputs
        of both, and under rotations of the outputs. For an operator, an estimate.
    Raises:
        ShapeError: if the axes of the Jacobian after the second are not those of x.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, or if rtol, passes or seed are out of range; for an operator, if the weights
            have changed since, or if the dtype does not hold the norm.
        UnsupportedModuleError: for an operator, if a layer has no second derivative, as products with it need.
    Cost: O(n c d). For an operator, one product and the cost of `jacobian_norm`.
    Example:
        >>> import torch, gnomon
        >>> gnomon.jacobian_alignment(torch.tensor([[[3.0, 0.0], [0.0, 4.0]]]), torch.tensor([[0.0, 2.0]]))
        tensor([0.8000])
    """
    if isinstance(jacobian, JacobianOperator):
        accuracy = Accuracy.of(rtol, passes, seed)
        return warn_if_inaccurate("jacobian_alignment", _share_along(jacobian, x, accuracy), accuracy)
    _checks.jacobian_at(jacobian, x)
    _checks.finite(jacobian=jacobian, x=x)
    whole = unit(jacobian.flatten(1)).view(*jacobian.shape[:2], -1)
    along = torch.linalg.vecdot(whole, unit(x.flatten(1)).unsqueeze(1))
    return torch.linalg.vector_norm(along, dim=1)


def _share_along(jacobian: JacobianOperator, x: Float[Tensor, "n *d"], accuracy: Accuracy) -> Estimate:
    """The length of the Jacobian's product with the sample's direction, over an estimate of its norm."""
    _checks.samples(2, x=x)
    if tuple(x.shape) != (jacobian.shape[0], *jacobian.shape[2:]):
        raise ShapeError(
            "x",
            f"shape {(jacobian.shape[0], *jacobian.shape[2:])}",
            _checks.shape_of(x),
            "Pass the operator's samples.",
        )
    _checks.finite(x=x)
    direction = unit(x.flatten(1)).view(x.shape)
    norm = norm_of(jacobian, accuracy)
    along = length(jacobian.matvec(direction))
    one = torch.where(norm.value > 0, norm.value, 1)
    share = (along / one).clamp(max=1)
    return Estimate(share, share * norm.error / one, norm.passes + 1)
