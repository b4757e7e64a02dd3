"""Histories as a table: one row per quantity, with what it says about itself, its last value and its course."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gnomon._words import number
from gnomon.probe._about import About

if TYPE_CHECKING:
    from gnomon.probe._history import History


@dataclass(frozen=True)
class Course:
    """A quantity in one history.

    Attributes:
        steps: those at which it was read.
        places: their positions, from 0 to 1 for all steps of all histories.
        means: one number per step, NaN where there is none.
        last: the mean in the last reading that has the quantity; NaN if that is not finite.
        middle: the quartiles of that reading; None if there is one value, or if each sample is right or wrong, 1 or 0.
        error: the error of that mean, half a 95 % interval, where it is an estimate; None where it is none.
    """

    steps: list[int]
    places: list[float]
    means: list[float]
    last: float
    middle: tuple[float, float] | None
    error: float | None = None

    @property
    def in_words(self) -> str:
        """The last mean, with its error."""
        if self.error is None or not self.error > 0:  # exact, or lost with the mean
            return number(self.last)
        return f"{number(self.last)} ± {number(self.error)}"


@dataclass(frozen=True)
class TableRow:
    """A quantity on one split and at one layer.

    Attributes:
        prefix: the split, the layer or both, with the slash after it.
        name: the quantity's name, with that of a part after a dot.
        about: what the quantity says about itself.
        courses: one per history; None for those that do not have the quantity.
    """

    prefix: str
    name: str
    about: About
    courses: tuple[Course | None, ...]


def rows_by_quantity(histories: Mapping[str, "History"]) -> list[list[TableRow]]:
    """The rows of each quantity, splits and layers together, in the order in which quantities first appeared."""
    found: dict[str, list[TableRow]] = {}
    there = {place: frozenset(history.quantities) for place, history in enumerate(histories.values())}
    steps = sorted({step for history in histories.values() for step in history.steps})
    axis = dict(zip(steps, positions(steps), strict=True)) if steps else {}
    for name in dict.fromkeys(name for history in histories.values() for name in history.quantities):
        courses = [course(one, name, axis) if name in there[i] else None for i, one in enumerate(histories.values())]
        owner = next(one for i, one in enumerate(histories.values()) if name in there[i])
        prefix, slash, quantity = name.rpartition("/")
        found.setdefault(quantity, []).append(TableRow(prefix + slash, quantity, owner.about(name), tuple(courses)))
    return [*found.values()]


def course(history: "History", name: str, axis: Mapping[int, float]) -> Course:
    """The course of a quantity that the history has, at the steps at which it was read, by their positions."""
    read = {*history.steps_of(name)}
    there = {step: mean for step, mean in zip(history.steps, history[name].tolist(), strict=True) if step in read}
    steps, places, means = [*there], [axis[step] for step in there], [*there.values()]
    known = next(row.numbers for row in reversed([*history]) if name in row.numbers)
    last = known[name] if math.isfinite(known[name]) else math.nan
    least, most, low, high = (known.get(f"{name}{end}", math.nan) for end in (".min", ".max", ".q25", ".q75"))
    spread = math.isfinite(low) and math.isfinite(high) and not (least in (0, 1) and most in (0, 1))
    return Course(steps, places, means, last, (low, high) if spread else None, known.get(f"{name}.error"))


def positions(steps: list[int]) -> list[float]:
    """The positions of the steps, from 0 to 1: on a logarithmic axis if those after 0 span two decades."""
    first = min((step for step in steps if step > 0), default=math.inf)
    log = max(steps) >= 100 * first
    places = [math.asinh(step / first) if log else float(step) for step in steps]
    low, high = min(places), max(places)
    return [(place - low) / (high - low) if high > low else 0.5 for place in places]


def heights(means: list[float], low: float, high: float, *, log: bool) -> list[float]:
    """The positions of the values between the lowest and the highest, 0 to 1; NaN where there is none.

    On a logarithmic axis that of a value that is not above 0 is 0.
    """
    if log:
        means = [math.log(max(mean, low)) if -math.inf < mean < math.inf else math.nan for mean in means]
        low, high = math.log(low), math.log(high)
    return [(mean - low) / (high - low) if high > low else 0.5 + 0 * mean for mean in means]


def span(row: TableRow) -> tuple[float, float, bool]:
    """The lowest and the highest value of all histories, and whether their axis is logarithmic."""
    means = [mean for course in row.courses if course for mean in course.means if math.isfinite(mean)]
    positive = [mean for mean in means if mean > 0]
    log = row.about.logarithmic and bool(positive)
    shown = positive if log else means or [0.0]
    return min(shown), max(shown), log
