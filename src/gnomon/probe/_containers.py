"""Containers: what they hold, and how they are restored, whatever their subclasses make of their methods."""

import math
import operator
from collections import OrderedDict, deque
from collections.abc import Callable, Collection
from functools import partial
from itertools import chain
from types import CellType, NoneType
from typing import Any
from weakref import CallableProxyType, ProxyType

import numpy as np
import torch

ATOMS = frozenset(
    {NoneType, bool, int, float, complex, str, bytes, type, torch.dtype, torch.device, torch.Size}
    | {ProxyType, CallableProxyType, *np.sctypeDict.values()}
)
"""What cannot change, or is not part of the network's state, such as what it has a weak reference to."""
FLAT = ATOMS | {tuple}
BASES: tuple[Any, ...] = (OrderedDict, dict, list, deque, set, tuple, frozenset)
"""Python's containers."""


def base_of(value: object) -> Any:  # noqa: ANN401 (a class whose methods are called on the value)
    """Which of `BASES` a value is; None if it is no container."""
    kind = type(value)
    return kind if kind in BASES else next((base for base in BASES if issubclass(kind, base)), None)


def entries(value: object, most: float = math.inf) -> list[object]:
    """What a container of at most so many entries holds, and the attributes of one that is not Python's own."""
    base = base_of(value)
    if base is None:
        return []
    attributes: list[object] = [vars(value)] if hasattr(value, "__dict__") else []
    if base.__len__(value) > most:
        return attributes
    return [*attributes, *(base.values(value) if isinstance(value, dict) else base.__iter__(value))]


def flat(inside: Collection[object]) -> bool:
    """Whether there are only atoms, and tuples of atoms: a log of numbers, which is long, need not be walked."""
    tuples = chain.from_iterable(each for each in inside if type(each) is tuple)
    return FLAT.issuperset(map(type, inside)) and ATOMS.issuperset(map(type, tuples))


def container_as_it_is(value: object) -> Callable[[], object] | None:
    """A function that restores a container, or an enclosed variable; None if the value is not one that can change."""
    if isinstance(value, CellType):
        return partial(put_back_contents, value, contents(value))
    base = base_of(value)
    if isinstance(value, dict):
        return partial(put_back_items, value, dict(base.items(value)))
    if isinstance(value, list | deque):
        return partial(put_back_parts, value, [*base.__iter__(value)])
    return partial(put_back_members, value, {*set.__iter__(value)}) if isinstance(value, set) else None


def contents(cell: CellType) -> list[object]:
    """The value of an enclosed variable, if it has one yet."""
    return [] if cell == CellType() else [cell.cell_contents]


def put_back_contents(cell: CellType, before: list[object]) -> None:
    """Restores the value of an enclosed variable, or that it has none."""
    if before and not same(contents(cell), before):
        cell.cell_contents = before[0]
    elif not before:
        del cell.cell_contents


def put_back_items(there: dict[Any, Any], before: dict[Any, Any]) -> None:
    """Restores what was in a mapping, in its order."""
    base = base_of(there)
    if (there or before) and not same_items(there, before):
        base.clear(there)
        base.update(there, before)


def put_back_parts(there: list[Any] | deque[Any], before: list[Any]) -> None:
    """Restores what was in a sequence."""
    base = base_of(there)
    if not same([*base.__iter__(there)], before):
        base.clear(there)
        base.extend(there, before)


def put_back_members(there: set[Any], before: set[Any]) -> None:
    """Restores what was in a set."""
    if not set.__eq__(there, before):
        set.clear(there)
        set.update(there, before)


def same_items(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    """Whether two mappings hold the same objects, in the same order."""
    (first, second) = base_of(one), base_of(other)
    return same(first.keys(one), second.keys(other)) and same(first.values(one), second.values(other))


def same(one: Collection[object], other: Collection[object]) -> bool:
    """Whether these are the same objects, in the same order."""
    return len(one) == len(other) and all(map(operator.is_, one, other))
