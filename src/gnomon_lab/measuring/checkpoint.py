"""A checkpoint of anyone's training, from which tensors are read and nothing is run."""

import pickle
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import safe_open
from torch import Tensor

from gnomon.errors import CheckpointError, GnomonError
from gnomon_lab.runs.checkpoint import State, load_checkpoint

WRAPPERS = ("state_dict", "model_state_dict", "state", "model")
"""Under which names checkpoints keep the state dict beside other things; `state` in gnomon's own runs."""
ZIP = b"PK\x03\x04"
"""How the archives begin that `torch.save` writes."""


class Weights(NamedTuple):
    """A state dict, and where it stood.

    Attributes:
        tensors: by name.
        under: the names of the wrappers that were opened, from outside in; none for a plain state dict.
    """

    tensors: dict[str, Tensor]
    under: tuple[str, ...]


def read_weights(path: Path) -> list[Weights]:
    """The state dicts of a file: `.safetensors`, a run of gnomon's among them, or else what `torch.save` wrote.

    Raises:
        CheckpointError: if the file is missing or damaged, holds no state dict, or objects that only code can make:
            these are refused, and nothing of them is run; so is what grows as it is opened.
    """
    if not path.is_file():
        raise CheckpointError("checkpoint", "a file", f"{str(path)!r}", "Correct the path.", where="measure")
    content = from_safetensors(path) if path.suffix == ".safetensors" else from_torch(path)
    found = [*state_dicts(content)]
    if not found:
        got = ", ".join(named(content)) if isinstance(content, Mapping) else type(content).__name__
        raise CheckpointError(
            "checkpoint",
            f"a state dict, tensors by name, alone or under {', '.join(WRAPPERS)}",
            f"{got or 'nothing'} in {path}",
            "Save model.state_dict().",
            where="measure",
        )
    return found


def state_dicts(content: State, under: tuple[str, ...] = ()) -> Iterator[Weights]:
    """Whatever are tensors by name, alone or in wrappers."""
    if not isinstance(content, Mapping) or len(under) > len(WRAPPERS):  # a file can hold what holds itself
        return
    if content and all(isinstance(key, str) and isinstance(part, Tensor) for key, part in content.items()):
        yield Weights(dict(content), under)
    for name in WRAPPERS:
        yield from state_dicts(content.get(name), (*under, name))


def named(content: Mapping[object, object]) -> list[str]:
    """The first keys, as they are said."""
    return [key if isinstance(key, str) else f"a key of {type(key).__name__}" for key in [*content][:8]]


def from_safetensors(path: Path) -> State:
    """The tensors by name, or the whole state of one of gnomon's runs."""
    try:
        with safe_open(path, framework="pt") as file:
            if "structure" not in (file.metadata() or {}):
                return {name: file.get_tensor(name) for name in file.offset_keys()}
        return load_checkpoint(path)
    except GnomonError:
        raise
    except Exception as cause:  # of whatever kind
        raise damaged(path, cause) from cause


def from_torch(path: Path) -> State:
    """What `torch.save` wrote, if it is made of tensors, numbers, strings and containers of them."""
    try:
        as_stored(path)
        with warnings.catch_warnings():
            # Of old formats; what is wrong with one is in the error.
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as cause:
        # Its own message advises to run the file.
        named = re.search(r"GLOBAL (\S+)", str(cause))
        raise CheckpointError(
            "checkpoint",
            "a file of tensors",
            f"{path}, which asks to call {(named[1] if named else 'what is not known')} when it is opened; "
            "it was refused, and nothing of it was run",
            "Where you trust it, save the weights alone: torch.save(model.state_dict(), ...), or safetensors.",
            where="measure",
        ) from cause
    except GnomonError:
        raise
    except Exception as cause:  # a damaged archive is a RuntimeError, EOFError, KeyError, ValueError, …
        raise damaged(path, cause) from cause


def as_stored(path: Path) -> None:
    """Refuses archives that grow as they are opened: `torch.save` compresses nothing, and writes each part once.

    Its checksums are compared too, which torch does not do.

    Raises:
        CheckpointError: if this one grows, or has other contents than it was written with.
        zipfile.BadZipFile: if it is no whole archive.
    """
    with path.open("rb") as file:
        if file.read(len(ZIP)) != ZIP:
            return
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        small, large = path.stat().st_size, sum(member.file_size for member in members)
        if large > small or any(member.compress_type != zipfile.ZIP_STORED for member in members):
            raise CheckpointError(
                "checkpoint",
                "an archive without compression, as torch.save writes it",
                f"{path}, whose {small:,} bytes stand for {large:,}",
                "Save model.state_dict() with torch.save, or safetensors.",
                where="measure",
            )
        changed = archive.testzip()
    if changed is not None:
        raise CheckpointError(
            "checkpoint",
            "the contents that the file was written with",
            f"others in {changed} of {path}",
            "Copy or save it again.",
            where="measure",
        )


def damaged(path: Path, cause: Exception) -> CheckpointError:
    """The error for a file that is not what its name says."""
    kind = "safetensors" if path.suffix == ".safetensors" else "torch.save"
    return CheckpointError(
        "checkpoint",
        f"a whole file of {kind}",
        f"{type(cause).__name__} in {path}",
        "Copy or save it again.",
        where="measure",
    )
