"""How much of the Jacobian one direction explains."""

from typing import overload

from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.autodiff import RTOL, JacobianOperator
from gnomon.linalg import Estimate, top_share
from gnomon.measure._estimates import Accuracy, FirstAndNorm, estimated, warn_if_inaccurate


@overload
def explained_variance_ratio(jacobian: Float[Tensor, "n c *d"]) -> Float[Tensor, "n"]: ...
@overload
def explained_variance_ratio(
    jacobian: JacobianOperator, *, rtol: float | int = RTOL, passes: int | None = None, seed: int = 0
) -> Estimate: ...
@half_as_single
def explained_variance_ratio(
    jacobian: Float[Tensor, "n c *d"] | JacobianOperator,
    *,
    rtol: float | int = RTOL,
    passes: int | None = None,
    seed: int = 0,
) -> Float[Tensor, "n"] | Estimate:
    r"""The share of each Jacobian's squared norm that its first singular direction carries (PC1).

    Reading:
        Low, high: 1/min(c, d): the Jacobian has as many equal directions as possible. 1: one direction of the input
            moves all outputs.
        Generalising: On digits it stays at 0.29 in a network that memorised and rises to 0.67 in one that generalises,
            with a setback when another direction becomes the first.
        Misleads: The strong direction can be one left over from initialisation (grok-digits). With the squared
            error weight decay alone takes it to 1.000 on MNIST, in 100,000 passes (rank).

    $\mathrm{PC1} = \sigma_1^2 / \sum_i \sigma_i^2$, without centring the rows.

    Source:
        Walker et al., arXiv:2506.12284, figure 2.
    Args:
        jacobian: the Jacobians, or an operator that computes products with them.
        rtol: for an operator, the relative error at which the estimation stops; default: 0.05.
        passes: for an operator, the largest number of products with each Jacobian; at least 16; default: 256. A warning
            says if they do not suffice.
        seed: for an operator, the seed of the random vectors, which are drawn independently of training's random
            numbers.
    Returns:
        In [1/min(c, d), 1] up to rounding; 1 exactly when the Jacobian has rank one; 0 for a zero Jacobian. Invariant
        under scaling and under rotations of inputs and of outputs. For an operator, an estimate.
    Raises:
        ShapeError: if the Jacobian has fewer than three axes.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, or if rtol, passes or seed are out of range; for an operator, if the weights
            have changed since.
        UnsupportedModuleError: for an operator, if a layer has no second derivative, as products with it need.
    Cost: O(n c² d), through the c × c Gram matrix (d × d where d < c). For an operator, 10 to 20 products for the first
        singular value, and about 8 to 40 backward passes for the norm.
    Example:
        >>> import torch, gnomon
        >>> gnomon.explained_variance_ratio(torch.tensor([[[2.0, 0.0], [0.0, 1.0]]]))
        tensor([0.8000])
    """
    if isinstance(jacobian, JacobianOperator):
        accuracy = Accuracy.of(rtol, passes, seed)
        found = estimated(
            jacobian,
            accuracy,
            lambda matrix, _: top_share(matrix.reshape(*matrix.shape[:2], -1)),
            lambda products, _: FirstAndNorm.kept(jacobian, products, accuracy).share(),
        )
        return warn_if_inaccurate("explained_variance_ratio", found, accuracy)
    _checks.samples(3, jacobian=jacobian)
    _checks.finite(jacobian=jacobian)
    return top_share(jacobian.flatten(2))
