"""Folders as Hugging Face and Accelerate write them: which of their files hold the weights."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from gnomon.errors import CheckpointError
from gnomon_lab.measuring.filling import SHOWN
from gnomon_lab.runs.files import Json

CONFIG = "config.json"
"""What says which network the weights are of."""
OF_FOLDERS = {
    r"model(-\d+-of-(\d+))?\.safetensors": "model.safetensors.index.json",
    r"pytorch_model(-\d+-of-(\d+))?\.bin": "pytorch_model.bin.index.json",
}
"""The names of files of weights, one or several, and of the index that says which belong together; the first kind found
is taken."""
LONGEST = 2**26
"""The most bytes of a JSON file next to weights: an index has every tensor's name, a Trainer's state all losses."""


def has_weights(folder: Path) -> bool:
    """Whether a folder is a checkpoint."""
    return any(re.fullmatch(pattern, path.name) for pattern in OF_FOLDERS for path in folder.iterdir())


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
    for pattern, index in OF_FOLDERS.items():
        matches = {file: match for file in there if (match := re.fullmatch(pattern, file.name))}
        if whole := [file for file, match in matches.items() if match[1] is None]:
            return whole
        if matches and (path / index).is_file():
            return all_of(path, indexed(path / index))
        if matches:
            (*_, last) = matches.values()
            if len(matches) != int(last[2]):
                raise lacking(path, int(last[2]), last[0], len(matches))
            return [*matches]
    names = ", ".join(file.name for file in there[:SHOWN]) or "nothing"
    raise CheckpointError(
        "checkpoint",
        "a folder with model.safetensors or pytorch_model.bin",
        f"{names} in {str(path)!r}",
        "Name the file, the folder that save_pretrained wrote, or that in which checkpoints stand.",
    )


def indexed(index: Path) -> list[str]:
    """The names of the files over which an index distributes the tensors.

    Raises:
        CheckpointError: if it is not an index, or names files elsewhere.
    """
    try:
        parts = bounded_json(index)["weight_map"]
        names = sorted({*parts.values()})
        if not names or any(not isinstance(name, str) or not name or Path(name).name != name for name in names):
            raise ValueError("names of other places")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as cause:
        raise CheckpointError(
            "checkpoint",
            "an index that says which file has which tensor",
            f"{type(cause).__name__}: {cause} in {index}",
            "Copy it again.",
        ) from cause
    return names


def beside_weights(file: Path) -> dict[str, Json] | None:
    """What a JSON file next to weights says, by name; None if there is none.

    Raises:
        CheckpointError: if it is damaged, or holds no object.
    """
    if not file.is_file():
        return None
    try:
        content = bounded_json(file)
        if not isinstance(content, dict):
            raise ValueError(f"{type(content).__name__} and no names")
    except (OSError, ValueError, RecursionError) as cause:
        raise CheckpointError(
            "checkpoint", f"a readable {file.name}", f"{cause} in {file}", "Copy it again, or remove it."
        ) from cause
    return content


def bounded_json(file: Path) -> Json:
    """The contents of a JSON file; raises ValueError if it holds none, or is too long."""
    if file.stat().st_size > LONGEST:
        raise ValueError(f"more than {LONGEST:,} bytes")
    return json.loads(file.read_bytes())


def all_of(folder: Path, names: Sequence[str]) -> list[Path]:
    """The files with these names; raises CheckpointError if one is missing."""
    files = [folder / name for name in names if (folder / name).is_file()]
    if len(files) < len(names):
        raise lacking(folder, len(names), next(name for name in names if folder / name not in files), len(files))
    return files


def lacking(folder: Path, wanted: int, such_as: str, there: int) -> CheckpointError:
    """The error for a folder that lacks some of its files."""
    return CheckpointError(
        "checkpoint", f"{wanted} files such as {such_as}", f"{there} in {folder}", "Copy all of them."
    )
