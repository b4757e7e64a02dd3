"""Which quantities are read on which split."""

from collections.abc import Mapping, Sequence

from gnomon.errors import EmptyError, RangeError
from gnomon.probe._plan import Asked, Quantity, named

AskedBySplit = Sequence[Quantity] | Mapping[str, Quantity | Asked]
"""Quantities that are read on all splits, or by split those that are read on it."""


def by_split(quantities: AskedBySplit, splits: Sequence[str]) -> dict[str, dict[str, Quantity]]:
    """The quantities by split and name.

    A list is read on all splits. In a mapping stands what is read on a split under the split's name, and functions that
    are read on all splits under names of their own.

    Raises:
        EmptyError: if there are no quantities.
        RangeError: if a mapping holds what is neither a function nor what to read on a split.
    """
    asked: dict[str, dict[str, Quantity]] = {}
    everywhere: dict[str, Quantity] = {}
    if not isinstance(quantities, Mapping):
        everywhere = named(quantities)
    else:
        for name, each in quantities.items():
            if callable(each):
                everywhere[name] = each
            elif name in splits and name:
                asked[name] = named(each)
            else:
                there = f"functions, or quantities of the splits {', '.join(splits)}" if any(splits) else "functions"
                raise RangeError(
                    "quantities",
                    there,
                    f"{name!r} of {type(each).__name__}",
                    "Correct the name, or what stands there.",
                )
    found = {split: everywhere | asked.get(split, {}) for split in splits}
    found = {split: each for split, each in found.items() if each}
    if not found:
        raise EmptyError("quantities", "at least one quantity", "none", "Name what to measure.")
    return found


def at_split(split: str, name: str) -> str:
    """What a quantity of this split goes by: `SPLIT/NAME`, and its name alone where there are no splits."""
    return f"{split}/{name}" if split else name
