"""Which quantities are read on which split, and what they see of the others."""

from collections.abc import Mapping, Sequence, Set

import torch
from torch import Tensor

from gnomon.errors import EmptyError, RangeError
from gnomon.probe._about import docstring_of
from gnomon.probe._names import quantities as without_spread
from gnomon.probe._plan import Plan, Quantity, named, no_function
from gnomon.probe._rows import RESERVED
from gnomon.probe._samples import Samples

FEW = 8
"""How many samples of other splits are used before training."""

QuantitiesBySplit = Sequence[object] | Mapping[str, object]
"""Quantities that are read on all splits, or, by split, those that are read on it.

Objects, since to mypy a list of functions that differ in their arguments is one of `function`, which is not callable.
"""


def docstrings_of(plans: Mapping[str, Plan]) -> dict[str, str]:
    """The docstrings of the quantities that are not gnomon's own or have another name."""
    return {
        at_split(split, name): text
        for split, plan in plans.items()
        for name in plan.reported
        if name in plan.quantities and (text := docstring_of(name, plan.quantities[name])) is not None
    }


def by_split(quantities: QuantitiesBySplit, splits: Sequence[str]) -> dict[str, dict[str, Quantity]]:
    """The quantities by split and name.

    A list is read on all splits. A mapping holds what is read on one split under that split's name, be it a function
    alone, and functions that are read on all splits under their own names.

    Raises:
        EmptyError: if there are no quantities.
        RangeError: if a mapping holds something that is neither a function nor what to read on a split.
    """
    asked: dict[str, dict[str, Quantity]] = {}
    everywhere: dict[str, Quantity] = {}
    if not isinstance(quantities, Mapping):
        everywhere = named(quantities)
    else:
        for name, each in quantities.items():
            if not isinstance(name, str):
                raise RangeError("quantities", "functions by name", f"{name!r} for a name", "Pass a string.")
            if name in splits and name:
                asked[name] = named([each] if callable(each) else each)
            elif callable(each):
                everywhere[name] = each
            elif isinstance(each, str):
                raise no_function(each)
            else:
                there = f"functions, or quantities of the splits {', '.join(splits)}" if any(splits) else "functions"
                raise RangeError(
                    "quantities",
                    there,
                    f"{name!r} of {type(each).__name__}",
                    "Correct the name, or what is there.",
                )
    found = {split: everywhere | asked.get(split, {}) for split in splits}
    found = {split: each for split, each in found.items() if each}
    if not found:
        raise EmptyError("quantities", "at least one quantity", "none", "Name what to measure.")
    return found


def check_names(names: Sequence[str]) -> None:
    """Raises RangeError if a quantity, without a split before its name, is called what a line of a history holds.

    So too if two numbers would have the same name: of quantities, or of one and of another's spread.
    """
    if taken := sorted(RESERVED.intersection(names)):
        raise RangeError(
            "quantities",
            f"names other than {', '.join(sorted(RESERVED))}",
            ", ".join(taken),
            "Rename it in a mapping from names.",
        )
    alone = without_spread(names)
    if twice := sorted({name for name in names if names.count(name) > 1 or name not in alone}):
        raise RangeError(
            "quantities", "names that no other number has", ", ".join(twice), "Rename it in a mapping from names."
        )


def at_split(split: str, name: str) -> str:
    """The name of a quantity on this split: `SPLIT/NAME`, or its name alone if there are no splits."""
    return f"{split}/{name}" if split else name


def of_splits(
    splits: Mapping[str, Samples], asked: Set[str], device: torch.device | None, *, few: bool
) -> dict[str, Tensor]:
    """The samples of splits that are requested by name, such as `train_x`: a `few` of each, or all."""
    found: dict[str, Tensor] = {}
    for name, samples in splits.items():
        if name and not asked.isdisjoint(f"{name}_{part}" for part in samples.first):
            batch = samples.first_on(device) if few else samples.joined(device)
            found |= {f"{name}_{part}": tensor[:FEW] if few else tensor for part, tensor in batch.items()}
    return found


def names_of(samples: Mapping[str, Samples], split: str) -> set[str]:
    """The samples that quantities on a split may request: its own, and those of the others."""
    others = {f"{name}_{part}" for name, each in samples.items() if name for part in each.first}
    return {*samples[split].first, *others}
