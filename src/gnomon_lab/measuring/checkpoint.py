"""Reading checkpoints of anyone's training runs: tensors are read, and nothing is executed."""

import argparse
import os
import pathlib
import pickle
import re
import warnings
import zipfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from gnomon.errors import CheckpointError, GnomonError
from gnomon_lab.measuring.folders import files_at
from gnomon_lab.measuring.places import WRAPPERS, Weights, state_dicts
from gnomon_lab.runs.checkpoint import State, load_checkpoint

ZIP = b"PK\x03\x04"
"""How the archives that `torch.save` writes begin."""
PICKLE = b"\x80"
"""How the files begin that it wrote before, and pickles of other programs."""
PATHS = ((pathlib.PosixPath, "pathlib.PosixPath"), (pathlib.PosixPath, "pathlib._local.PosixPath"))
"""By either of the names that they have in different versions of Python."""
NUMPY = (
    np.ndarray,
    np.dtype,
    *{type(np.dtype(code)) for code in np.typecodes["All"]},
    *(
        (value.__reduce__()[0], f"numpy.{core}.multiarray.{name}")
        for value, name in ((np.float64(), "scalar"), (np.array(0.0), "_reconstruct"))
        for core in ("core", "_core")  # NumPy 1 and 2
    ),
)
"""NumPy's numbers and arrays, by what their pickles call."""
HARMLESS: tuple[Any, ...] = (argparse.Namespace, datetime, *PATHS, *NUMPY)
"""What checkpoints hold besides tensors whose construction does nothing: options, metrics, states of generators."""


def read_weights(path: Path) -> list[Weights]:
    """The state dicts of a file: `.safetensors`, including one of gnomon's runs, or else what `torch.save` wrote.

    For a Hugging Face folder, the weights in it.

    Raises:
        CheckpointError: if the file is missing or damaged, holds no state dict, or holds objects that only code can
            create: these are refused, and nothing of them is executed; so is a file that grows when it is opened.
    """
    found: list[Weights] = []
    files = files_at(path)
    for file in files:
        content = from_safetensors(file) if file.suffix == ".safetensors" else from_torch(file)
        part = [*state_dicts(content)]
        if not part:
            got = ", ".join(named(content)) if isinstance(content, Mapping) else type(content).__name__
            raise CheckpointError(
                "checkpoint",
                f"a state dict, tensors by name, alone or under a key such as {', '.join(WRAPPERS)}",
                f"{got or 'nothing'} in {file}",
                "Save model.state_dict().",
            )
        found += part
    if len(files) == 1:
        return found
    return [Weights({name: tensor for part in found for name, tensor in part.tensors.items()})]


def named(content: Mapping[object, object]) -> list[str]:
    """The first keys, as errors show them."""
    return [key if isinstance(key, str) else f"a key of {type(key).__name__}" for key in [*content][:8]]


def from_safetensors(path: Path) -> State:
    """The tensors by name, or the complete state of one of gnomon's runs."""
    try:
        with safe_open(path, framework="pt") as file:
            if "structure" not in (file.metadata() or {}):
                return {name: file.get_tensor(name) for name in file.offset_keys()}
        return load_checkpoint(path)
    except GnomonError:
        raise
    except Exception as cause:  # of whatever kind
        raise damaged(path, cause) from cause


def from_torch(path: Path, *, mapped: bool = False) -> State:
    """What `torch.save` wrote, if it consists of tensors, numbers, strings and containers of them.

    Args:
        path: the file.
        mapped: leave the tensors in the file; then only what is stored next to them may be read.
    """
    try:
        archive = as_stored(path, whole=not mapped)
        with warnings.catch_warnings():
            # Warnings about old formats; what is wrong with one is in the error.
            warnings.simplefilter("ignore")
            with torch.serialization.safe_globals([*HARMLESS]):
                return torch.load(
                    path, map_location="cpu", weights_only=True, mmap=mapped and archive and in_letters(path)
                )
    except pickle.UnpicklingError as cause:
        # Its own message advises to run the file.
        called = re.search(r"GLOBAL (\S+)", str(cause))
        asks = f"which asks to call {called[1]} when it is opened" if called else "a pickle of more than tensors"
        raise CheckpointError(
            "checkpoint",
            "a file of tensors",
            f"{path}, {asks}; it was refused, and nothing of it was run",
            "Where you trust it, save the weights alone: torch.save(model.state_dict(), ...), or safetensors.",
        ) from cause
    except GnomonError:
        raise
    except Exception as cause:  # a damaged archive is a RuntimeError, EOFError, KeyError, ValueError, …
        raise damaged(path, cause) from cause


def in_letters(path: Path) -> bool:
    """Whether a path can be encoded in UTF-8: files at other paths cannot be mapped."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def as_stored(path: Path, *, whole: bool) -> bool:
    """Refuses archives that grow when they are opened: `torch.save` compresses nothing, and writes each part once.

    If the `whole` archive is to be read, its checksums are verified too, which torch does not do.

    Returns:
        Whether it is an archive: older files are not.

    Raises:
        CheckpointError: if it is neither, grows, or its contents are not those it was written with.
        zipfile.BadZipFile: if the archive is incomplete.
    """
    with path.open("rb") as file:
        beginning = file.read(len(ZIP))
    if beginning != ZIP and not beginning.startswith(PICKLE):
        raise _of_others(f"{path}, which begins as neither does" if beginning else f"{path}, which is empty")
    if beginning != ZIP:
        return False
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if members and not any(member.filename.endswith("data.pkl") for member in members):
            raise _of_others(f"{path}, an archive of {members[0].filename} and others")
        small, large = path.stat().st_size, sum(member.file_size for member in members)
        if large > small or any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise CheckpointError(
                "checkpoint",
                "an archive without compression, as torch.save writes it",
                f"{path}, whose {small:,} bytes stand for {large:,}",
                "Save model.state_dict() with torch.save, or safetensors.",
            )
        changed = archive.testzip() if whole else None
    if changed is not None:
        raise CheckpointError(
            "checkpoint",
            "the contents that the file was written with",
            f"others in {changed} of {path}",
            "Copy or save it again.",
        )
    return True


def _of_others(got: str) -> CheckpointError:
    """The error for a file that is no checkpoint."""
    return CheckpointError(
        "checkpoint",
        "a file of torch.save, or one of safetensors whose name says so",
        got,
        "Name a checkpoint, or save one: torch.save(model.state_dict(), ...).",
    )


def damaged(path: Path, cause: Exception) -> CheckpointError:
    """The error for a file that is not what its name says, or may not be read."""
    if path.exists() and not os.access(path, os.R_OK):  # safetensors says that there is none
        return CheckpointError(
            "checkpoint", "a file that may be read", f"{path}, which may not", "Change its permissions."
        )
    kind = "safetensors" if path.suffix == ".safetensors" else "torch.save"
    return CheckpointError(
        "checkpoint", f"a whole file of {kind}", f"{type(cause).__name__} in {path}", "Copy or save it again."
    )
