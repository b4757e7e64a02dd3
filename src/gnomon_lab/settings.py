"""The settings of an experiment: each field's range stands in its type, and one function checks them all."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, get_args, get_type_hints

from gnomon import _checks
from gnomon.errors import within


@dataclass(frozen=True)
class Range:
    """What a field may be, as a part of its type: `Annotated[int, at_least(1)]`.

    Attributes:
        words: as errors and the command line's help say it.
        holds: whether a value, of a whole configuration, is in it.
    """

    words: str
    holds: Callable[[Any, Any], bool]


def above(low: float) -> Range:
    """Finite numbers above a bound."""
    return Range(f"finite and above {low:g}", lambda value, _: low < value < math.inf)


def at_least(low: float) -> Range:
    """Finite numbers from a bound on; whole ones if the bound is whole."""
    finite = "finite and " if isinstance(low, float) else ""
    return Range(f"{finite}at least {low:g}", lambda value, _: low <= value < math.inf)


def between(low: int, high: int) -> Range:
    """Numbers from one bound to another, both included."""
    return Range(f"from {low} to {high}", lambda value, _: low <= value <= high)


def inside(low: float, high: float) -> Range:
    """Numbers between two bounds, both excluded."""
    return Range(f"in ({low:g}, {high:g})", lambda value, _: low < value < high)


def among(*options: object) -> Range:
    """One of several values."""
    return Range(f"among {options}", lambda value, _: value in options)


Count = Annotated[int, at_least(1)]
Positive = Annotated[float, above(0)]
NonNegative = Annotated[float, at_least(0.0)]
Share = Annotated[float, inside(0, 1)]
Dtype = Annotated[str, among("float32", "float64")]
Device = Annotated[str, among("cpu", "cuda")]


@dataclass(frozen=True)
class Settings:
    """What the configuration of every experiment is: a frozen dataclass whose fields have ranges.

    Raises:
        RangeError: listing all fields that are out of their range.
    """

    threads: Annotated[int, between(1, 1024)] = field(default=1, kw_only=True)
    """Processor threads."""

    def __post_init__(self) -> None:
        with within(type(self).__name__):
            _checks.settings(*_judged(self))


def ranges(settings: type[Settings]) -> dict[str, Range]:
    """The range of each field that has one; the range of a tuple's entries is that of one entry or more."""
    hints = get_type_hints(settings, include_extras=True)
    return {name: found for name, hint in hints.items() if (found := _range_in(hint)) is not None}


def _range_in(hint: object) -> Range | None:
    own = next((part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Range)), None)
    if own is not None:
        return own
    found = next((part for part in map(_range_in, get_args(hint)) if part is not None), None)
    if found is None or Ellipsis not in get_args(hint):
        return found
    each = found.holds
    return Range(
        f"one or more {found.words}",
        lambda values, whole: bool(values) and all(each(value, whole) for value in values),
    )


def _judged(settings: Settings) -> Iterator[tuple[str, object, str, bool]]:
    """Each field's name and value, what was wanted, and whether it is right; None is right where it is allowed."""
    for name, wanted in ranges(type(settings)).items():
        value = getattr(settings, name)
        yield name, value, wanted.words, value is None or wanted.holds(value, settings)
