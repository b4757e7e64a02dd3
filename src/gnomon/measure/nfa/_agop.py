"""In which directions of the input the outputs move, on average."""

from typing import overload

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single, in_single
from gnomon.autodiff import FEW_OUTPUTS, RTOL, JacobianOperator
from gnomon.linalg import Estimate
from gnomon.measure._estimates import Accuracy, products_of, to_dtype, warn_if_inaccurate
from gnomon.measure._outer_products import mean_outer_product, of_matrix


@overload
def agop(jacobian: Float[Tensor, "n c *d"]) -> Float[Tensor, "p p"]: ...
@overload
def agop(
    jacobian: JacobianOperator, *, rtol: float | int = RTOL, passes: int | None = None, seed: int = 0
) -> Estimate: ...
@half_as_single
def agop(
    jacobian: Float[Tensor, "n c *d"] | JacobianOperator,
    *,
    rtol: float | int = RTOL,
    passes: int | None = None,
    seed: int = 0,
) -> Float[Tensor, "p p"] | Estimate:
    r"""The average gradient outer product: the uncentred covariance of the gradients of all outputs.

    Reading:
        Low, high: A large entry on the diagonal: the outputs react to that input. Its trace is the mean squared
            Jacobian norm.
        Generalising: On digits it is large in the middle, where digits differ, in a network that generalises; at the
            margins no less in one that memorised.
        Misleads: Inputs that hardly vary count like any others, though no loss sees them; rescaling an input rescales
            its entry.

    $G = \frac1n\sum_i J_i^\top J_i$, p = d for the input's axes flattened

    The mean squared change of the outputs for a small step u of the input is $u^\top G u$. Outputs are summed over, not
    averaged. `AGOP` computes the same for a network without its Jacobians, and at the input of any layer.

    Source:
        Beaglehole et al., arXiv:2402.13728, section 3.3. Departs from it in that samples are counted once (its sum runs
        over K times N of them; docs/errata.md).
    Args:
        jacobian: the Jacobians, or an operator that computes products with them; unit: outputs per input.
        rtol: for an operator, the relative error in Frobenius norm at which the estimation stops; default: 0.05.
        passes: for an operator, the largest number of products with each Jacobian; at least 16; default: 256. A warning
            says if they do not suffice.
        seed: for an operator, the seed of the random vectors, which are drawn independently of training's random
            numbers.
    Returns:
        Symmetric and positive semi-definite, of rank n c at most; unit: squared outputs per squared input. Invariant
        under rotations of the outputs; for $f(Ax)$ it is $A^\top G A$ with the G of f at Ax. For an operator, an
        estimate with a single error for G, which is exact if that needs no more products.
    Raises:
        ShapeError: if the Jacobian has fewer than three axes.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, if the dtype does not hold the matrix, or if rtol, passes or seed are out of
            range.
    Cost: O(n c p²) time, O(p²) memory. For an operator, about $(\operatorname{tr}G/\|G\|_F)^2 / (n\,\mathrm{rtol}^2)$
        backward passes: few where there are many samples, or few directions carry G. Precision: squares below the
        dtype's smallest number are 0, in float32 those of entries below 1e-23; `AGOP` keeps its sums in float64.
    Example:
        >>> import torch, gnomon
        >>> gnomon.agop(torch.tensor([[[2.0, 0.0]], [[0.0, 4.0]]]))
        tensor([[2., 0.],
                [0., 8.]])
    """
    if isinstance(jacobian, JacobianOperator):
        return _estimated(jacobian, Accuracy.of(rtol, passes, seed))
    _checks.samples(3, jacobian=jacobian)
    _checks.finite(jacobian=jacobian)
    matrix = _sum(jacobian) / len(jacobian)
    _checks.held("jacobian", "an AGOP", matrix)
    return matrix


def _sum(jacobian: Float[Tensor, "n c *d"]) -> Float[Tensor, "p p"]:
    rows = jacobian.reshape(jacobian.shape[0] * jacobian.shape[1], -1)
    return rows.mT @ rows


def _estimated(jacobian: JacobianOperator, accuracy: Accuracy) -> Estimate:
    """By random vectors, or exactly where outputs are few or nothing else comes close."""
    samples, outputs = jacobian.shape[:2]

    def exact() -> Float[Tensor, "p p"]:
        total = torch.zeros((), dtype=torch.float64, device=jacobian.device)
        for part in jacobian.parts():
            matrix = in_single(part.jacobian())
            _checks.finite(jacobian=matrix)
            total = total + _sum(matrix).double()  # a 0-dimensional total does not promote it
        return total / samples

    if outputs <= FEW_OUTPUTS:
        return to_dtype(of_matrix(exact(), outputs), jacobian.dtype)
    found, size = mean_outer_product(
        lambda: (products_of(part, accuracy.seed) for part in jacobian.parts()), exact, (samples, outputs), accuracy
    )
    kept = to_dtype(found, jacobian.dtype)
    warn_if_inaccurate("agop", found, accuracy, size)
    return kept
