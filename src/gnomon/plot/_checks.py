"""What every figure asks of its numbers."""

import math
from collections.abc import Sequence

from gnomon.errors import RangeError


def all_finite(where: str, values: Sequence[float], label: str) -> None:
    """Raises RangeError that names the first NaN or infinity."""
    for i, value in enumerate(values):
        if not math.isfinite(value):
            raise RangeError(
                f"{where}: expected finite numbers, got {value} at index {i} of {label!r}. "
                "Leave out what was not measured."
            )


def palette_place(where: str, colour: int) -> None:
    """Raises RangeError unless `colour` is a place in the palette."""
    if colour < 0:
        raise RangeError(f"{where}: expected a place in the palette from 0, got {colour}. Count from 0.")
