"""What every data set is: inputs and integer labels, side by side; and the two ways to rescale the inputs."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon import _checks
from gnomon._kinds import checked, kinds_of
from gnomon.errors import ArgumentTypeError, RangeError, ShapeError

Numbers = float | int | Sequence[float | int]
"""One for all channels, or one for each."""


class Samples(NamedTuple):
    """Inputs and their classes; sample i is `x[i]` with class `labels[i]`.

    Attributes:
        x: the inputs, in whatever unit the function that made them states.
        labels: the class of each sample, an integer from 0.
    """

    x: Float[Tensor, "n *d"]
    labels: Int[Tensor, "n"]


@checked
def standardise(train: Samples, *others: Samples) -> tuple[Samples, ...]:
    r"""Give every feature of `train` mean 0 and standard deviation 1, and map the others by the same affine function.

    $x \mapsto (x - m) / s$ with $m$ and $s^2$ the mean and the (population) variance of each feature over
    `train`. A feature that is constant on `train` is only centred: it becomes exactly 0 there. So is one whose variance
    is too small for the dtype.

    Args:
        train: the samples that define mean and standard deviation.
        others: samples of the same feature shape; their own statistics play no part.

    Returns:
        `train` and `others`, in this order, without unit; labels, dtype and device kept.

    Raises:
        EmptyError: `train` has no samples.
        RangeError: an input holds NaN or infinity, or is not of floating point; its dtype does not hold the mean, the
            variance or what comes out; or labels are not whole numbers.
        ShapeError: an input of `others` has another feature shape; or there is not one label per sample.

    Example:
        >>> train = Samples(torch.tensor([[0.0, 7.0], [2.0, 7.0]]), torch.tensor([0, 1]))
        >>> standardise(train)[0].x
        tensor([[-1.,  0.],
                [ 1.,  0.]])
    """
    _check("train", train)
    _checks.samples(least_dims=1, train=train.x)
    for i, other in enumerate(others):
        name = f"others[{i}]"
        _check(name, other)
        if other.x.shape[1:] != train.x.shape[1:]:
            raise ShapeError(
                name,
                f"features of shape {tuple(train.x.shape[1:])} as in train",
                tuple(other.x.shape[1:]),
                "Standardise data sets of different shapes separately.",
            )
    # Constant features are found by comparison, not by a zero standard deviation: the rounded mean of n equal numbers
    # need not equal them.
    constant = train.x.amin(dim=0) == train.x.amax(dim=0)
    # Of features far from the origin a mean is rounded by more than they differ: they are moved there first.
    far = train.x.mean(dim=0).abs() * torch.finfo(train.x.dtype).eps ** 0.5 > train.x.std(dim=0, correction=0)
    origin = torch.where(far | constant, train.x[0], 0)
    moved = train.x - origin
    mean, deviation = moved.mean(dim=0), moved.std(dim=0, correction=0)
    deviation = torch.where(constant | (deviation == 0), 1.0, deviation)
    parts = {"train": train, **{f"others[{i}]": other for i, other in enumerate(others)}}
    return tuple(_rescaled(name, part, part.x - origin - mean, deviation) for name, part in parts.items())


@checked
def normalise(samples: Samples, mean: Numbers, std: Numbers) -> Samples:
    r"""Shift and scale by given numbers, $x \mapsto (x - m) / s$: one for all, or one per channel.

    Args:
        samples: the samples; dimension 1 of `x` is the channel (or the feature, for flat inputs).
        mean: $m$, in the unit of `x`.
        std: $s$, in the unit of `x`, positive.

    Returns:
        The rescaled samples; labels, dtype and device kept.

    Raises:
        RangeError: a mean is not finite, or a standard deviation not finite and positive; `x` holds NaN or infinity, is
            not of floating point, or in a dtype that does not hold what comes out; or labels are not whole numbers.
        ShapeError: a sequence does not have one number per channel; or there is not one label per sample.

    Example:
        >>> images = Samples(torch.ones(1, 2, 1, 1), torch.tensor([0]))
        >>> normalise(images, mean=0.5, std=[0.5, 0.25]).x.flatten()
        tensor([1., 2.])
    """
    _check("samples", samples)
    m = _per_channel("mean", mean, samples.x)
    s = _per_channel("std", std, samples.x)
    if not (s > 0).all():
        raise RangeError("std", "positive numbers", std, "Leave constant channels out.")
    return _rescaled("samples", samples, samples.x - m, s)


def _rescaled(name: str, samples: Samples, shifted: Tensor, deviation: Tensor) -> Samples:
    """The samples, shifted and scaled, in their own dtype; RangeError if that does not hold them."""
    x = (shifted / deviation).to(samples.x.dtype)
    _checks.held(name, "rescaled inputs", x)
    return samples._replace(x=x)


def _check(name: str, samples: Samples) -> None:
    """Raises unless these are inputs, finite and of floating point, and one whole number for each."""
    if not isinstance(samples, Samples):
        raise ArgumentTypeError(name, "Samples", type(samples).__name__, "Pass Samples(x, labels).")
    for field, kind in kinds_of(Samples).items():
        kind.check(name if field == "x" else f"{name}.{field}", getattr(samples, field))
    x, labels = samples
    _checks.finite(**{name: x})
    if labels.ndim != 1 or labels.shape != x.shape[:1]:
        raise ShapeError(
            f"{name}.labels",
            "one class index per sample",
            f"shape {_checks.shape_of(labels)} beside inputs of shape {_checks.shape_of(x)}",
            "Pass inputs (n, ...) and labels (n,).",
        )
    if labels.is_floating_point():
        raise RangeError(f"{name}.labels", "whole numbers", labels.dtype, "Count classes from 0.")


def _per_channel(name: str, value: Numbers, x: Tensor) -> Tensor:
    numbers = _checks.numbers(name, value).to(x)
    if not numbers.isfinite().all():
        raise RangeError(name, "finite numbers", value, "Compute them from finite data.")
    if numbers.ndim == 0:
        return numbers
    if x.ndim < 2 or numbers.shape != x.shape[1:2]:
        raise ShapeError(
            name,
            f"one number, or one for each channel of x {tuple(x.shape)}",
            f"shape {tuple(numbers.shape)}",
            "Pass a float, or a flat sequence as long as x.shape[1].",
        )
    return numbers.reshape(-1, *[1] * (x.ndim - 2))
