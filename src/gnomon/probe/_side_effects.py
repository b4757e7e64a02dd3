"""What forward passes do in addition to computing outputs, and what a reading would not restore."""

import random
import sys
from collections.abc import Callable, Set
from types import ModuleType
from typing import Any, TypeVar

from torch import Tensor, nn

from gnomon._warn import warn
from gnomon.errors import UnsupportedModuleError
from gnomon.probe._snapshot import ATOMS

T = TypeVar("T")
LIBRARIES = frozenset({"torch", "numpy"})
"""Packages whose objects are known."""


def reporting_side_effects(model: nn.Module, look: Callable[[], T]) -> T:
    """What `look` returns; also reports what its passes did that no reading can do without harm.

    Raises:
        UnsupportedModuleError: if they created layers or parameters: each reading would draw different weights.
    """
    parts, objects = names(model), held(model)
    before = {name: dict(vars(value)) for name, value in objects.items()}
    result = look()
    made = names(model) - parts
    if made:
        raise UnsupportedModuleError(
            "model",
            "a network that has all its parts",
            f"one whose forward pass makes {min(made)!r}",
            "Run it once before.",
        )
    changed = [name for name, value in objects.items() if differ(before[name], dict(vars(value)))]
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


def held(model: nn.Module) -> dict[str, Any]:
    """What `Snapshot` does not look into: objects that are attributes of modules, and the modules' own classes."""
    found: dict[str, Any] = {}
    for module in model.modules():
        kind = type(module)
        if foreign(kind):
            found[kind.__name__] = kind
        for name, value in vars(module).items():
            if unseen(value):
                found[f"{kind.__name__}.{name}"] = value
    return found


def unseen(value: object) -> bool:
    """Whether a value has attributes, which `Snapshot` does not look into."""
    seen = type(value) in ATOMS or isinstance(value, nn.Module | Tensor | ModuleType | random.Random)
    return not seen and hasattr(value, "__dict__") and not of(type(value), LIBRARIES)


def foreign(kind: type) -> bool:
    """Whether a class is not one of Python's, NumPy's or torch's."""
    return not of(kind, sys.stdlib_module_names | LIBRARIES)


def of(kind: type, packages: Set[str]) -> bool:
    """Whether a class is of one of these packages."""
    return kind.__module__.partition(".")[0] in packages


def differ(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two objects' attributes differ."""
    return one.keys() != other.keys() or any(one[name] is not other[name] for name in one)
