"""Curves in braille characters: two columns and four rows of dots per character."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gnomon_lab.watching.curves import LOGARITHMIC, Numbers, Steps

Places = npt.NDArray[np.int64]

DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""The bits of a character's dots: its left column from the top, and its right one."""
BLANK = 0x2800


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`; what a logarithmic axis cannot show is NaN on it."""

    low: float
    high: float
    log: bool

    def at(self, numbers: Numbers | Steps) -> Numbers:
        """Where numbers are: 0 at the low end, 1 at the high one."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        values = np.log(np.where(numbers > 0, numbers, np.nan)) if self.log else np.asarray(numbers, np.float64)
        return (values - low) / (high - low) if high > low else np.full(len(values), 0.5)


def axis_of_steps(every: Sequence[Steps], *, early: bool) -> Axis:
    """The axis for the steps of all curves; logarithmic if most readings are early."""
    there = np.concatenate(every)
    there = there[there > 0] if early else there
    return Axis(float(there.min()), float(there.max()), early)


def axis_of_values(every: Sequence[Numbers]) -> Axis | None:
    """The axis for all curves' values; logarithmic if all are above 0 and span two powers of ten; None without any."""
    there = np.concatenate(every)
    there = there[np.isfinite(there)]
    if not len(there):
        return None
    low, high = float(there.min()), float(there.max())
    return Axis(low, high, low > 0 and high >= LOGARITHMIC * low)


def drawn(
    curves: Sequence[tuple[Steps, Numbers]], across: Axis, up: Axis, width: int, height: int
) -> list[list[tuple[str, int]]]:
    """The rows from the top: for each character its sign, and the place of the last curve in it, -1 without one.

    A line goes on over steps at which its quantity was not read, and is broken where it was no finite number.
    """
    bits = np.zeros((height, width), int)
    owner = np.full((height, width), -1)
    for place, (steps, numbers) in enumerate(curves):
        read = ~np.isnan(numbers)  # all but ABSENT
        x, y = across.at(steps[read]), up.at(np.where(np.isfinite(numbers), numbers, np.nan)[read])
        for piece in np.split(np.arange(len(y)), np.flatnonzero(np.isnan(y))):
            there = piece[np.isfinite(x[piece]) & np.isfinite(y[piece])]
            columns = np.rint(x[there] * (2 * width - 1)).astype(int)
            rows = np.rint((1 - y[there]) * (4 * height - 1)).astype(int)
            for column, row in _lines(columns, rows):
                bits[row // 4, column // 2] |= DOTS[column % 2][row % 4]
                owner[row // 4, column // 2] = place
    return [
        [(chr(BLANK + bit) if bit else " ", int(place)) for bit, place in zip(line, places, strict=True)]
        for line, places in zip(bits.tolist(), owner.tolist(), strict=True)
    ]


def _lines(columns: Places, rows: Places) -> set[tuple[int, int]]:
    """The dots of the lines from point to point."""
    dots = {*zip(columns.tolist(), rows.tolist(), strict=True)}
    for i in np.flatnonzero(np.maximum(abs(np.diff(columns)), abs(np.diff(rows))) > 1).tolist():
        count = int(max(abs(columns[i + 1] - columns[i]), abs(rows[i + 1] - rows[i]))) + 1
        between = (np.rint(np.linspace(ends[i], ends[i + 1], count)).astype(int).tolist() for ends in (columns, rows))
        dots |= {*zip(*between, strict=True)}
    return dots
