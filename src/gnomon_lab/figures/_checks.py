"""What every figure asks of its numbers."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from gnomon.errors import RangeError, ShapeError


def all_finite(where: str, values: Sequence[float], label: str) -> None:
    """Raises RangeError that names the first NaN or infinity."""
    for i, value in enumerate(values):
        if not math.isfinite(value):
            raise RangeError(
                None,
                "finite numbers",
                f"{value} at index {i} of {label!r}",
                "Leave out what was not measured.",
                where=where,
            )


def palette_place(where: str, colour: int) -> None:
    """Raises RangeError unless `colour` is a place in the palette."""
    if colour < 0:
        raise RangeError(None, "a place in the palette from 0", colour, "Count from 0.", where=where)


def coordinates(
    where: str, shapes: Sequence[npt.NDArray[np.floating]], least: int, dimensions: int, label: str
) -> None:
    """Raises ShapeError or RangeError that names the first of `shapes` without `least` finite rows of coordinates."""
    for i, rows in enumerate(shapes):
        if rows.ndim != 2 or rows.shape[1] != dimensions or len(rows) < least:
            raise ShapeError(
                None,
                f"shape (v, {dimensions}), v >= {least}",
                f"{rows.shape} at index {i} of {label!r}",
                "Leave out what has no extent.",
                where=where,
            )
        if not np.isfinite(rows).all():
            raise RangeError(
                None,
                "finite coordinates",
                f"{rows.tolist()} at index {i} of {label!r}",
                "Look for the step at which training diverged.",
                where=where,
            )
