"""The random number generators from which data are drawn: those of samplers, data sets and what collates."""

from collections import deque
from collections.abc import Callable
from functools import partial
from types import FunctionType, MethodType, ModuleType

import numpy as np
from torch import Tensor, nn

from gnomon.probe._functions import held_by
from gnomon.probe._generators import generator_as_it_is
from gnomon.probe._side_effects import foreign
from gnomon.probe._snapshot import ATOMS

CLOSED = (Tensor, np.ndarray, nn.Module, ModuleType, type)
"""What is not searched."""
MOST_OBJECTS, MOST_ENTRIES = 10_000, 1_000
"""How many objects are searched, and the containers of how many entries."""


def generators_in(data: object) -> list[Callable[[], object]]:
    """What restores the generators that are reached from there, those next to it first, as they are now."""
    found: list[Callable[[], object]] = []
    waiting: deque[object] = deque([data])
    seen: set[int] = set()
    while waiting and len(seen) < MOST_OBJECTS:
        value = waiting.popleft()
        if id(value) in seen or (type(value) in ATOMS and not isinstance(value, MethodType)):
            continue
        seen.add(id(value))
        if put_back := generator_as_it_is(value):
            found.append(put_back)
        elif not isinstance(value, CLOSED):
            waiting.extend(inside(value))
    return found


def inside(value: object) -> list[object]:
    """An object's attributes, what its functions hold, and, of a container that is not long, the entries."""
    if isinstance(value, MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, FunctionType | partial):
        return held_by(value)
    kept = [*getattr(value, "__dict__", {}).values()]
    for kind in filter(foreign, type(value).__mro__):
        slots = vars(kind).get("__slots__", ())
        names = [slots] if isinstance(slots, str) else slots
        kept += [getattr(value, name) for name in names if hasattr(value, name)]
        kept += [each for each in vars(kind).values() if isinstance(each, FunctionType)]
    if isinstance(value, list | tuple | dict) and len(value) <= MOST_ENTRIES:
        kept += value.values() if isinstance(value, dict) else value
    return kept
