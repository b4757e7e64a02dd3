"""What functions and data hold: one search, nearest first, for what a reading may change."""

from collections import deque
from collections.abc import Iterable, Iterator
from types import CellType, FunctionType, ModuleType

import numpy as np
from torch import Tensor

from gnomon.probe._containers import ATOMS, contents, entries
from gnomon.probe._functions import FUNCTIONS, foreign, held_by

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
        if not ATOMS.issuperset(map(type, inside)):
            waiting.extend(inside)


def inside_of(value: object) -> list[object]:
    """What a function, an enclosed variable or a container holds."""
    if isinstance(value, FUNCTIONS):
        return held_by(value)
    if isinstance(value, CellType):
        return contents(value)
    return entries(value, MOST_ENTRIES)


def of_object(value: object) -> list[object]:
    """An object's attributes, and the methods of its classes."""
    held = [*getattr(value, "__dict__", {}).values()]
    for kind in filter(foreign, type(value).__mro__):
        slots = vars(kind).get("__slots__", ())
        names = [slots] if isinstance(slots, str) else slots
        held += [getattr(value, name) for name in names if hasattr(value, name)]
        held += [each for each in vars(kind).values() if isinstance(each, FunctionType)]
    return held
