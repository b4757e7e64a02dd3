"""The least-squares classifier of given features, and how much another classifier loses compared with it."""

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from gnomon import _checks
from gnomon.errors import RangeError, ShapeError
from gnomon.linalg import Covariance, Factored, identity, psd_root, pseudo_inverse, smaller
from gnomon.measure._by_class import without
from gnomon.measure._moments import ClassMoments

FEW = 1024
"""Up to this many classes, matrices of k x k are made."""
LEAST = 1e-12
"""A weight decay below p times this share of a feature's variance within classes would be lost in rounding."""


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
    nc1 = loss_about_means(best, best_offset, class_moments, weight_decay)
    nc23 = at_means(best, best_offset, class_moments, one_hot=True)
    away, offset_away = weight - best, offset - best_offset
    deviation = loss_about_means(away, offset_away, class_moments, weight_decay)
    deviation = deviation + at_means(away, offset_away, class_moments, one_hot=False)
    total = loss_about_means(weight, offset, class_moments, weight_decay) + at_means(
        weight, offset, class_moments, one_hot=True
    )
    parts = nc1, nc23, nc1 + nc23, deviation, total
    _checks.held("classifier", "a loss", parts[-1].to(dtype))
    return tuple(part.to(dtype) for part in parts)


def fitted(
    class_moments: ClassMoments, weight_decay: float | int, *, with_bias: bool
) -> tuple[Float[Tensor, "k p"], Float[Tensor, "k"]]:
    r"""Weight and bias in float64, so that outputs at large means keep their digits.

    The weight minimises $\operatorname{tr}W(\Sigma_W + \lambda I)W^\top + \|AW^\top - T\|^2$ with the rows
    $\sqrt{w_c}(\mu_c - \mu_G)^\top$ and, where the bias does not take the mean away, $\sqrt\theta\mu_G^\top$ in A,
    and $\sqrt{w_c}\,e_c^\top$ and $\sqrt\theta w^\top$ in T.
    """
    # A direction within the rounding of the moments' own dtype is not a direction of the features.
    eps = torch.finfo(class_moments.means.dtype).eps
    moments = in_float64(class_moments)
    shares, mean = moments.weights, moments.global_mean
    theta = weight_decay / (1 + weight_decay) if with_bias else 1.0
    root = shares.sqrt()
    rows = root.unsqueeze(1) * moments.centred_means
    within = moments.within / moments.n.to(shares.dtype)
    if not torch.isfinite((within.trace() + rows.square().sum() + mean.square().sum()).detach()):
        raise RangeError(
            "class_moments",
            "features whose squares are finite",
            "larger ones",
            "Rescale the features.",
        )
    blocks = [of_means(rows, root)]
    if theta > 0:
        blocks.append((math.sqrt(theta) * mean[None], math.sqrt(theta) * shares[None]))
    rounding = eps * torch.linalg.vector_norm(moments.means.detach(), dim=0)
    weight = regression(within, blocks, weight_decay, eps, rounding)
    return weight, (shares - weight @ mean) / (1 + weight_decay) if with_bias else torch.zeros_like(shares)


def of_means(rows: Float[Tensor, "k p"], root: Float[Tensor, "k"]) -> tuple[Float[Tensor, "m p"], Float[Tensor, "m k"]]:
    """The class means' rows of A and T; for many classes p rows with the same products."""
    if len(rows) <= max(FEW, rows.shape[1]):
        return without(rows, root), without(root.diag(), root)
    held = psd_root(rows.mT @ rows)
    return held, pseudo_inverse(held, torch.finfo(held.dtype).eps) @ (root.unsqueeze(1) * rows).mT


