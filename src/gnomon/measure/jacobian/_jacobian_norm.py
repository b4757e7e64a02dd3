"""The size of the Jacobian."""

from typing import overload

from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.autodiff import RTOL, JacobianOperator
from gnomon.linalg import Estimate, length
from gnomon.measure._estimates import Accuracy, norm_of, warn_if_inaccurate


@overload
def jacobian_norm(jacobian: Float[Tensor, "n c *d"]) -> Float[Tensor, "n"]: ...
@overload
def jacobian_norm(
    jacobian: JacobianOperator, *, rtol: float | int = RTOL, passes: int | None = None, seed: int = 0
) -> Estimate: ...
@half_as_single
def jacobian_norm(
    jacobian: Float[Tensor, "n c *d"] | JacobianOperator,
    *,
    rtol: float | int = RTOL,
    passes: int | None = None,
    seed: int = 0,
) -> Float[Tensor, "n"] | Estimate:
    r"""The Frobenius norm of each Jacobian: how far outputs move, in root mean square, when the input does.

    Reading:
        Low, high: Low: outputs hardly react to the input. It is in outputs per input, so that only networks for the
            same task and scale of inputs can be compared.
        Generalising: On digits it falls from a large initialisation in both, to 9.5 in a network that memorised, to
            0.26 in one that generalises.
        Misleads: On its own: a network whose units are dead has the lowest (inhibit). Together with the accuracy it
            tells how the data are fitted.

    $\|J\|_F = \sqrt{\sum_{kj} J_{kj}^2}$

    Source:
        Walker et al., arXiv:2506.12284, theorem 2 (the constraint) and section 4 (the GrokAlign penalty).
    Args:
        jacobian: the Jacobians, or an operator that computes products with them.
        rtol: for an operator, the relative error at which the estimation stops; default: 0.05.
        passes: for an operator, the largest number of products with each Jacobian; at least 16; default: 256. A warning
            says if they do not suffice.
        seed: for an operator, the seed of the random vectors, which are drawn independently of training's random
            numbers.
    Returns:
        In [0, ∞), unit: outputs per input. Invariant under rotations of inputs and of outputs; at a zero Jacobian its
        gradient is taken as zero. For an operator, an estimate.
    Raises:
        ShapeError: if the Jacobian has fewer than three axes.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, if the dtype does not hold the norms, or if rtol, passes or seed are out of
            range; for an operator, if the weights have changed since.
        UnsupportedModuleError: for an operator, if a layer has no second derivative, as products with it need.
    Cost: O(n c d). For an operator, 8 to 48 backward passes, and about 15 more products where few directions carry the
        norm; nothing if `explained_variance_ratio` or `stable_rank` was computed from it before, to the same accuracy.
    Example:
        >>> import torch, gnomon
        >>> gnomon.jacobian_norm(torch.tensor([[[3.0, 0.0], [0.0, 4.0]]]))
        tensor([5.])
    """
    if isinstance(jacobian, JacobianOperator):
        accuracy = Accuracy.of(rtol, passes, seed)
        return warn_if_inaccurate("jacobian_norm", norm_of(jacobian, accuracy), accuracy)
    _checks.samples(3, jacobian=jacobian)
    _checks.finite(jacobian=jacobian)
    norm = length(jacobian.flatten(1))
    _checks.held("jacobian", "a norm", norm)
    return norm
