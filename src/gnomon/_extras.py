"""Packages that only an extra installs: imported where they are used, and the error if they are missing."""

import importlib
from collections.abc import Sequence
from importlib.util import find_spec
from types import ModuleType

from gnomon.errors import MissingExtraError


def extra(where: str, module: str, name: str) -> ModuleType:
    """The module, which the extra of this name installs.

    Raises:
        MissingExtraError: if it is not installed, or does not import; then the message names the cause.
    """
    try:
        return importlib.import_module(module)
    except Exception as cause:
        raise missing(where, module, name, cause) from cause


def require(where: str, modules: Sequence[str], name: str) -> None:
    """Raises MissingExtraError if one of the modules that the extra of this name installs is missing; imports none."""
    for module in modules:
        if find_spec(module) is None:
            raise missing(where, module, name, ModuleNotFoundError(name=module))


def missing(where: str, module: str, name: str, cause: Exception) -> MissingExtraError:
    """The error to raise from what importing `module` raised: its package is not installed, or is broken, and how."""
    package = module.partition(".")[0]
    absent = isinstance(cause, ModuleNotFoundError) and cause.name in (package, module)
    return MissingExtraError(package, name, None if absent else f"{type(cause).__name__}: {cause}", where=where)
