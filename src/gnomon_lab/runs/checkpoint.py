"""Checkpoints: nested dictionaries, lists, numbers and tensors in one safetensors file, sealed with a hash."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from gnomon.errors import CheckpointError
from gnomon_lab.runs.files import replace_bytes

T = TypeVar("T")
State = Any
"""A tensor, number, string, None, or a dictionary or list of states."""

KEYS = frozenset(("run", "arm", "step", "finished", "records", "records_sha256", "read", "trained", "state"))
"""What a checkpoint of a run holds."""


def save_checkpoint(path: Path, state: State) -> None:
    """Writes the state next to `path` and renames it: a process killed meanwhile leaves the old checkpoint intact.

    Raises:
        CheckpointError: if the state holds what could not be loaded again.
        OSError: if the disk is full.
    """
    tensors: dict[str, Tensor] = {}
    structure = json.dumps(_unpack(state, tensors))
    metadata = {"structure": structure, "sha256": _digest(structure, tensors)}
    replace_bytes(path, save(tensors, metadata))


def load_checkpoint(path: Path) -> State:
    """The state in a file; nothing in the file is executed.

    Raises:
        CheckpointError: if the file is missing, is not a checkpoint, or one byte of it changed.
    """
    if path.exists() and not path.is_file():
        raise damaged(path, "no file, but a folder, a device or a pipe")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.offset_keys()}
        structure, expected = metadata["structure"], metadata["sha256"]
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from error
    if _digest(structure, tensors) != expected:
        raise damaged(path, "contents that do not match their hash")
    try:
        return _pack(json.loads(structure), tensors)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise damaged(path, f"a structure that was not written by gnomon ({type(error).__name__})") from error


def load_of_run(path: Path) -> State:
    """The checkpoint of one arm of a run, which are those that its folder and its file are named after.

    Raises:
        CheckpointError: if it is damaged, or belongs to another run or arm.
    """
    saved = load_checkpoint(path)
    own = path.parent.name, path.name.removeprefix("checkpoint-").removesuffix(".safetensors")
    found = (saved.get("run"), saved.get("arm")) if isinstance(saved, dict) else None
    if found != own or not saved.keys() >= KEYS or type(saved["step"]) is not int:
        got = f"{found}{('' if found is None else f' and {sorted(saved)}')}"
        raise damaged(path, got, f"run and arm {own} and {sorted(KEYS)}")
    return saved


def leaves(state: object, kind: type[T], path: str = "") -> Iterator[tuple[str, T]]:
    """Every value of this kind in nested dictionaries and lists, with its path, such as `model.0.weight`."""
    if isinstance(state, kind):
        yield path, state
    elif isinstance(state, dict | list | tuple):
        for key, part in state.items() if isinstance(state, dict) else enumerate(state):
            yield from leaves(part, kind, f"{path}.{key}" if path else str(key))


def damaged(path: Path, got: object, expected: str = "a whole checkpoint") -> CheckpointError:
    """The error about a file that is no checkpoint, or not the one that is expected."""
    advice = "Restore the file, or delete it to train this part again."
    return CheckpointError(path, expected, got, advice, where="load_checkpoint")


def _unpack(state: State, tensors: dict[str, Tensor]) -> State:
    """The state with each tensor replaced by its name in `tensors`; dictionaries as pairs, as keys may be numbers."""
    if isinstance(state, Tensor):
        name = str(len(tensors))
        # safetensors requires tensors that share no memory.
        tensors[name] = state.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {"tensor": name}
    if isinstance(state, dict) and all(isinstance(key, str | int) for key in state):
        return {"dict": [[key, _unpack(value, tensors)] for key, value in state.items()]}
    if isinstance(state, list | tuple):
        return {"list": [_unpack(value, tensors) for value in state]}
    if state is None or isinstance(state, bool | int | float | str):
        return {"value": state}
    raise CheckpointError(
        "state",
        "tensors, numbers, strings, None, lists, and dictionaries with such keys",
        type(state).__name__,
        "Convert it in state_dict().",
        where="save_checkpoint",
    )


def _pack(state: State, tensors: dict[str, Tensor]) -> State:
    """The inverse of `_unpack`."""
    ((kind, content),) = state.items()
    match kind:
        case "tensor":
            return tensors[content]
        case "dict":
            return {key: _pack(value, tensors) for key, value in content}
        case "list":
            return [_pack(value, tensors) for value in content]
        case _:
            return content


def _digest(structure: str, tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256(structure.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
