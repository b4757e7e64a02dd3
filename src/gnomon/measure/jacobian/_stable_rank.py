"""How many directions carry the Jacobian."""

from typing import overload

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.autodiff import RTOL, JacobianOperator
from gnomon.linalg import Estimate, top_share
from gnomon.measure._estimates import Accuracy, FirstAndNorm, estimated, warn_if_inaccurate


@overload
def stable_rank(jacobian: Float[Tensor, "n c *d"]) -> Float[Tensor, "n"]: ...
@overload
def stable_rank(
    jacobian: JacobianOperator, *, rtol: float | int = RTOL, passes: int | None = None, seed: int = 0
) -> Estimate: ...
@half_as_single
def stable_rank(
    jacobian: Float[Tensor, "n c *d"] | JacobianOperator,
    *,
    rtol: float | int = RTOL,
    passes: int | None = None,
    seed: int = 0,
) -> Float[Tensor, "n"] | Estimate:
    r"""The squared norm over the first singular value's square: how many directions, each as strong, would carry it.

    Reading:
        Low, high: 1: one direction of the input moves all outputs. min(c, d): as many equal directions as possible.
        Generalising: It is one over PC1: on digits 1.5 where PC1 is 0.67, in a network that generalises, 3.4 where it
            is 0.29, in one that memorised.
        Misleads: Where PC1 does; also, its mean over samples is not one over the mean of PC1.

    $\|J\|_F^2 / \sigma_1^2$

    One over `explained_variance_ratio`. For all samples together, `effective_rank` is the same quantity of the AGOP.

    Source:
        Rudelson, Vershynin, Sampling from Large Matrices, arXiv:math/0503442, as the numerical rank; Ipsen, Saibaba,
        Stable Rank and Intrinsic Dimension of Real and Complex Matrices, arXiv:2407.21594.
    Args:
        jacobian: the Jacobians, or an operator that computes products with them.
        rtol: for an operator, the relative error at which the estimation stops; default: 0.05.
        passes: for an operator, the largest number of products with each Jacobian; at least 16; default: 256. A warning
            says if they do not suffice.
        seed: for an operator, the seed of the random vectors, which are drawn independently of training's random
            numbers.
    Returns:
        In [1, min(c, d)], and at most the rank, up to rounding; 0 for a zero Jacobian. Invariant under scaling and
        under rotations of inputs and of outputs. For an operator, an estimate.
    Raises:
        ShapeError: if the Jacobian has fewer than three axes.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, or if rtol, passes or seed are out of range; for an operator, if the weights
            have changed since.
        UnsupportedModuleError: for an operator, if a layer has no second derivative, as products with it need.
    Cost: O(n c² d), through the c × c Gram matrix (d × d where d < c). For an operator, that of
        `explained_variance_ratio`.
    Example:
        >>> import torch, gnomon
        >>> gnomon.stable_rank(torch.tensor([[[2.0, 0.0], [0.0, 1.0]]]))
        tensor([1.2500])
    """
    if isinstance(jacobian, JacobianOperator):
        accuracy = Accuracy.of(rtol, passes, seed)
        found = estimated(
            jacobian,
            accuracy,
            lambda matrix, _: _of_matrix(matrix),
            lambda products, _: FirstAndNorm.kept(jacobian, products, accuracy).stable_rank(),
        )
        return warn_if_inaccurate("stable_rank", found, accuracy)
    _checks.samples(3, jacobian=jacobian)
    _checks.finite(jacobian=jacobian)
    return _of_matrix(jacobian)


def _of_matrix(jacobian: Float[Tensor, "n c *d"]) -> Float[Tensor, "n"]:
    """From the share of the first direction, which is 0 for a zero Jacobian alone."""
    share = top_share(jacobian.reshape(*jacobian.shape[:2], -1))
    return torch.where(share > 0, 1 / torch.where(share > 0, share, 1), 0)
