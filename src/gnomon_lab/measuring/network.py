"""The network that the user's factory builds, and the device for it."""

import hashlib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

import torch
from torch import nn

from gnomon.errors import DataError, GnomonError, RangeError

DIGITS = 12
"""The digits of a hash: enough to tell two apart."""


def build(factory: str, made_with: Mapping[str, object] | None = None) -> nn.Module:
    """Calls `MODULE:FACTORY`, found from the current directory.

    Args:
        factory: its name.
        made_with: the arguments that the checkpoint keeps, by name; those that the factory takes are passed.

    Raises:
        DataError: if it cannot be imported or called, or returns no network.
    """
    made = function_of(factory)
    given = taken_by(factory, made_with or {})
    words = f"with {', '.join(given)} of the checkpoint" if given else "without arguments"
    with foreign(f"{factory} to build a network {words}", "Write a function that gives it its arguments."):
        network = made(**given)
    if not isinstance(network, nn.Module):
        raise DataError("--model", f"a torch.nn.Module from {factory}", type(network).__name__, "Return one.")
    return network


def taken_by(factory: str, made_with: Mapping[str, object]) -> dict[str, object]:
    """Those of the arguments that a checkpoint keeps that the factory takes, by name."""
    names = arguments_of(function_of(factory))
    return {name: made_with[name] for name in names if name in made_with}


def function_of(factory: str) -> Callable[..., object]:
    """What `MODULE:FACTORY` names.

    Raises:
        DataError: if it cannot be imported, or is not a function.
    """
    module_name, colon, name = factory.partition(":")
    if not (module_name and colon and name):
        raise DataError(
            "--model",
            "MODULE:FACTORY, such as nets:small for small() in nets.py",
            repr(factory),
            "Name the function that builds the network.",
        )
    if module_name.endswith(".py"):
        raise DataError("--model", "a module's name", repr(module_name), f"{as_module(Path(module_name), name)}.")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    with foreign(
        f"to import {module_name!r} from {here}",
        "Call gnomon where it can be imported; what is not a definition belongs below `if __name__ == '__main__':`.",
    ):
        made = getattr(importlib.import_module(module_name), name, None)
    if isinstance(made, nn.Module):
        got = f"a network, {name!r} in {module_name!r}"
        raise DataError("--model", "a function that builds one", got, "Name its class, or a function that returns it.")
    if not callable(made):
        raise DataError("--model", f"a function {name!r} in {module_name!r}", "none", "Correct it.")
    return cast("Callable[..., object]", made)


def as_module(file: Path, name: str) -> str:
    """How to name what is in a file as `MODULE:FACTORY`, and where."""
    place, here = Path(os.path.abspath(file)), Path.cwd()  # noqa: PTH100, resolve() might lead a link elsewhere
    parts = place.with_suffix("").relative_to(here).parts if place.is_relative_to(here) else ()
    if parts and not any("." in part for part in parts):
        return f"Write {'.'.join(parts)}:{name}"
    return f"Call gnomon in {place.parent} with --model {place.stem}:{name}"


def arguments_of(function: Callable[..., object]) -> list[str]:
    """The names of a function's arguments; none if they cannot be found out."""
    try:
        return [*inspect.signature(function).parameters]
    except (TypeError, ValueError):
        return []


def code_of(factory: str, network: nn.Module) -> str:
    """A hash of the network: its layers, and the source of their classes and of the factory, where there is one.

    Code that these call is not included.
    """
    with foreign("a network that prints itself", "Mend its __repr__."):
        layers = re.sub("0x[0-9a-f]+", "", repr(network))
    parts = [layers, *sorted({text_of(type(module)) for module in network.modules()})]
    return short_hash("\0".join([*parts, text_of(function_of(factory))]))


def short_hash(words: str) -> str:
    """The first digits of a string's hash."""
    return hashlib.sha256(words.encode()).hexdigest()[:DIGITS]


def text_of(thing: Callable[..., object]) -> str:
    """The source of a class or a function; only its name where there is none."""
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError, SyntaxError):
        return repr(getattr(thing, "__qualname__", type(thing)))


def files_of(factory: str) -> list[Path]:
    """The file of a factory's module, which is imported; none for a module without a file."""
    file = getattr(sys.modules.get(factory.partition(":")[0]), "__file__", None)
    return [Path(file)] if isinstance(file, str) else []


@contextmanager
def foreign(expected: str, advice: str) -> Iterator[None]:
    """Turns what the user's code raises into one sentence.

    SystemExit too, or gnomon would exit with that code and without a result. Ctrl-C, lack of memory and gnomon's own
    errors stay what they are.
    """
    try:
        yield
    except (KeyboardInterrupt, MemoryError, GnomonError):
        raise
    except torch.OutOfMemoryError as cause:
        raise MemoryError from cause
    except BaseException as cause:  # whatever kind it is
        if "DefaultCPUAllocator" in message_of(cause):
            raise MemoryError from cause
        raise DataError("--model", expected, message_of(cause), f"{advice}") from cause


def moved_to(network: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
    """Moves the network to the device and dtype of the reading, and sets eval mode; raises DataError if that fails."""
    with foreign("a network that can be moved and set to eval mode", "Measure it where it can."):
        network.to(device, dtype).eval()


def device_of(name: str) -> torch.device:
    """The device of this name, if this machine has it; raises RangeError otherwise."""
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as cause:
        raise RangeError(
            "--device", "a device of this machine", f"{name!r} ({message_of(cause)})", "Use cpu."
        ) from cause


def message_of(cause: BaseException) -> str:
    """An exception in one line."""
    lines = list[str]()
    with suppress(Exception):  # the user's own exceptions need not have a message
        lines = str(cause).strip().splitlines()
    return f"{type(cause).__name__}: {lines[0].rstrip('.')}" if lines else type(cause).__name__
