"""Checks of what users pass in; each raises one sentence: `where(argument): expected X, got Y. Do Z.`."""

import math
import operator
from collections.abc import Callable
from typing import Any, SupportsIndex, cast

import numpy as np
import torch
from torch import Tensor

from gnomon.errors import ArgumentTypeError, EmptyError, RangeError, ShapeError

SHOWN = 5
"""If many classes have no samples, this many are named."""
ROUNDED = 0.01
"""How far rounding, in half precision, puts a number of size 1 beyond its bounds."""
ONE_LOGIT = "For a binary classifier with one logit z, read the outputs (0, z): torch.cat([torch.zeros_like(z), z], 1)."
TARGETS = "For targets, measure a loss: functools.partial(training_loss, loss='mse'), or a function in place of 'mse'."


def shape_of(tensor: Tensor) -> str:
    """The shape as people write it: `(3, 64)`."""
    return str(tuple(tensor.shape))


def shape_of_samples(tensor: Tensor) -> str:
    """The shape of one entry per sample, of samples that a probe may have drawn: `(n, 64)`."""
    return f"({', '.join(map(str, ('n', *tensor.shape[1:])))}{',' if tensor.ndim == 1 else ''})"


def floating(**tensors: object) -> None:
    """Raises TypeError unless all are tensors, and RangeError unless they are floating-point."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise ArgumentTypeError(name, "a floating-point tensor", type(tensor).__name__, "Convert it to a tensor.")
        if not tensor.is_floating_point():
            raise RangeError(
                name,
                "a floating-point tensor",
                tensor.dtype,
                "Convert it, or, for tokens, pass their embeddings, as they are now if they are trained.",
            )


def dense(**tensors: Tensor) -> None:
    """Raises RangeError unless all are dense, and hold numbers."""
    for name, tensor in tensors.items():
        if tensor.device.type == "meta" or tensor.layout != torch.strided:
            got = "one on the meta device" if tensor.device.type == "meta" else f"one in {tensor.layout}"
            raise RangeError(name, "a dense tensor that holds numbers", got, "Convert it.")


def finite(**tensors: Tensor) -> None:
    """Raises a RangeError that names the first NaN or infinity and its index."""
    dense(**tensors)
    for name, tensor in tensors.items():
        # NaN and infinity always show in a sum, which is ten times as fast to compute as their places are to find.
        if torch.isfinite(tensor.detach().sum()):
            continue
        bad = ~torch.isfinite(tensor)
        if bad.any():
            index = tuple(bad.nonzero()[0].tolist())
            value = float(tensor.detach()[index])
            cause = "a diverged network is the usual cause."
            advice = "Leave such samples out." if name == "x" else f"Look at what produced {name}; {cause}"
            raise RangeError(name, "finite numbers", f"{value} at index {index}", advice)


def between(low: float | int, high: float | int, /, **tensors: Tensor) -> None:
    """Raises a RangeError that names the first number beyond these bounds by more than rounding; NaN passes."""
    for name, tensor in tensors.items():
        beyond = ((tensor < low - ROUNDED) | (tensor > high + ROUNDED)).nonzero()
        if len(beyond):
            index = tuple(beyond[0].tolist())
            raise RangeError(
                name,
                f"numbers in [{low:g}, {high:g}]",
                f"{float(tensor[index]):g} at index {index}",
                _advice(name, low, high),
            )


def _advice(name: str, low: float | int, high: float | int) -> str:
    """What may have produced numbers beyond these bounds."""
    if high == 0:
        return f"{name} is that of a probability: pass minus the loss."
    return f"Look at what produced {name}{'; shares are not per cent' if -1 <= low <= high <= 1 else ''}."


def numbers(name: str, values: object) -> Tensor:
    """The values as a tensor in float64.

    Raises:
        ShapeError: if they are in lists of different lengths.
        TypeError: if they are not numbers.
    """
    if not isinstance(values, Tensor) and hasattr(values, "__array__"):
        values = np.array(values)  # torch would index a pandas.Series, whose labels are no positions
    try:
        # Not on a default device, which may have no float64.
        return torch.as_tensor(
            values, dtype=torch.float64, device=values.device if isinstance(values, Tensor) else "cpu"
        )
    except (TypeError, ValueError) as error:
        kind = ShapeError if isinstance(error, ValueError) else ArgumentTypeError
        expected, advice = (
            "numbers, or lists of them of one length",
            "Leave out what is not a number, or pass a tensor.",
        )
        raise kind(name, expected, f"others: {error}", advice) from error


def held(name: str, what: str, result: Tensor) -> None:
    """Raises RangeError if the result of finite arguments is not finite: products are beyond its dtype's range."""
    if not torch.isfinite(result.detach()).all():
        wanted = f"{what} that {result.dtype} can hold"
        raise RangeError(name, wanted, "larger numbers", "Rescale it, or convert it to float64.")


