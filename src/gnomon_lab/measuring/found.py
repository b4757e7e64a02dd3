"""From what the user names to checkpoints: files, folders that are checkpoints or hold some, and patterns."""

import glob
import os
import re
from collections.abc import Iterable
from pathlib import Path

from gnomon.errors import CheckpointError
from gnomon_lab.measuring.folders import has_weights

ENDS = (".bin", ".ckpt", ".pt", ".pth", ".safetensors", ".tar")
"""How the names of checkpoints among the files in a folder end."""
BESIDE = r"(optimizer|scheduler|scaler|sampler|random_states|rng_state|training_args)(?![a-z]).*|.*optim_states.*"
"""The names of files in a folder that trainers keep next to the weights."""


def checkpoints_at(named: Iterable[Path]) -> list[Path]:
    """The checkpoints, each once, if possible under a name that is no link.

    A pattern or a folder stands for those in it, in natural order.

    A folder that has weights itself is one checkpoint. Any other stands for the checkpoints directly in it.

    Raises:
        CheckpointError: if a pattern or a folder has none, or none is named.
    """
    found: dict[Path, Path] = {}
    for one in (one for path in named for one in at(path)):
        place = Path(os.path.realpath(one))  # of a link to itself, which cannot be read, its own
        if found.setdefault(place, one).is_symlink():  # such as best.pt, whose name says no step
            found[place] = one
    if not found:
        raise CheckpointError("checkpoint", "one checkpoint or more", "none", "Name them first, before the options.")
    return [*found.values()]


def at(path: Path) -> list[Path]:
    """The checkpoints that one path stands for; a missing file is reported where it is read."""
    if path.exists() or not glob.has_magic(str(path)):
        return within(path) if path.is_dir() and not has_weights(path) else [path]
    try:
        matches = [*Path(path.anchor).glob(str(path.relative_to(path.anchor)))]
    except ValueError:  # the pattern is invalid
        matches = []
    if not matches:
        raise CheckpointError("checkpoint", f"checkpoints that match {str(path)!r}", "none", "Correct the pattern.")
    return sorted((one for match in matches for one in at(match)), key=natural)


def within(folder: Path) -> list[Path]:
    """The checkpoints in a folder that is not one; itself if it has none, so that reading it says what is there."""
    there = [
        path
        for path in folder.iterdir()
        if (path.is_file() and path.suffix in ENDS and not re.fullmatch(BESIDE, path.name))
        or (path.is_dir() and has_weights(path))
    ]
    return sorted(there, key=natural) or [folder]


def natural(path: Path) -> list[tuple[int, str]]:
    """The key that sorts names in natural order: ckpt-9 before ckpt-10."""
    parts = re.split(r"(\d+)", str(path))
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
