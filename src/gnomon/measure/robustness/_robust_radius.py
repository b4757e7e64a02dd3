"""How far a sample can move before the linear map around it changes its prediction."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.linalg import norm


@half_as_single
def robust_radius(jacobian: Float[Tensor, "n c *d"], x: Float[Tensor, "n *d"]) -> Float[Tensor, "n"]:
    r"""The $\ell_2$ distance from each sample to where the linear map $f(x) = Jx$ predicts another class.

    Reading:
        Low, high: 0: a small step changes the class. ∥x∥, the maximum: the class can be left only along the sample.
        Generalising: On unseen digits, relative to their length, 0.017 in a network that memorised, below the 0.040 at
            its initialisation; 0.368 in one that generalises. On MNIST it settles after the accuracy (anatomy).
        Misleads: It is that of the tangent map, without offset: with biases, or where regions end early, `deepfool`
            says more. The prediction counts, right or wrong.

    $\min_{j\ne y} (J_y - J_j)\,x / \|J_y - J_j\|$ with $y = \arg\max_k (Jx)_k$, exact for the linear map

    The map has no offset, like that of a ReLU network without biases, and is continued beyond its linear region: for
    the network the radius is a first-order estimate. The prediction, not the label, is used as y.

    Never above $\|x\|$, because a step of $-x$ makes all outputs equal; it is $\|x\|$ exactly when each $J_y - J_j$ is
    a positive multiple of x, that is for $J = \mathbf{c}\,x^\top + \mathbf{1}\,r^\top$ with any r and the largest entry
    of $\mathbf{c}$ at y only. Theorem 3 is the case of rank one (docs/errata.md). Unlike the map's gain, it does not
    depend on how large $\mathbf{c}$ is.

    Source:
        Walker et al., Jacobian Alignment Explains Grokking, theorem 3.
    Args:
        jacobian: the Jacobians; unit: outputs per input.
        x: the samples at which they were taken.
    Returns:
        In [0, ∥x∥] up to rounding, unit: inputs; 0 where two outputs tie for the largest, as at a zero Jacobian or
        sample; infinity where there is one output only. Invariant under positive scaling of the Jacobian, under adding
        one row to all rows, under permuting outputs, and under rotations of the inputs of both; grows in proportion
        with x.
    Raises:
        ShapeError: if the axes of the Jacobian after the second are not those of x.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity; if the dtype does not hold a radius.
    Cost: O(n c d).
    Example:
        >>> import torch
        >>> from gnomon import robust_radius
        >>> robust_radius(torch.tensor([[[3.0, 4.0], [0.0, 0.0]]]), torch.tensor([[1.0, 0.0]]))
        tensor([0.6000])
    """
    _checks.jacobian_at(jacobian, x)
    _checks.finite(jacobian=jacobian, x=x)
    # The largest entries are divided out, so that products neither underflow nor overflow.
    rows, sample = jacobian.flatten(2), x.flatten(1).unsqueeze(1)
    scale, unit = (part.detach().abs().amax((1, 2), keepdim=True) for part in (rows, sample))
    rows, sample = rows / torch.where(scale > 0, scale, 1), sample / torch.where(unit > 0, unit, 1)
    y = torch.linalg.vecdot(rows.detach(), sample.detach()).argmax(1, keepdim=True)
    apart = rows.take_along_dim(y.unsqueeze(2), 1) - rows
    del rows  # or there would be four Jacobians in memory, of which a Probe counts three
    # Equal rows tie everywhere: 0, not 0/0, and no derivative of a norm at 0.
    equal = (apart == 0).all(2)
    length = norm(apart.masked_fill(equal.unsqueeze(2), 1)).masked_fill(equal, torch.inf)
    radius = torch.linalg.vecdot(apart, sample).relu() / length * unit[:, 0]
    nearest = radius.scatter(1, y, torch.inf).amin(1)
    if apart.shape[1] > 1:
        _checks.held("x", "a radius", nearest)
    return nearest
