"""The network: built by the user's factory, filled with a checkpoint's weights."""

import importlib
import itertools
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from torch import Tensor, nn

from gnomon.errors import CheckpointError, DataError, GnomonError, RangeError
from gnomon_lab.measuring.checkpoint import Weights

PREFIXES = ("model.", "module.", "_orig_mod.")
"""What Lightning, DataParallel and torch.compile write before the network's own names."""
SHOWN = 3
"""How many names an error gives."""


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
            where="measure",
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
        raise DataError("--model", f"a function {name!r} in {module_name!r}", "none", "Correct it.", where="measure")
    with foreign(f"{factory} to build a network without arguments", "Write a function that gives it its arguments."):
        network = made()
    if not isinstance(network, nn.Module):
        raise DataError(
            "--model", f"a torch.nn.Module from {factory}", type(network).__name__, "Return one.", where="measure"
        )
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
        raise DataError("--model", expected, said(cause), f"{advice}", where="measure") from cause


def device_of(name: str) -> torch.device:
    """The device of this name, if this machine has it; RangeError otherwise."""
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as cause:
        raise RangeError(
            "--device", "a device of this machine", f"{name!r} ({said(cause)})", "Use cpu.", where="measure"
        ) from cause


def said(cause: BaseException) -> str:
    """An exception in one line."""
    lines = list[str]()
    with suppress(Exception):  # the user's own exceptions need not have words
        lines = str(cause).strip().splitlines()
    return f"{type(cause).__name__}: {lines[0].rstrip('.')}" if lines else type(cause).__name__


def load(network: nn.Module, found: Sequence[Weights]) -> str:
    """Fills the network from the state dict that has most of its tensors, and says in words what was taken.

    Names that begin with `model.`, `module.` or `_orig_mod.`, once or twice, are taken without, and those that do not
    are then left. Of parameters that the network has under two names one is enough.

    Raises:
        CheckpointError: naming the first tensors that are missing or left over, or one that has another shape or is
            not of floating-point numbers.
    """
    wanted = network.state_dict()
    prefixes = ["", *PREFIXES, *map("".join, itertools.product(PREFIXES, repeat=2))]
    weights, prefix = max(
        itertools.product(found, prefixes),
        key=lambda pair: len(wanted.keys() & without(pair[1], pair[0].tensors).keys()),
    )
    own = without(prefix, weights.tensors)
    tensors = own | tied(network, own)
    missing = [name for name in wanted if name not in tensors]
    unexpected = [name for name in tensors if name not in wanted]
    if missing or unexpected:
        kinds = (("missing", missing), ("unexpected", unexpected))
        got = "; ".join(f"{kind} {listed(names)}" for kind, names in kinds if names)
        raise CheckpointError(
            "checkpoint",
            f"the {len(wanted)} tensors of the network",
            f"{len(own)}: {got}",
            "Name the factory of the network that was saved.",
            where="measure",
        )
    for name, tensor in tensors.items():
        if wanted[name].is_floating_point() and not tensor.is_floating_point():
            raise CheckpointError(
                "checkpoint",
                f"floating-point numbers in {name}",
                tensor.dtype,
                "Quantised numbers are not the network's weights: save the weights that they stand for.",
                where="measure",
            )
    try:
        network.load_state_dict(tensors)
    except RuntimeError as cause:
        # Below a heading, a line for each tensor of another shape.
        lines = [line.strip().rstrip(".") for line in str(cause).splitlines()]
        raise CheckpointError(
            "checkpoint",
            "the shapes of the network's tensors",
            lines[min(1, len(lines) - 1)],
            "Name the factory of the network that was saved.",
            where="measure",
        ) from cause
    under = f" under {'.'.join(weights.under)}" if weights.under else ""
    begin = f", those that begin with {prefix!r}" if prefix else ""
    return f"{len(own)} of {len(weights.tensors)} tensors{under}{begin}"


def tied(network: nn.Module, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The parameters that are not among the tensors, but are the same as one that is, by another name."""
    parameters = dict(network.named_parameters(remove_duplicate=False))
    there = {id(parameters[name]): tensor for name, tensor in tensors.items() if name in parameters}
    return {
        name: there[id(parameter)]
        for name, parameter in parameters.items()
        if name not in tensors and id(parameter) in there
    }


def without(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """What begins with the prefix, by the names behind it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def listed(names: list[str]) -> str:
    """The first of the names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
