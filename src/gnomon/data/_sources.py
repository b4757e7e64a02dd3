"""Where image data are: in a folder of parquet files or of classes, or on the Hugging Face hub."""

import difflib
import os
import re
from os import PathLike
from pathlib import Path

from gnomon.data._class_folders import of_class_folders
from gnomon.data._hub import KNOWN, Known, of_hub
from gnomon.data._parquet import of_parquet
from gnomon.data._table import Table
from gnomon.errors import DataError


def find(name: str, split: str, data_dir: str | PathLike[str] | None) -> Table:
    """The table of a split: from a data directory that is named, otherwise the first place that has the data set."""
    known = KNOWN.get(name) or next((k for k in KNOWN.values() if k.hub_id == name), None)
    path = home("load_images(name)", name)
    only_path = name.startswith((".", "~")) or path.is_absolute()
    root, below = None if only_path else _root(data_dir), known.folder if known else name
    under_root = [] if root is None else [root / below]
    named = root is not None and bool(data_dir)  # then it is the only place
    for folder in under_root if known or named else [*under_root, path]:
        if name and folder.is_dir():
            of_files = of_parquet if any(folder.glob("*.parquet")) else of_class_folders
            return of_files(folder, split)
    if root is not None and named:
        raise _not_in(root, below)
    if known is None and not re.fullmatch(r"\w[\w.-]*/[\w.-]+", name):
        raise _unknown(name)
    return of_hub(known or Known(name, name), split, under_root)


def _root(data_dir: str | PathLike[str] | None) -> Path | None:
    """The data directory that is searched: the one named, otherwise that of GNOMON_DATA; it has to exist."""
    where, folder = ("load_images(data_dir)", data_dir) if data_dir else ("GNOMON_DATA", os.environ.get("GNOMON_DATA"))
    if not folder:
        return None
    root = home(where, folder)
    if not root.is_dir():
        raise DataError(None, "a folder", f"{str(root)!r}", "Create it, or name the one that exists.", where=where)
    return root


def home(where: str, path: str | PathLike[str]) -> Path:
    """The path, in which a leading `~` may begin a user's name."""
    try:
        return Path(path).expanduser()
    except RuntimeError as cause:
        raise DataError(None, "a path", f"{str(path)!r}, of no user here", "Correct it.", where=where) from cause


def _not_in(root: Path, folder: str) -> DataError:
    """The error for a data directory that was named and lacks the data set."""
    lower = {below.name.lower(): below.name for below in root.iterdir() if below.is_dir()}
    nearest = difflib.get_close_matches(folder.lower(), lower, n=1, cutoff=0.8)
    return DataError(
        "data_dir",
        f"a folder {folder!r} in {str(root)!r}, the only place searched",
        f"{lower[nearest[0]]!r}" if nearest else "none",
        f"{'Rename it' if nearest else 'Name the folder that holds it'}, or leave data_dir (--data-dir) out to search "
        "GNOMON_DATA and the hub.",
    )


def _unknown(name: str) -> DataError:
    if "/" in name or name.startswith((".", "~")):
        return DataError("name", "a folder", repr(name), "Create it, or name the one that exists.")
    nearest = difflib.get_close_matches(name.lower(), KNOWN, n=1, cutoff=0.5)
    return DataError(
        "name",
        f"one of {', '.join(KNOWN)}, a hub id owner/name or a folder",
        repr(name),
        f"The nearest is {nearest[0]!r}." if nearest else "Check the spelling.",
    )
