"""What functions hold besides their code."""

from functools import partial
from types import CellType, FunctionType

from gnomon.probe._generators import GENERATORS

LIBRARIES = frozenset({"torch", "numpy"})
"""Packages whose objects and functions are known."""
EMPTY = CellType()
"""An enclosed variable that has no value yet."""


def held_by(function: FunctionType | partial[object]) -> list[object]:
    """What a function encloses and has as defaults, and the global generators that it names; or a partial, is given."""
    if isinstance(function, partial):
        return [function.func, *function.args, *function.keywords.values()]
    if str(function.__module__).partition(".")[0] in LIBRARIES:
        return []
    enclosed = [cell.cell_contents for cell in function.__closure__ or () if cell != EMPTY]
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    return [*enclosed, *defaults, *(value for value in named if isinstance(value, GENERATORS))]
