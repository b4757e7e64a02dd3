"""Counts, means and deviations of samples by class, and checks of them."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon import _checks
from gnomon._warn import warn
from gnomon.errors import EmptyError, RangeError
from gnomon.linalg import Covariance, Dense

_CLOSE = 10
"""How many times their spread samples may be away from 0 before they are summed, or centred, about another point."""
_LOOK = 64
"""The number of samples from which the spread is judged."""


def further(
    counts: Int[Tensor, "k"], means: Float[Tensor, "k p"], features: Float[Tensor, "n p"], labels: Int[Tensor, "n"]
) -> tuple[Int[Tensor, "k"], Float[Tensor, "k p"], Float[Tensor, "n p"]]:
    r"""Counts and means after further samples, and the rows whose Gram product is added to the scatter.

    The result is that of adding the further samples' own `ClassMoments`, but needs no rows for the step between means:
    each class is centred not at its new mean $\mu_b$ but at $c = \mu_b - \sqrt{n_a/n}\,(\mu_b - \mu_a)$, about which
    the scatter of the new samples is their scatter about $\mu_b$ plus
    $n_b\frac{n_a}{n}(\mu_b - \mu_a)(\mu_b - \mu_a)^\top$.

    The means are given and returned in float64, whatever the features: means far from the origin differ by less than
    float32 resolves.
    """
    if len(counts) <= len(labels):
        return _further(counts, means, features, labels)
    # If there are many classes, most are not among these samples.
    there, labels = torch.unique(labels, return_inverse=True)
    total, moved, rows = _further(counts[there], means[there], features, labels)
    return counts.index_copy(0, there, total), means.index_copy(0, there, moved), rows


def _further(
    counts: Int[Tensor, "k"], means: Float[Tensor, "k p"], features: Float[Tensor, "n p"], labels: Int[Tensor, "n"]
) -> tuple[Int[Tensor, "k"], Float[Tensor, "k p"], Float[Tensor, "n p"]]:
    """The result of `further`, for all classes at once."""
    first = _one_of_each(features.detach(), labels, len(counts))
    close = _lie_close(features, labels, first)
    if close and features.dtype == means.dtype:
        # Relative to one sample of each class, since sums of the samples themselves would round at the mean's size.
        total, moved, rows = _from_origin(counts, means - first, features - first[labels], labels, close=False)
        return total, moved + first, rows
    return _from_origin(counts, means, features, labels, close=close)


def check_samples(features: Tensor, labels: Tensor, classes: int) -> None:
    """Raises unless the features (n *p) are finite and the labels (n) are classes."""
    if classes == 1:
        raise RangeError(None, "classes a whole number of at least 2", 1, _checks.ONE_LOGIT)
    _checks.settings(_checks.whole_number("classes", classes, 2))
    _checks.samples(features=features)
    _checks.finite(features=features)
    _checks.class_labels(labels, len(features), classes)


def check_classes(counts: Int[Tensor, "k"]) -> None:
    """Raises EmptyError unless two classes have samples, and warns if not all have some."""
    missing = (counts == 0).nonzero().flatten()
    there = len(counts) - len(missing)
    if there == 1:
        only = f"those of class {int(counts.argmax())} alone"
        raise EmptyError("labels", "samples of two classes or more", only, "Pass more samples.")
    if there < len(counts):
        ones = int((counts == 1).sum())
        warn(
            f"{len(missing):,} of {len(counts):,} classes without samples: {_checks.some_of(missing)}. What is "
            f"measured is of the {there:,} others, {ones:,} of them with one sample and so no spread within. If all "
            "should have some, pass more samples, or number the classes that there are from 0.",
        )


def warn_without_spread(what: str, counts: Int[Tensor, "k"]) -> None:
    """Warns if no class has two samples: then no sample is off its class mean, whatever the features."""
    if int(counts.max()) == 1:
        warn(
            f"{what} says nothing of the features, as no class has two samples: each sample is its class mean. Pass "
            "more samples of each class.",
        )


def roundings(terms: int) -> float:
    """How many epsilons a sum of this many terms may be off: for many terms, as random errors add up."""
    return float(min(terms, 4 * math.sqrt(terms)))


def resolution(means: Float[Tensor, "k p"], rounded_off: Float[Tensor, "k p"] | None) -> float:
    """By how much the means may be off, relative to their size: their dtype's epsilon, or its square with the rest."""
    eps = torch.finfo(means.dtype).eps
    return eps if rounded_off is None else eps**2