def regression(
    within: Covariance,
    blocks: Sequence[tuple[Tensor, Tensor]],
    shift: float | int,
    eps: float,
    rounding: Float[Tensor, "p"],
) -> Float[Tensor, "k p"]:
    r"""The minimiser W of $\operatorname{tr}W(\Sigma + \mathrm{shift}\,I)W^\top + \|AW^\top - T\|^2$ of least norm.

    With $M = (\Sigma + \mathrm{shift}\,I)^{-1}$ it is $T^\top(I + AMA^\top)^{-1}AM$ (Woodbury): however small Σ is
    beside $A^\top A$, as it is of collapsed features, the two are never added up. Where Σ has a kernel, M is its
    pseudo-inverse; along the part N of A in the kernel W fits T at no cost, and what is left to M is $P = I - NN^+$.

    Args:
        within: Σ.
        blocks: the rows of A and of T, in blocks of rows that are of one size, with one rounding.
        shift: at least 0.
        eps: the relative rounding of Σ and A; of an entry of Σ, in units of the spreads of its two features.
        rounding: how far rounding moves each feature.
    """
    rows, targets = (torch.cat(parts) for parts in zip(*blocks, strict=True))
    if shift > 0:
        # Rows are as exact as the features themselves, however small the shift.
        least = (LEAST if isinstance(within, Factored) else max(eps, LEAST)) * rows.shape[1]
        clamped = (least * within.diagonal().detach()).clamp(min=shift)
        return by_woodbury(rows, targets, lambda turned: within.shifted_solve(turned, clamped))
    # With every feature at spread 1, so that a wide one does not make the others look like rounding.
    scale = spreads(within, [part.detach() for part, _ in blocks], rounding)
    alike, apart, sizes = within.over(scale), rows / scale, [len(part) for part, _ in blocks]
    weight, kernel = without_shift(alike, apart, targets, sizes, eps, rounding / scale)
    return of_least_norm(weight / scale, torch.cat([alike.spanning(eps), kernel]) * scale)


def spreads(within: Covariance, blocks: Sequence[Tensor], rounding: Float[Tensor, "p"]) -> Float[Tensor, "p"]:
    """The features' spreads within classes.

    Where rounding explains them, those of the first block of rows which it does not explain; or its own size, or 1.
    """
    spread = within.diagonal().detach().sqrt()
    for rows in blocks:
        between = torch.linalg.vector_norm(rows, dim=0)
        spread = torch.where(spread > rounding, spread, torch.maximum(between, rounding))
    return torch.where(spread > 0, spread, 1)


def without_shift(
    within: Covariance,
    rows: Float[Tensor, "m p"],
    targets: Float[Tensor, "m k"],
    sizes: list[int],
    eps: float,
    rounding: Float[Tensor, "p"],
) -> tuple[Float[Tensor, "k p"], Float[Tensor, "r p"]]:
    """A minimiser for features of spread 1, and linearly independent rows that span the part of A in Σ's kernel."""
    solve = within.pseudo_solver(eps)
    along, beyond = solve(rows)
    kernel = beyond[:0]
    for part, inside, own in zip(*(torch.split(each, sizes) for each in (rows, along, beyond)), strict=True):
        known = own @ torch.linalg.pinv(kernel) @ kernel
        kernel = torch.cat([kernel, known + distinct(own - known, part, inside, within, eps, rounding)])
    fits = torch.linalg.pinv(kernel)
    left = identity(rows @ rows.mT) - kernel @ fits
    weight = by_woodbury(left @ rows, left @ targets, lambda turned: solve(turned)[0])
    return weight + (targets.mT - weight @ rows.mT) @ fits.mT, independent(kernel)


def independent(rows: Float[Tensor, "m p"]) -> Float[Tensor, "r p"]:
    """As many combinations of rows as their rank."""
    left, sizes, _ = torch.linalg.svd(rows.detach(), full_matrices=False)
    return left[:, sizes > max(rows.shape) * torch.finfo(rows.dtype).eps * sizes[:1]].mT @ rows


def of_least_norm(weight: Float[Tensor, "k p"], rows: Float[Tensor, "r p"]) -> Float[Tensor, "k p"]:
    """The weight's part in the span of linearly independent rows, which has the same products with them."""
    if len(rows) == rows.shape[1]:
        return weight
    basis, _ = torch.linalg.qr(rows.mT)
    return weight @ basis @ basis.mT


