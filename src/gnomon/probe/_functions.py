"""What functions hold besides their code."""

import sys
from collections.abc import Set
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType

from gnomon.probe._generators import GENERATORS

LIBRARIES = frozenset({"torch", "numpy", "gnomon"})
"""Packages whose objects and functions are known."""
INSTALLED = ("site-packages", "dist-packages")
"""Folders whose functions are not the user's own."""
FUNCTIONS = (FunctionType, partial, MethodType, BuiltinFunctionType, staticmethod, classmethod, property)
"""Functions, and what binds them or leads to them."""


def held_by(function: object) -> list[object]:
    """What a function of `FUNCTIONS` holds, of which a call may change everything.

    A function of one's own holds the variables that it encloses, as cells, its attributes, its defaults and the global
    variables that it names; one of another package, of its global variables, only the generators: its other ones may
    depend on each other. One of a library or of Python holds nothing, a partial what it is given, and a bound method
    its object.
    """
    if isinstance(function, partial):
        return [function.func, *function.args, *function.keywords.values()]
    if not isinstance(function, FunctionType):
        return [getattr(function, name, None) for name in ("__self__", "__func__", "fget")]
    if not foreign(function):
        return []
    code, variables = function.__code__, function.__globals__
    named = [variables[name] for name in names(code) if name in variables]
    if any(folder in code.co_filename for folder in INSTALLED):
        named = [value for value in named if isinstance(value, GENERATORS)]
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return [*(function.__closure__ or ()), vars(function), *defaults, *named]


def names(code: CodeType) -> set[str]:
    """The names of global variables and attributes in a function's code, and in the functions defined in it."""
    inner = [names(part) for part in code.co_consts if isinstance(part, CodeType)]
    return {*code.co_names}.union(*inner)


def foreign(definition: type | FunctionType) -> bool:
    """Whether a class or function is not one of Python's or of a library."""
    return not of(definition, sys.stdlib_module_names | LIBRARIES)


def of(definition: type | FunctionType, packages: Set[str]) -> bool:
    """Whether a class or function is of one of these packages."""
    return str(definition.__module__).partition(".")[0] in packages