def samples(least_dims: int = 2, **tensors: Tensor) -> None:
    """Raises unless every tensor has `least_dims` axes or more, the first of the same length n >= 1.

    If these are two or more, each sample must have entries.
    """
    first: tuple[str, Tensor] | None = None
    for name, tensor in tensors.items():
        if tensor.ndim < least_dims:
            raise ShapeError(
                name,
                f"at least {least_dims} axes, samples first",
                f"shape {shape_of(tensor)}",
                f"Add the missing axis, for one sample with {name}[None].",
            )
        if tensor.shape[0] == 0:
            raise EmptyError(name, "at least one sample", "none", "Pass a non-empty batch.")
        if least_dims > 1:
            entries(**{name: tensor})
        if first is None:
            first = (name, tensor)
        elif tensor.shape[0] != first[1].shape[0]:
            raise ShapeError(
                name,
                f"{first[1].shape[0]} samples as in {first[0]}",
                tensor.shape[0],
                "Pass the same samples in the same order.",
            )


def entries(**tensors: Tensor) -> None:
    """Raises EmptyError unless all tensors have entries."""
    for name, tensor in tensors.items():
        if tensor.numel() == 0:
            raise EmptyError(name, "entries", f"shape {shape_of(tensor)}", "Pass some.")


def rows(**tensors: Tensor) -> None:
    """Raises unless every tensor has two axes, the first of the same length n >= 1, and at least one entry per row."""
    samples(2, **tensors)
    for name, tensor in tensors.items():
        if tensor.ndim != 2:
            raise ShapeError(name, "two axes", f"shape {shape_of(tensor)}", "Pass one row each.")


def square(advice: str, **tensors: Tensor) -> None:
    """Raises a ShapeError with this advice unless all tensors are square matrices with entries."""
    for name, tensor in tensors.items():
        if tensor.ndim != 2 or tensor.shape[0] != tensor.shape[1] or not len(tensor):
            raise ShapeError(name, "a square matrix", f"shape {shape_of(tensor)}", advice)


def one_axis(**tensors: Tensor) -> None:
    """Raises unless every tensor has one axis, of at least one entry."""
    for name, tensor in tensors.items():
        samples(1, **{name: tensor})
        if tensor.ndim != 1:
            raise ShapeError(name, "one axis", f"shape {shape_of(tensor)}", "Flatten it.")


def same_shape(**tensors: Tensor) -> None:
    """Raises ShapeError unless all tensors have the same shape."""
    (first_name, first), *others = tensors.items()
    for name, tensor in others:
        if tensor.shape != first.shape:
            raise ShapeError(
                name,
                f"shape {shape_of(first)} as {first_name} has",
                shape_of(tensor),
                "Pass both at the same samples.",
            )


def one_device(**tensors: Tensor) -> None:
    """Raises RangeError unless all tensors are on one device."""
    (first_name, first), *others = tensors.items()
    for name, tensor in others:
        if tensor.device != first.device:
            raise RangeError(
                name, f"a tensor on {first.device}, like {first_name}", tensor.device, "Move one of the two."
            )


def settings(*settings: tuple[str, object, str, bool]) -> None:
    """Raises one RangeError for all settings, given as (name, value, wanted, right), that are not right.

    A whole number that does not fit into 64 bits is not right either, since no tensor accepts it.
    """
    wrong = [f"{name} {wanted}, got {value!r}" for name, value, wanted, right in settings if not right]
    wrong += [f"{name} below 2⁶³, got {value!r}" for name, value, _, right in settings if right and too_long(value)]
    if wrong:
        raise RangeError(None, "; ".join(wrong), None, f"Change {'these' if len(wrong) > 1 else 'it'}.")


def whole_number(
    name: str, value: object, least: int | None = None, most: int | None = None, *, optional: bool = False
) -> tuple[str, object, str, bool]:
    """The setting that is right if it is a whole number within these bounds, or None if it is `optional`."""
    bounds = "" if least is None else f" of at least {least}" if most is None else f" from {least} to {most}"
    return name, value, f"a whole number{bounds}", (optional and value is None) or whole(value, least, most)


