"""What functions and data hold: one search, nearest first, for what a reading may change."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import CellType, MemberDescriptorType, ModuleType
from typing import Any

import numpy as np
from torch import Tensor

from gnomon.probe._containers import ATOMS, contents, entries, flat
from gnomon.probe._functions import FUNCTIONS, foreign, held_by
from gnomon.probe._generators import generator_as_it_is

CLOSED = (Tensor, np.ndarray, ModuleType, type)
"""Objects that are not looked into."""
MOST_OBJECTS, MOST_ENTRIES = 10_000, 1_000
"""How many objects are searched, and the containers of how many entries."""


def reached(start: Iterable[object], *, through_objects: bool = False) -> Iterator[object]:
    """What is there, what it holds, what this holds, and so on, those next to the start first, each once.

    What is held is in functions, the variables that they enclose, containers that are not long and, if requested, in
    the attributes of other objects; see `held_by` for functions.
    """
    waiting, seen = deque(start), set[int]()
    while waiting and len(seen) < MOST_OBJECTS:
        value = waiting.popleft()
        if type(value) in ATOMS or id(value) in seen:
            continue
        seen.add(id(value))
        yield value
        inside = inside_of(value)
        if through_objects and not isinstance(value, (*CLOSED, *FUNCTIONS)):
            inside += of_object(value)
        if not flat(inside):
            waiting.extend(inside)


def generators_in(start: Iterable[object], *, through_objects: bool = False) -> list[Callable[[], object]]:
    """What restores the random number generators that are `reached`, those next to the start first, as they are now."""
    found = map(generator_as_it_is, reached(start, through_objects=through_objects))
    return [put_back for put_back in found if put_back]


def inside_of(value: object) -> list[object]:
    """What a function, an enclosed variable or a container holds."""
    if isinstance(value, FUNCTIONS):
        return held_by(value)
    if isinstance(value, CellType):
        return contents(value)
    return entries(value, MOST_ENTRIES)


def of_object(value: object) -> list[object]:
    """An object's attributes, and those of its classes, such as methods and generators."""
    held = [*attributes(value).values()]
    for kind in filter(foreign, type(value).__mro__):
        held += vars(kind).values()
    return held


def attributes(value: object) -> dict[str, Any]:
    """An object's attributes by name, also those in slots, private ones too."""
    found: dict[str, Any] = {}
    for kind in type(value).__mro__:
        slots = {name: slot for name, slot in vars(kind).items() if isinstance(slot, MemberDescriptorType)}
        for name, slot in slots.items() if foreign(kind) else ():
            with suppress(AttributeError):  # It has no value.
                found[name] = slot.__get__(value)
    with suppress(AttributeError):  # There are slots only. Not by `getattr`, which may call a method of the user's.
        found |= object.__getattribute__(value, "__dict__")
    return found
