"""The least-squares classifier of given features, and how much another classifier loses compared with it."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon.errors import RangeError, ShapeError
from gnomon.linalg import smaller
from gnomon.measure.collapse._class_moments import ClassMoments

FEW = 1024
"""Up to this many classes, the outputs at the class means are stored, k per class."""


def parts_of_loss(
    classifier: Tensor, bias: Tensor | None, class_moments: ClassMoments, weight_decay: float | int
) -> tuple[Tensor, ...]:
    """The parts of `MSEDecomposition`, in its order."""
    decays(weight_decay)
    weight, offset = in_dtype_of_moments(classifier, bias, class_moments)
    dtype = class_moments.means.dtype
    best, best_offset = fitted(class_moments, weight_decay, with_bias=bias is not None)
    # In float64 throughout: outputs at large means are differences of large numbers.
    class_moments, weight, offset = in_float64(class_moments), weight.double(), offset.double()
    nc1 = spread(best, best_offset, class_moments, weight_decay)
    nc23 = at_means(best, best_offset, class_moments, one_hot=True)
    away, offset_away = weight - best, offset - best_offset
    deviation = spread(away, offset_away, class_moments, weight_decay)
    deviation = deviation + at_means(away, offset_away, class_moments, one_hot=False)
    parts = nc1, nc23, nc1 + nc23, deviation, nc1 + nc23 + deviation
    _checks.held("classifier", "a loss", parts[-1].to(dtype))
    return tuple(part.to(dtype) for part in parts)


def fitted(
    class_moments: ClassMoments, weight_decay: float | int, *, with_bias: bool
) -> tuple[Float[Tensor, "k p"], Float[Tensor, "k"]]:
    r"""Weight and bias in float64, so that outputs at large means keep their digits.

    With $C = \Sigma_W + \Sigma_B + \lambda I$ and $W_0 = \sum_c w_c\,e_c(\mu_c - \mu_G)^\top C^{-1}$, the part of the
    mean is added last, by the Sherman-Morrison formula, so that nothing as large as its square is ever added to the
    covariance: $W_{LS} = W_0 + \theta\,(w - W_0\mu_G)\,(C^{-1}\mu_G)^\top / (1 + \theta\,\mu_G^\top C^{-1}\mu_G)$.
    Where C has a kernel and the mean has a part m in it, that part alone determines this term:
    $(w - W_0\mu_G)\,m^\top/\|m\|^2$.
    """
    # A direction within the rounding of the moments' own dtype is not a direction of the features.
    eps = torch.finfo(class_moments.means.dtype).eps
    moments = in_float64(class_moments)
    shares, mean = moments.weights, moments.global_mean
    theta = weight_decay / (1 + weight_decay) if with_bias else 1.0
    root = shares.sqrt().unsqueeze(1)
    rows = root * moments.centred_means
    covariance = moments.within / moments.n.to(shares.dtype)
    if not torch.isfinite((covariance.trace() + rows.square().sum() + mean.square().sum()).detach()):
        raise RangeError(
            "class_moments",
            "features whose squares are finite",
            "larger ones",
            "Take the features in another unit.",
        )
    weight = root * covariance.regression(rows, weight_decay, eps)
    if theta > 0:
        inside, beyond = (covariance + smaller(rows)).solve(mean, weight_decay, eps)
        least = 10 * len(mean) * eps * torch.linalg.vector_norm(mean.detach())
        apart = torch.linalg.vector_norm(beyond.detach()) > least
        along = theta * inside / (1 + theta * (mean @ inside))
        along = torch.where(apart, beyond / torch.where(apart, beyond.square().sum(), 1), along)
        weight = weight + torch.outer(shares - weight @ mean, along)
    return weight, (shares - weight @ mean) / (1 + weight_decay) if with_bias else torch.zeros_like(shares)


def in_float64(class_moments: ClassMoments) -> ClassMoments:
    """The same moments in float64."""
    return ClassMoments(
        class_moments.counts, class_moments.precise_means.double(), class_moments.within.to(torch.float64)
    )


def decays(weight_decay: float | int) -> None:
    """Raises RangeError unless the weight decay is finite and not negative."""
    _checks.settings(("weight_decay", weight_decay, "finite and at least 0", 0 <= weight_decay < math.inf))


def spread(weight: Tensor, offset: Tensor, class_moments: ClassMoments, weight_decay: float | int) -> Tensor:
    """Half the mean squared output around the class means, plus the weight decay."""
    within = class_moments.within.quadratic_trace(weight) / class_moments.n
    return (within + weight_decay * (weight.square().sum() + offset.square().sum())) / 2


def at_means(weight: Tensor, offset: Tensor, class_moments: ClassMoments, *, one_hot: bool) -> Tensor:
    r"""Half the mean squared distance of the class means' outputs from their labels, or from 0, weighted by share.

    For many classes, whose means no classifier maps to their labels, it is computed without the k x k outputs: with
    $r = W\mu_G + b$, and since $\sum_c w_c(\mu_c - \mu_G) = 0$, it is half of
    $\operatorname{tr}W\Sigma_B W^\top + \|r\|^2 - 2\sum_c w_c(\langle W_c, \mu_c - \mu_G\rangle + r_c) + 1$.
    """
    shares, centred = class_moments.weights, class_moments.centred_means
    middle = weight @ class_moments.global_mean + offset
    if len(weight) <= max(FEW, weight.shape[1] + 1):
        # In this order, outputs at means far from the origin cancel only once, in a vector.
        outputs = centred @ weight.mT + middle
        eye = torch.eye(len(weight), dtype=weight.dtype, device=weight.device)
        return (shares @ (outputs - eye if one_hot else outputs).square()).sum() / 2
    square = smaller(shares.sqrt().unsqueeze(1) * centred).quadratic_trace(weight) + middle.square().sum()
    if one_hot:
        square = square - 2 * (shares @ ((weight * centred).sum(1) + middle)) + 1
    return square / 2


def in_dtype_of_moments(classifier: Tensor, bias: Tensor | None, class_moments: ClassMoments) -> tuple[Tensor, Tensor]:
    """Checked weight and bias in the moments' dtype; the bias is zero if there is none."""
    means = class_moments.means
    _checks.same_shape(class_means=means, classifier=classifier)
    offset = torch.zeros_like(classifier[:, 0]) if bias is None else bias
    if offset.shape != classifier.shape[:1]:
        raise ShapeError(
            "bias",
            f"shape ({len(classifier)},)",
            _checks.shape_of(offset),
            "Pass one number per class, or None.",
        )
    _checks.finite(classifier=classifier, bias=offset)
    for name, tensor in (("classifier", classifier), ("bias", offset)):
        if torch.promote_types(tensor.dtype, means.dtype) != means.dtype:
            raise RangeError(
                "class_moments",
                f"moments at least as precise as {name}, {tensor.dtype}",
                means.dtype,
                f"Take them of features in {tensor.dtype}, or with ClassStatistics.",
            )
    return classifier.to(means.dtype), offset.to(means.dtype)
