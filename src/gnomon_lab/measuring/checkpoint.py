"""A checkpoint of anyone's training, from which tensors are read and nothing is run."""

import argparse
import pathlib
import pickle
import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import safe_open

from gnomon.errors import CheckpointError, GnomonError
from gnomon_lab.measuring.filling import SHOWN
from gnomon_lab.measuring.places import WRAPPERS, Weights, state_dicts
from gnomon_lab.runs.checkpoint import State, load_checkpoint

ZIP = b"PK\x03\x04"
"""How the archives begin that `torch.save` writes."""
HARMLESS = (argparse.Namespace, pathlib.PosixPath)
"""Of what else checkpoints hold beside tensors, what does nothing when it is made: the options of a training script."""
OF_FOLDERS = (r"model(-\d+-of-(\d+))?\.safetensors", r"pytorch_model(-\d+-of-(\d+))?\.bin")
"""The names under which Hugging Face's folders hold weights, in one file or several; the first are taken."""


def read_weights(path: Path) -> list[Weights]:
    """The state dicts of a file: `.safetensors`, a run of gnomon's among them, or else what `torch.save` wrote.

    Of a folder as Hugging Face writes them, the weights in it.

    Raises:
        CheckpointError: if the file is missing or damaged, holds no state dict, or objects that only code can make:
            these are refused, and nothing of them is run; so is what grows as it is opened.
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


def files_at(path: Path) -> list[Path]:
    """The files that hold the weights: the path itself, or those of a folder.

    Raises:
        CheckpointError: if there are none, or not all of them.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise CheckpointError("checkpoint", "a file, or a folder", f"{str(path)!r}", "Correct the path.")
    there = sorted(file for file in path.iterdir() if file.is_file())
    for pattern in OF_FOLDERS:
        matches = {file: match for file in there if (match := re.fullmatch(pattern, file.name))}
        if whole := [file for file, match in matches.items() if match[1] is None]:
            return whole
        if matches:
            (*_, last) = matches.values()
            if len(matches) != int(last[2]):
                raise CheckpointError(
                    "checkpoint",
                    f"{int(last[2])} files such as {last[0]}",
                    f"{len(matches)} in {path}",
                    "Copy all of them.",
                )
            return [*matches]
    names = ", ".join(file.name for file in there[:SHOWN]) or "nothing"
    raise CheckpointError(
        "checkpoint",
        "a folder with model.safetensors or pytorch_model.bin",
        f"{names} in {str(path)!r}",
        "Name the file, or the folder that save_pretrained wrote.",
    )


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
            with torch.serialization.safe_globals([*HARMLESS]):
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
            )
        changed = archive.testzip()
    if changed is not None:
        raise CheckpointError(
            "checkpoint",
            "the contents that the file was written with",
            f"others in {changed} of {path}",
            "Copy or save it again.",
        )


def damaged(path: Path, cause: Exception) -> CheckpointError:
    """The error for a file that is not what its name says."""
    kind = "safetensors" if path.suffix == ".safetensors" else "torch.save"
    return CheckpointError(
        "checkpoint", f"a whole file of {kind}", f"{type(cause).__name__} in {path}", "Copy or save it again."
    )
