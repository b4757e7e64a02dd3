"""The network that the user's factory builds, and the device for it."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from torch import nn

from gnomon.errors import DataError, GnomonError, RangeError


def build(factory: str) -> nn.Module:
    """Calls `MODULE:FACTORY`, found from the current directory, without arguments.

    Raises:
        DataError: if it cannot be imported or called, or gives no network.
    """
    module_name, colon, name = factory.partition(":")
    if not (module_name and colon and name):
        raise DataError(
            "--model",
            "MODULE:FACTORY, such as nets:small for small() in nets.py",
            repr(factory),
            "Name the function that builds the network.",
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    with foreign(
        f"to import {module_name!r} from {here}",
        "Call gnomon where it can be imported; what is no definition stands below `if __name__ == '__main__':`.",
    ):
        made = getattr(importlib.import_module(module_name), name, None)
    if not callable(made):
        raise DataError("--model", f"a function {name!r} in {module_name!r}", "none", "Correct it.")
    with foreign(f"{factory} to build a network without arguments", "Write a function that gives it its arguments."):
        network = made()
    if not isinstance(network, nn.Module):
        raise DataError("--model", f"a torch.nn.Module from {factory}", type(network).__name__, "Return one.")
    return network


def files_of(factory: str) -> list[Path]:
    """The file of a factory's module, which is imported; none of one that has no file."""
    file = getattr(sys.modules.get(factory.partition(":")[0]), "__file__", None)
    return [Path(file)] if isinstance(file, str) else []


@contextmanager
def foreign(expected: str, advice: str) -> Iterator[None]:
    """What the user's code raises, as one sentence: SystemExit too, or gnomon would end with that code, and no result.

    Ctrl-C and want of memory stay what they are, and so do gnomon's own errors.
    """
    try:
        yield
    except (KeyboardInterrupt, MemoryError, GnomonError):
        raise
    except torch.OutOfMemoryError as cause:
        raise MemoryError from cause
    except BaseException as cause:  # whatever kind it is
        if "DefaultCPUAllocator" in said(cause):
            raise MemoryError from cause
        raise DataError("--model", expected, said(cause), f"{advice}") from cause


def device_of(name: str) -> torch.device:
    """The device of this name, if this machine has it; RangeError otherwise."""
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as cause:
        raise RangeError("--device", "a device of this machine", f"{name!r} ({said(cause)})", "Use cpu.") from cause


def said(cause: BaseException) -> str:
    """An exception in one line."""
    lines = list[str]()
    with suppress(Exception):  # the user's own exceptions need not have words
        lines = str(cause).strip().splitlines()
    return f"{type(cause).__name__}: {lines[0].rstrip('.')}" if lines else type(cause).__name__
