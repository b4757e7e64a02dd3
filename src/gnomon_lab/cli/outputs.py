"""Files that the user names to be written: what must not be written over is refused before the work."""

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from gnomon.errors import DataError


def refuse(where: str, outputs: Mapping[str, Path], inputs: Iterable[Path]) -> None:
    """Refuses outputs that cannot be written, or in whose place stands what is no regular file, or is read here.

    Args:
        where: the command.
        outputs: by option.
        inputs: the files that the command reads.

    Raises:
        DataError: naming the first.
        OSError: if a name is too long, or its folder must not be entered.
    """
    inputs = list(inputs)
    for name, path in outputs.items():
        option = f"{where}(--{name})"
        if not path.absolute().parent.is_dir() or "\0" in path.name:
            raise DataError(f"{option}: expected a file in a folder, got {str(path)!r}. Make its folder.")
        # What is written stands beside it at first, as runs.files.replace_file has it.
        for there in filter(os.path.lexists, (path, path.with_name(f".{path.name}.part") if path.name else path)):
            if not stat.S_ISREG(there.lstat().st_mode):
                raise DataError(
                    f"{option}: expected a file, or none yet, got {str(there)!r}, which is {kind(there)}. "
                    f"Name another file."
                )
        if not os.access(path.absolute().parent, os.W_OK):
            raise DataError(f"{option}: expected a folder to write in, got that of {str(path)!r}. Name another file.")
        for other in inputs:
            if path.exists() and other.exists() and path.samefile(other):
                raise DataError(
                    f"{option}: expected a file that is not read here, got {str(path)!r}, which is {str(other)!r}. "
                    f"Name another file."
                )
    paths = {path.absolute().resolve() for path in outputs.values()}
    if len(paths) < len(outputs):
        raise DataError(
            f"{where}(--{', --'.join(outputs)}): expected a file each, got "
            f"{', '.join(repr(str(path)) for path in outputs.values())}. Name two."
        )


def kind(path: Path) -> str:
    """What stands at a path that is no regular file."""
    mode = path.lstat().st_mode
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")
