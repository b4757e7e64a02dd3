"""The readings of one run, or of one arm of it, as columns of numbers."""

import math
from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence, Set
from itertools import compress

import numpy as np
import numpy.typing as npt

from gnomon._parts import owners, replaced, wholes

Numbers = npt.NDArray[np.float64]
Steps = npt.NDArray[np.int64]

ABSENT, UNMEASURED = math.nan, math.inf
"""For a reading that does not have the quantity, and for one in which it was NaN or infinite."""

LOGARITHMIC = 100
"""From this ratio of the highest to the lowest number on, an axis may be logarithmic."""
FEW, MOSTLY = 4, 0.2
"""With fewer readings no axis is logarithmic; readings are early if half of them are before this share of all steps."""


def early(steps: Sequence[int]) -> bool:
    """Whether most of these ascending steps are early, as those at growing intervals are: their axis is logarithmic.

    Step 0, which such an axis has no place for, does not count.
    """
    first = bisect_left(steps, 1)
    if len(steps) - first < FEW:
        return False
    middle = steps[(first + len(steps)) // 2]
    return steps[-1] >= LOGARITHMIC * steps[first] and middle <= MOSTLY * steps[-1]


class Curves:
    """One step per reading, and a column of numbers for each quantity.

    A name that comes again, as when training resumes from a checkpoint, replaces what was read of it from that step on,
    as in `gnomon.History`; a step of which nothing is left is dropped.
    """

    def __init__(self) -> None:
        self._steps = array("q")
        self._there: list[frozenset[str]] = []  # by step, the names that were read, drawn or not
        self._sets: dict[frozenset[str], frozenset[str]] = {}  # one for all steps with these names
        self._last: dict[str, int] = {}  # by name, a step after which there is none of it
        self._columns: dict[str, array[float]] = {}  # each ends with the last reading that has it

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def names(self) -> list[str]:
        """The names of the quantities, in the order in which they first came; of one that has parts, theirs."""
        whole = wholes(self._columns.keys())
        return [name for name in self._columns if name not in whole]

    @property
    def last_step(self) -> int:
        """The latest step; -1 before the first."""
        return self._steps[-1] if self._steps else -1

    @property
    def early(self) -> bool:
        """Whether most readings are early: the axis of their steps is then logarithmic."""
        return early(self._steps)

    def add(self, step: int, numbers: Mapping[str, float], names: Set[str] | None = None) -> None:
        """Adds a reading: the numbers that are drawn, and the names of all that were read if there are more."""
        there = frozenset(numbers if names is None else names)
        if self._steps and step <= self._steps[-1]:
            self._forget(step, there)
        place = bisect_left(self._steps, step)
        if place == len(self._steps) or self._steps[place] != step:
            self._steps.insert(place, step)
            self._there.insert(place, self._one(there))
            for column in self._columns.values():
                if place < len(column):
                    column.insert(place, ABSENT)
        else:
            self._there[place] = self._one(self._there[place] | there)
        self._last |= dict.fromkeys(there, step)
        for name, number in numbers.items():
            column = self._columns.setdefault(name, array("d"))
            column.extend([ABSENT] * (place + 1 - len(column)))
            column[place] = number

    def last(self) -> tuple[int, dict[str, float]]:
        """The last step with a quantity, and its numbers; infinity for what had no value. Raises if there is none."""
        there = max(map(len, self._columns.values()))
        return self._steps[there - 1], {
            name: column[-1] for name, column in self._columns.items() if len(column) == there
        }

    def steps(self) -> Steps:
        """All steps, ascending."""
        return np.array(self._steps)

    def column(self, name: str) -> Numbers:
        """A quantity at all steps; where what it is a part of had no value, it had none."""
        numbers = self._padded(name)
        for owner in self._columns.keys() & {*owners(name)}:
            numbers[np.isnan(numbers) & (self._padded(owner) == UNMEASURED)] = UNMEASURED
        return numbers

    def thinned(self, points: int) -> tuple[Steps, dict[str, Numbers]]:
        """At most about this many points of each curve, with all its peaks.

        Where there are too many, readings are grouped: half of the groups are equally long, the other half equally long
        on a logarithmic axis, and for each quantity the lowest and the highest number of a group are kept. The first
        readings and the last stay as they are.
        """
        steps = self.steps()
        columns = {name: self.column(name) for name in self.names}
        if len(steps) <= points:
            return steps, columns
        first = _groups(steps, max(2, points // 2))
        behind = np.append(first[1:], len(steps))
        single = behind - first == 1
        kept = np.stack([np.ones_like(single), ~single], axis=1).ravel()  # one point of a group of one, else two
        ends = np.stack([first, behind - 1], axis=1).ravel()[kept]
        return steps[ends], {name: _ends(column, first, behind)[kept] for name, column in columns.items()}

    def _padded(self, name: str) -> Numbers:
        """What was read under this name, at all steps."""
        column = self._columns.get(name, array("d"))
        padded = np.full(len(self._steps), ABSENT)
        padded[: len(column)] = column
        return padded

    def _forget(self, step: int, names: Set[str]) -> None:
        """Takes out what a reading of these names replaces."""
        again = replaced([name for name, last in self._last.items() if last >= step], names)
        if not again:
            return
        place = bisect_left(self._steps, step)
        for name in again & self._columns.keys():
            column = self._columns[name]
            del column[place:]
            while column and math.isnan(column[-1]):
                column.pop()
            if not column:
                del self._columns[name]
        rest = [self._one(there - again) for there in self._there[place:]]
        left = [bool(kept) or not there for there, kept in zip(self._there[place:], rest, strict=True)]
        for column in self._columns.values():
            if place < len(column):
                column[place:] = array("d", compress(column[place:], left))
        self._steps[place:] = array("q", compress(self._steps[place:], left))
        self._there[place:] = compress(rest, left)
        self._last |= dict.fromkeys(again, step - 1)

    def _one(self, names: frozenset[str]) -> frozenset[str]:
        """The set that stands for all that are equal."""
        return self._sets.setdefault(names, names)


def _groups(steps: Steps, count: int) -> npt.NDArray[np.intp]:
    """Where each group of readings begins; the last reading is a group of its own."""
    last = len(steps) - 1
    even = np.linspace(0, last, count // 2, dtype=np.intp)
    positive = int(np.searchsorted(steps, 1))
    low = float(steps[min(positive, last)])
    spread = np.geomspace(low, steps[-1], count // 2) if 0 < low < steps[-1] else steps[:1]
    return np.unique(np.concatenate([[0], even, np.searchsorted(steps, spread), [last]]).clip(0, last))


def _ends(column: Numbers, first: npt.NDArray[np.intp], behind: npt.NDArray[np.intp]) -> Numbers:
    """Two numbers per group: the lowest and the highest, in the order in which the group moves."""
    finite = np.where(np.isfinite(column), column, np.nan)
    low, high = np.fmin.reduceat(finite, first), np.fmax.reduceat(finite, first)
    none = np.where(np.fmax.reduceat(column, first) == UNMEASURED, UNMEASURED, ABSENT)
    low, high = np.where(np.isnan(low), none, low), np.where(np.isnan(high), none, high)
    falls = finite[first] > finite[behind - 1]
    return np.stack([np.where(falls, high, low), np.where(falls, low, high)], axis=1).ravel()
