"""What every figure requires of its numbers."""

import math
from collections.abc import Sequence, Sized

import numpy as np
import numpy.typing as npt

from gnomon.errors import EmptyError, RangeError, ShapeError


def some(argument: str, things: Sized, what: str, of: str) -> None:
    """Raises EmptyError unless there is at least one of the things."""
    if not len(things):
        raise EmptyError(argument, f"at least one {what}", f"none in {of!r}", "Add one, or leave out what has none.")


def as_many(x: Sequence[float], of: str, **others: Sequence[float] | None) -> None:
    """Raises unless there is at least one x, the others have as many values, and all are finite."""
    some("x", x, "point", of)
    all_finite("x", x, of)
    for name, values in others.items():
        if values is not None:
            if len(values) != len(x):
                raise ShapeError(name, f"as many as x has, {len(x)}", f"{len(values)} in {of!r}", "Pass one per point.")
            all_finite(name, values, of)


def all_finite(argument: str, values: Sequence[float], of: str) -> None:
    """Raises a RangeError that names the first NaN or infinity."""
    for i, value in enumerate(values):
        if not math.isfinite(value):
            got = f"{value} at index {i} of {of!r}"
            raise RangeError(argument, "finite numbers", got, "Leave out what was not measured.")


def palette_place(colour: int) -> None:
    """Raises RangeError unless `colour` is a place in the palette."""
    if colour < 0:
        raise RangeError("colour", "a place in the palette from 0", colour, "Count from 0.")


def above_0(argument: str, values: Sequence[float], what: str, of: str) -> None:
    """Raises RangeError unless a logarithmic axis, which `argument` requests, can show all values."""
    if (least := min(values)) <= 0:
        raise RangeError(
            argument, f"{what} above 0 everywhere", f"{least:g} in {of!r}", f"Set {argument}=False, or leave that out."
        )


def coordinates(
    argument: str, shapes: Sequence[npt.NDArray[np.floating]], least: int, dimensions: int, of: str
) -> None:
    """Raises a ShapeError or RangeError that names the first of `shapes` without `least` finite rows of coordinates."""
    for i, rows in enumerate(shapes):
        if rows.ndim != 2 or rows.shape[1] != dimensions or len(rows) < least:
            expected = f"shape (v, {dimensions}), v >= {least}"
            raise ShapeError(
                argument, expected, f"{rows.shape} at index {i} of {of!r}", "Leave out what is not a shape."
            )
        if not np.isfinite(rows).all():
            got = f"{rows.tolist()} at index {i} of {of!r}"
            raise RangeError(argument, "finite coordinates", got, "Look for the step at which training diverged.")
