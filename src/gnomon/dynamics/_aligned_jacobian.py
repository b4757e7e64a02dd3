"""The Jacobian that a bounded network should have."""

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.linalg import length, unit


@half_as_single
def aligned_jacobian(
    x: Float[Tensor, "n *d"],
    labels: Int[Tensor, "n"],
    classes: int,
    norm: float | int,
    *,
    loss: Literal["cross_entropy", "mse"] = "cross_entropy",
) -> Float[Tensor, "n c *d"]:
    r"""The Jacobian of smallest loss among those of bounded norm, for outputs $f(x) = Jx$ without offset.

    Reading:
        Low, high: Not a number but the optimum: read the cosine of the network's own Jacobian with it, which is 1 at
            the optimum.
        Generalising: On digits the cosine stays at 0.016 in a network that memorised and rises to 0.485 in one that
            generalises.
        Misleads: Under the squared error the theorem behind it holds for small norms; above them other minimisers are
            as good (errata).

    $J = \mathrm{norm}\,\sqrt{\tfrac{c}{c-1}}\,(e_y - \tfrac1c\mathbf{1})\,\hat x^\top$ for cross-entropy and
    $J = \min(\mathrm{norm}, 1/\|x\|)\,e_y\,\hat x^\top$ for MSE, $\|f - e_y\|^2$, with $\hat x = x/\|x\|$

    For cross-entropy the minimiser is unique, its norm is the bound, and its rows sum to zero: its centroid is zero.
    For MSE the bound binds only up to $1/\|x\|$. Above that the loss is 0 for many Jacobians, not all of them aligned;
    the one returned has the least norm and is aligned (docs/errata.md).

    Source:
        Walker et al., Jacobian Alignment Explains Grokking, theorem 2 with $\alpha = \mathrm{norm}^2$. Departs from
        its proof for MSE where $\alpha > 1/\|x\|^2$.
    Args:
        x: the samples.
        labels: their classes, 0 to `classes` - 1.
        classes: the number c of outputs, at least 2.
        norm: the largest Frobenius norm allowed; unit: outputs per input.
        loss: "cross_entropy" or "mse".
    Returns:
        Unit: outputs per input. Of rank one, each row a multiple of x. Where x is zero, all Jacobians have the same
        loss, and the least of them is returned, zero.
    Raises:
        ShapeError: if labels are not (n).
        EmptyError: if there are no samples, or samples without entries.
        RangeError: at NaN or infinity, at a label that is not a class, or at a setting out of range.
    Cost: O(n c d).
    Example:
        >>> import torch
        >>> from gnomon import aligned_jacobian
        >>> aligned_jacobian(torch.tensor([[0.0, 2.0]]), torch.tensor([1]), 2, 3.0, loss="mse")
        tensor([[[0.0000, 0.0000],
                 [0.0000, 0.5000]]])
    """
    _checks.settings(
        _checks.whole_number("classes", classes, 2),
        _checks.at_least_0("norm", norm),
        ("loss", loss, "'cross_entropy' or 'mse'", loss in ("cross_entropy", "mse")),
    )
    largest = torch.finfo(x.dtype).max
    _checks.settings(("norm", norm, f"at most {largest:.3g}, the largest {x.dtype}", norm <= largest))
    _checks.samples(x=x)
    _checks.finite(x=x)
    _checks.class_labels(labels, len(x), classes)
    flat = x.flatten(1)
    target = functional.one_hot(labels.long(), classes).to(x.dtype)
    if loss == "cross_entropy":
        # The norm last: it may be the largest number there is, and the rest is at most 1.
        factors = math.sqrt(classes / (classes - 1)) * (target - 1 / classes) * norm
    else:
        lengths = length(flat).unsqueeze(1)
        binds = lengths * norm <= 1
        factors = target * torch.where(binds, norm, 1 / torch.where(binds, 1, lengths))
    return (factors.unsqueeze(2) * unit(flat).unsqueeze(1)).view(len(x), classes, *x.shape[1:])
