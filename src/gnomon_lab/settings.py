"""The settings of an experiment: each field's range is part of its type, and one function checks them all."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, get_args, get_type_hints

from gnomon import _checks
from gnomon.errors import within


@dataclass(frozen=True)
class Range:
    """The values that a field may have, as part of its type: `Annotated[int, at_least(1)]`.

    Attributes:
        words: the range in words, as in errors and the command line's help.
        holds: from a value and the configuration that it belongs to, whether the value is in the range.
    """

    words: str
    holds: Callable[[Any, Any], bool]


def above(low: float) -> Range:
    """Finite numbers above a bound."""
    return Range(f"finite and above {low:g}", lambda value, _: low < value < math.inf)


def at_least(low: float) -> Range:
    """Finite numbers at or above a bound; integers if the bound is an integer."""
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
    """The base class of every experiment's configuration: a frozen dataclass whose fields have ranges.

    Raises:
        RangeError: listing all fields that are out of range.
    """

    threads: Annotated[int, between(1, 1024)] = field(default=1, kw_only=True)
    """CPU threads."""

    def __post_init__(self) -> None:
        with within(type(self).__name__):
            _checks.settings(*_judged(self))


def ranges(settings: type[Settings]) -> dict[str, Range]:
    """The range of each field that has one; for a tuple, that of its entries, of which there must be at least one."""
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
    """Each field's name and value, what was expected, and whether the value is valid; None is valid where allowed."""
    for name, wanted in ranges(type(settings)).items():
        value = getattr(settings, name)
        yield name, value, wanted.words, value is None or wanted.holds(value, settings)
