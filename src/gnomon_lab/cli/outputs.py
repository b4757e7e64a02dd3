"""Output files that the user names: what must not be overwritten is refused before the work starts."""

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from gnomon.errors import DataError

RUN = ("records.jsonl", ".lock")
"""A folder with a config.json and one of these is a run's."""


def refuse(outputs: Mapping[str, Path], inputs: Iterable[Path]) -> None:
    """Refuses outputs that cannot be written, are no regular files, are in a run's folder, or are read.

    Args:
        outputs: the files to be written, by option.
        inputs: the files that the command reads.

    Raises:
        DataError: naming the first that is refused.
        OSError: if a name is too long, or its folder may not be entered.
    """
    inputs = list(inputs)
    for name, path in outputs.items():
        option = f"--{name}"
        if not path.absolute().parent.is_dir() or "\0" in path.name:
            raise DataError(option, "a file in a folder", f"{str(path)!r}", "Make its folder.")
        # The file is first written next to it, as in runs.files.replace_file.
        for there in filter(os.path.lexists, (path, path.with_name(f".{path.name}.part") if path.name else path)):
            if not stat.S_ISREG(there.lstat().st_mode):
                got = f"{str(there)!r}, which is {kind(there)}"
                raise DataError(option, "a file, or none yet", got, "Name another file.")
        if not os.access(path.absolute().parent, os.W_OK):
            raise DataError(option, "a folder to write in", f"that of {str(path)!r}", "Name another file.")
        if any(map(is_run, path.resolve().parents)):
            raise DataError(option, "a file outside a run's folder", f"{str(path)!r}", "Name another file.")
        for other in inputs:
            if path.exists() and other.exists() and path.samefile(other):
                got = f"{str(path)!r}, which is {str(other)!r}"
                raise DataError(option, "a file that is not read here", got, "Name another file.")
    paths = {path.absolute().resolve() for path in outputs.values()}
    if len(paths) < len(outputs):
        got = ", ".join(repr(str(path)) for path in outputs.values())
        raise DataError(f"--{', --'.join(outputs)}", "a file each", got, "Name one for each.")


def is_run(folder: Path) -> bool:
    """Whether it is a run's folder, in which no file is written: even a new one, result.json, would end the run."""
    return (folder / "config.json").is_file() and any((folder / name).exists() for name in RUN)


def kind(path: Path) -> str:
    """What is at a path that is not a regular file."""
    mode = path.lstat().st_mode
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")
