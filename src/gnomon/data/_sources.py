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
    """The table of a split: from the first folder that there is of those where it may be, otherwise from the hub."""
    known = KNOWN.get(name) or next((k for k in KNOWN.values() if k.hub_id == name), None)
    path = home("load_images(name)", name)
    only_path = name.startswith((".", "~")) or path.is_absolute()
    under_roots = [] if only_path else [root / (known.folder if known else name) for root in _roots(data_dir)]
    for folder in under_roots if known else [*under_roots, path]:
        if name and folder.is_dir():
            of_files = of_parquet if any(folder.glob("*.parquet")) else of_class_folders
            return of_files(folder, split)
    if known is None and not re.fullmatch(r"\w[\w.-]*/[\w.-]+", name):
        raise _unknown(name)
    return of_hub(known or Known(name, name), split, under_roots)


def _roots(data_dir: str | PathLike[str] | None) -> list[Path]:
    """The data directories, in the order in which they are searched; one that is named has to exist."""
    named = [("load_images(data_dir)", data_dir), ("GNOMON_DATA", os.environ.get("GNOMON_DATA"))]
    roots = []
    for where, folder in named:
        if not folder:
            continue
        root = home(where, folder)
        if not root.is_dir():
            raise DataError(None, "a folder", f"{str(root)!r}", "Create it, or name the one that exists.", where=where)
        roots.append(root)
    return roots


def home(where: str, path: str | PathLike[str]) -> Path:
    """The path, in which a leading `~` may begin a user's name."""
    try:
        return Path(path).expanduser()
    except RuntimeError as cause:
        raise DataError(None, "a path", f"{str(path)!r}, of no user here", "Correct it.", where=where) from cause


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