def centred(
    means: Float[Tensor, "k p"], shares: Float[Tensor, "k"], rounded_off: Float[Tensor, "k p"] | None = None
) -> Float[Tensor, "k p"]:
    """Means minus their mean by these shares, with differences within what the means may be off set to 0."""
    # From one of the means first, so that only differences are added up, and rounded at their own size.
    one = shares.argmax(0, keepdim=True)
    apart = means - means.detach()[one]
    if rounded_off is not None:
        apart.add_(rounded_off).sub_(rounded_off[one])
    apart.sub_(shares @ apart)
    size = torch.maximum(means.detach().amax(0), -means.detach().amin(0))
    small = apart.detach().abs() <= 2 * resolution(means, rounded_off) * size
    # Subtracted, not replaced, so that the gradient is that of the difference.
    return apart.sub_(torch.where(small, apart.detach(), 0))


def without(rows: Float[Tensor, "k p"], direction: Float[Tensor, "k"]) -> Float[Tensor, "k-1 p"]:
    """The rows reflected so that this direction comes first, which is then left out: without a k x k matrix."""
    unit = direction / torch.linalg.vector_norm(direction)
    sign = torch.where(unit[:1] < 0, -1, 1)
    normal = torch.cat([unit[:1] + sign, unit[1:]])
    return (rows - torch.outer(normal, normal @ rows) / (1 + unit[0].abs()))[1:]


def check_squares(within: Covariance, means: Float[Tensor, "k p"], centred_means: Float[Tensor, "k p"]) -> None:
    """Raises RangeError unless the means' dtype holds the squares of deviations; all may be 0."""
    scatter = within.trace().sqrt() if isinstance(within, Dense) else torch.linalg.vector_norm(within.rows)
    spread, size = torch.linalg.vector_norm(centred_means.detach()), torch.linalg.vector_norm(means.detach())
    deviation, about, mean = (float(part.detach()) for part in (scatter, spread, size))
    limits = torch.finfo(means.dtype)
    too_large = not max(deviation, about) < limits.max**0.5
    # Below this, the squares of values that still matter are no longer normal numbers.
    too_small = max(deviation, mean) < (limits.tiny / limits.eps) ** 0.5 and (deviation > 0 or bool(means.any()))
    if too_large or too_small:
        raise RangeError(
            "features",
            f"features whose squares {means.dtype} holds",
            f"too {('large' if too_large else 'small')} ones, with class means up to {float(means.abs().amax()):.3g}",
            "Pass float64, or rescale the features.",
        )


def first_of_each(labels: Int[Tensor, "n"], classes: int) -> Int[Tensor, "k"]:
    """The place of the first sample of each class; n where there is none."""
    past = labels.new_full((classes,), len(labels))
    return past.scatter_reduce(0, labels, torch.arange(len(labels), device=labels.device), "amin")


def _one_of_each(features: Float[Tensor, "n p"], labels: Int[Tensor, "n"], classes: int) -> Float[Tensor, "k p"]:
    """One sample of each class; 0 where there is none."""
    first = first_of_each(labels, classes)
    return torch.where((first < len(labels)).unsqueeze(1), features[first.clamp(max=len(labels) - 1)], 0)


def _lie_close(features: Float[Tensor, "n p"], labels: Int[Tensor, "n"], first: Float[Tensor, "k p"]) -> bool:
    """Whether samples of a class differ so little, relative to their size, that summing them would cost digits."""
    spread = (features[:_LOOK].detach() - first[labels[:_LOOK]]).square().mean(0).sqrt()
    return bool((first.abs().amax(0) > _CLOSE * spread).any())


def _from_origin(
    counts: Int[Tensor, "k"],
    means: Float[Tensor, "k p"],
    features: Float[Tensor, "n p"],
    labels: Int[Tensor, "n"],
    *,
    close: bool,
) -> tuple[Int[Tensor, "k"], Float[Tensor, "k p"], Float[Tensor, "n p"]]:
    """The result of `further`, by sums of the features as they are; if these lie close, what centres are rounded by."""
    added = torch.bincount(labels, minlength=len(counts))
    sums = torch.zeros_like(means)
    parts = _parts(features)
    for part in parts:
        sums.index_add_(0, labels[part], features[part].to(sums.dtype))
    mean = sums / added.clamp(min=1).unsqueeze(1)
    total = counts + added
    share = (added.to(means.dtype) / total.clamp(min=1)).unsqueeze(1)
    step = mean - means
    centre = mean - (1 - share).sqrt() * step
    rounded = centre.to(features.dtype)
    # In place, since a second tensor of this size takes as long to allocate as to fill.
    rows = rounded.neg().index_select(0, labels).add_(features)
    if close:
        rest, held = (centre - rounded).detach().to(features.dtype), rows.detach()
        for part in parts:
            held[part].sub_(rest.index_select(0, labels[part]))
    return total, means + share * step, rows


def _parts(features: Float[Tensor, "n p"]) -> list[slice]:
    """The samples by parts: on a processor those that its cache holds, elsewhere so many that launches do not count."""
    entries = 2**17 if features.is_cpu else 2**23
    size = max(1, entries // features.shape[1])
    return [slice(start, start + size) for start in range(0, len(features), size)]