def by_woodbury(
    rows: Float[Tensor, "m p"],
    targets: Float[Tensor, "m k"],
    multiply: Callable[[Float[Tensor, "m p"]], Float[Tensor, "m p"]],
) -> Float[Tensor, "k p"]:
    r"""$T^\top(I + AMA^\top)^{-1}AM$ for the rows of A and T and what multiplies rows by M.

    A rotation of the rows changes nothing. It separates those of different sizes first, so that where A has a null
    vector, as of more classes than features or of means that coincide, no 1 stands beside the entries of M.
    """
    left, sizes, _ = torch.linalg.svd(rows.detach(), full_matrices=len(rows) > rows.shape[1])
    rows, targets = left.mT @ rows, left.mT @ targets
    sizes = functional.pad(sizes, (0, len(rows) - len(sizes)))
    null = sizes <= max(rows.shape) * torch.finfo(rows.dtype).eps * sizes[:1]
    # Subtracted, not replaced, so that the gradient is that of the row.
    rows = rows - torch.where(null.unsqueeze(1), rows.detach(), 0)
    along = multiply(rows)
    return targets.mT @ inverse_of_scaled(identity(rows @ rows.mT) + rows @ along.mT) @ along


def inverse_of_scaled(matrix: Float[Tensor, "m m"]) -> Float[Tensor, "m m"]:
    """The inverse of the identity plus a positive semidefinite matrix, whose rows may be of very different sizes."""
    diagonal = matrix.diagonal().detach()
    if not (diagonal > 0).all():
        raise RangeError(
            "class_moments",
            "a covariance within classes whose eigenvalues are not negative",
            "negative ones",
            "Take the moments of features, and do not round them to half precision.",
        )
    scale = diagonal.rsqrt()
    return scale.unsqueeze(1) * torch.linalg.inv(scale.unsqueeze(1) * matrix * scale) * scale


def distinct(
    beyond: Float[Tensor, "m p"],
    rows: Float[Tensor, "m p"],
    along: Float[Tensor, "m p"],
    within: Covariance,
    eps: float,
    rounding: Float[Tensor, "p"],
) -> Float[Tensor, "m p"]:
    r"""The parts of rows A beyond the range of Σ, without those that rounding or a spread left out explain.

    Rounding tilts the range, and so moves parts of A out of it: that of Σ by as much as it changes $A\Sigma^+\Sigma$,
    where $A\Sigma^+$ is `along`, and that of the features by $\sqrt{A\Sigma^+A^\top}$, what A is of their spread.
    """
    left, sizes, right = torch.linalg.svd(beyond.detach(), full_matrices=False)
    rows, along = left.mT @ rows.detach(), left.mT @ along.detach()
    tilt = torch.linalg.vector_norm(rounding * right, dim=1) * (rows * along).sum(1).clamp(min=0).sqrt()
    tilt = tilt + eps * within.trace().detach() * torch.linalg.vector_norm(along, dim=1)
    spread = within.variances(right).detach().sqrt()
    own = rows.shape[1] * eps * torch.linalg.matrix_norm(rows)
    apart = sizes > 10 * torch.maximum(torch.maximum(spread, own), tilt)
    # What is left out is exactly 0, and the gradient is that of the whole.
    return (left * apart) @ left.mT @ beyond.detach() + (beyond - beyond.detach())


def in_float64(class_moments: ClassMoments) -> ClassMoments:
    """The same moments in float64."""
    return ClassMoments(
        class_moments.counts, class_moments.precise_means.double(), class_moments.within.to(torch.float64)
    )


def decays(weight_decay: float | int) -> None:
    """Raises RangeError unless the weight decay is finite and not negative."""
    _checks.settings(_checks.at_least_0("weight_decay", weight_decay))


def loss_about_means(weight: Tensor, offset: Tensor, class_moments: ClassMoments, weight_decay: float | int) -> Tensor:
    """Half the mean squared output around the class means, plus the weight decay."""
    within = class_moments.within.variances(weight).sum() / class_moments.n
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
        return (shares @ (outputs - identity(outputs) if one_hot else outputs).square()).sum() / 2
    square = smaller(shares.sqrt().unsqueeze(1) * centred).variances(weight).sum() + middle.square().sum()
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
                f"Take them of features in {tensor.dtype}.",
            )
    return classifier.to(means.dtype), offset.to(means.dtype)
