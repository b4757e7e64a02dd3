"""Files that are either complete or absent."""

import errno
import fcntl
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gnomon.errors import DataError

Json = Any
"""What a JSON file can hold."""
DEEPEST = 50


def replace_file(path: Path, write: Callable[[Path], None]) -> None:
    """Has `write` fill a file next to `path`, and renames it: readers see the old file or the new one, never a part.

    Processes that write the same file take turns. What a killed one leaves behind is overwritten by the next. A file
    that is replaced keeps its permissions. When this returns, the new one survives a power failure.

    Args:
        path: the file.
        write: fills the given file, which already exists, empty or not; it must not replace that file by another.
    """
    beside = path.with_name(f".{path.name}.part")
    with _alone(beside):
        try:
            kept = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
            if kept is not None:
                beside.chmod(kept | stat.S_IRUSR | stat.S_IWUSR)  # before anything is in it
            write(beside)
            if kept is not None:
                beside.chmod(kept)
            sync(beside)
            beside.replace(path)
        except BaseException as error:
            beside.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno and not error.filename:  # a full disk gives no name
                error.filename = str(path)
            raise
    sync(path.parent)


@contextmanager
def _alone(beside: Path) -> Iterator[None]:
    """Creates the file and locks it against other writers; a dead process holds no lock."""
    while True:
        if beside.is_symlink() or beside.is_fifo():  # we would write through the one, and wait at the other
            beside.unlink()
        with beside.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if is_at(file.fileno(), beside):  # not, if whoever held it renamed or removed it while we waited
                yield
                return


def is_at(opened: int, path: Path) -> bool:
    """Whether an opened file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(opened), path.stat())
    except FileNotFoundError:
        return False


def sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk; does nothing if there is no such file."""
    try:
        place = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(place)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that cannot do it for folders
            raise
    finally:
        os.close(place)


def replace_bytes(path: Path, content: bytes) -> None:
    """Writes a file, completely or not at all."""

    def write(beside: Path) -> None:
        beside.write_bytes(content)

    replace_file(path, write)


def replace_text(path: Path, text: str) -> None:
    """Writes a text file, completely or not at all."""
    replace_bytes(path, text.encode())


def write_json(path: Path, value: object) -> None:
    """Writes `value` as indented JSON, completely or not at all."""
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    replace_text(path, text)


def read_bytes(path: Path) -> bytes:
    """The contents of a file; empty if there is none.

    Raises:
        DataError: if it is not a file, but a folder, a device or a pipe, which might never end.
    """
    if path.exists() and not path.is_file():
        raise DataError(path, "a file", "something else", "Remove it.", where="read_bytes")
    return path.read_bytes() if path.exists() else b""


def read_json_object(path: Path, advice: str = "Restore it.") -> dict[str, Json]:
    """The object in a JSON file; `advice` ends the errors.

    Raises:
        DataError: if it holds no JSON, or something other than an object, or what could not be written again.
    """
    try:
        value = json.loads(read_bytes(path))
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(path, "a JSON file", error, advice, where="read_json_object") from error
    if not isinstance(value, dict) or _is_deep(value):
        got = "one too deep" if isinstance(value, dict) else type(value).__name__
        raise DataError(path, "a JSON object", got, advice, where="read_json_object")
    return value


def _is_deep(value: Json) -> bool:
    """Whether it is nested more deeply than `DEEPEST`, so that it may not be possible to write it again."""
    level = [value]
    for _ in range(DEEPEST):
        level = [part for whole in level if isinstance(whole, dict | list) for part in _parts(whole)]
    return bool(level)


def _parts(whole: dict[str, Json] | list[Json]) -> Iterable[Json]:
    return whole.values() if isinstance(whole, dict) else whole