def whole(value: object, least: int | None = None, most: int | None = None) -> bool:
    """Whether this is a whole number, of Python, NumPy or torch, within these bounds; True and False are none."""
    if isinstance(value, bool):
        return False
    try:
        number = operator.index(cast(SupportsIndex, value))
    except TypeError:
        return False
    return (least is None or number >= least) and (most is None or number <= most)


def at_least_0(name: str, value: object, *, optional: bool = False) -> tuple[str, object, str, bool]:
    """The setting that is right if it is finite and at least 0, or None if it is `optional`."""
    return name, value, "finite and at least 0", _lies(value, lambda v: 0 <= v < math.inf, optional)


def above_0(name: str, value: object, *, optional: bool = False) -> tuple[str, object, str, bool]:
    """The setting that is right if it is finite and above 0, or None if it is `optional`."""
    return name, value, "finite and above 0", _lies(value, lambda v: 0 < v < math.inf, optional)


def _lies(value: Any, inside: Callable[[Any], bool], optional: bool) -> bool:  # noqa: ANN401 - what users pass
    """Whether this is a number inside, or None if it is optional."""
    try:
        return optional if value is None else bool(inside(value))
    except TypeError:
        return False


def instance(name: str, value: object, protocol: type, wanted: str) -> tuple[str, object, str, bool]:
    """The setting that is right if it is an object, not a class, that has what the protocol asks for."""
    return name, value, f"an object {wanted}", isinstance(value, protocol) and not isinstance(value, type)


def is_floating(dtype: object) -> bool:
    """Whether this is a dtype of floating point."""
    return isinstance(dtype, torch.dtype) and dtype.is_floating_point


def too_long(value: object) -> bool:
    """Whether this is a whole number that does not fit into 64 bits."""
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def jacobian_at(jacobian: Tensor, x: Tensor) -> None:
    """Raises unless `jacobian` (n c *d) can be the Jacobian at `x` (n *d)."""
    samples(3, jacobian=jacobian)
    samples(2, jacobian=jacobian, x=x)
    if jacobian.shape[2:] != x.shape[1:]:
        raise ShapeError(
            "jacobian",
            f"trailing axes {tuple(x.shape[1:])} as in x",
            f"shape {shape_of(jacobian)}",
            "Pass the Jacobian (n, c, *d) taken at this x.",
        )


def outputs(logits: Tensor, labels: Tensor, targets: str = TARGETS) -> None:
    """Raises unless these are outputs, one row per sample, and their labels; `targets` advises where these are none."""
    samples(logits=logits)
    if logits.ndim != 2:
        raise ShapeError("logits", "shape (n, c)", shape_of(logits), "Pass one row of outputs per sample.")
    finite(logits=logits)
    class_labels(labels, len(logits), logits.shape[1], targets)


def class_labels(labels: Tensor, samples: int, classes: int, targets: str = TARGETS) -> None:
    """Raises unless `labels` are one class index per sample, from 0 to `classes` - 1."""
    if labels.shape != (samples,):
        alike = labels.shape[:1] == (samples,)
        expected, got = ("(n,)", shape_of_samples(labels)) if alike else (f"({samples},)", shape_of(labels))
        advice = "Pass one class index per sample."
        if labels.is_floating_point():
            advice += f" {targets}"
        raise ShapeError("labels", f"shape {expected}", got, advice)
    if classes == 1 and not labels.is_floating_point() and labels.min() >= 0 and labels.max() == 1:
        raise RangeError("labels", "class 0 alone, since there is one output", "0 to 1", ONE_LOGIT)
    if labels.is_floating_point() or labels.min() < 0 or labels.max().long() >= classes:
        raise RangeError(
            "labels",
            f"classes 0 to {classes - 1}",
            f"{labels.min().item()} to {labels.max().item()} in {labels.dtype}",
            "Count classes from 0, in whole numbers; more of them need more outputs, or a larger number of classes."
            + (f" {targets}" if labels.is_floating_point() else ""),
        )


def every_class(counts: Tensor) -> None:
    """Raises an EmptyError that names the first of the classes without samples, and says how many more there are."""
    missing = (counts == 0).nonzero().flatten()
    if len(missing) > 0:
        raise EmptyError(
            "labels",
            "samples of every class",
            f"none of {'class' if len(missing) == 1 else 'classes'} {some_of(missing)}",
            "Pass more samples, or number the classes that there are from 0.",
        )


def some_of(numbers: Tensor) -> str:
    """The first of these numbers, and how many more there are."""
    more = f" and {len(numbers) - SHOWN:,} more" if len(numbers) > SHOWN else ""
    return ", ".join(map(str, numbers[:SHOWN].tolist())) + more
