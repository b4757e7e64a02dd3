"""What forward passes do in addition to computing outputs, and what a reading would not restore."""

import random
from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

from torch import Tensor, nn

from gnomon._warn import warn
from gnomon.errors import UnsupportedModuleError
from gnomon.probe._containers import ATOMS, BASES
from gnomon.probe._functions import FUNCTIONS, LIBRARIES, foreign, of
from gnomon.probe._generators import GENERATORS, state_of
from gnomon.probe._held import attributes, reached

T = TypeVar("T")
CONTAINERS = (list, tuple, set, frozenset, deque)
"""Whose entries tell whether they were changed in place; mappings beside them."""


def reporting_side_effects(model: nn.Module, look: Callable[[], T]) -> T:
    """What `look` returns; also reports what its passes did that no reading can do without harm.

    Raises:
        UnsupportedModuleError: if they created layers or parameters: each reading would draw different weights.
    """
    parts, objects = names(model), held(model)
    before = {name: [contents(value) for value in values] for name, values in objects.items()}
    result = look()
    made = names(model) - parts
    if made:
        raise UnsupportedModuleError(
            "model",
            "an initialised network",
            f"one that creates {min(made)!r} in its forward pass",
            "Run it once before.",
        )
    changed = [
        name
        for name, values in objects.items()
        if any(differ(old, contents(value)) for old, value in zip(before[name], values, strict=True))
    ]
    if changed:
        warn(
            f"Probe(model): the forward pass changes {', '.join(changed)}, which a reading does not restore: training "
            f"may proceed otherwise than without it. Keep what forward passes change in buffers.",
            UserWarning,
        )
    return result


def names(model: nn.Module) -> set[str]:
    """The names of all modules and parameters."""
    return {name for name, _ in (*model.named_modules(), *model.named_parameters())}


def held(model: nn.Module) -> dict[str, list[object]]:
    """What `Snapshot` does not look into: objects that modules and hooks hold, and the classes of modules."""
    found: dict[str, list[object]] = {}
    for module in model.modules():
        kind = type(module)
        found |= {each.__name__: [each] for each in kind.__mro__ if foreign(each)}
        for name, value in vars(module).items():
            label = f"{kind.__name__}.{'hook' if name.endswith('_hooks') else name}"
            found.setdefault(label, []).extend(filter(unseen, reached([value])))
    return found


def unseen(value: object) -> bool:
    """Whether a value may have attributes, which `Snapshot` does not look into."""
    known = (nn.Module, Tensor, ModuleType, *FUNCTIONS, *BASES, random.Random)
    return not (type(value) in ATOMS or isinstance(value, known) or of(type(value), LIBRARIES))


def contents(value: object) -> list[Any]:
    """An object's attributes, and what these hold that can be changed in place."""
    held = attributes(value)
    if isinstance(value, type):  # whose generators are restored
        held = {name: each for name, each in held.items() if not isinstance(each, GENERATORS)}
    return [*held, *(part for each in held.values() for part in (each, *parts(each)))]


def parts(value: object) -> list[Any]:
    """The entries of a container, how often a tensor was written to, and the state of a generator."""
    if isinstance(value, Tensor):
        return [] if value.is_inference() else [value._version]
    if isinstance(value, dict):
        return [*value, *value.values()]
    return [*value] if isinstance(value, CONTAINERS) else [state_of(value)]


def differ(one: list[Any], other: list[Any]) -> bool:
    """Whether they hold other objects, or other numbers and words."""
    alike = (a is b or (type(a) in (int, float, str) and a == b) for a, b in zip(one, other, strict=False))
    return len(one) != len(other) or not all(alike)
