"""Files that are whole or not there."""

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


def replace_file(path: Path, write: Callable[[Path], None]) -> None:
    """Has `write` fill a file beside `path`, and renames it: readers see the old file or the new one, never a part.

    Processes that write the same file do so one after another. What a killed one leaves beside is written over by the
    next. A file that is replaced keeps its permissions. When this returns, the new one outlives a power failure.

    Args:
        path: the file.
        write: fills the file that is there already, empty or not; it must not put another in its place.
    """
    beside = path.with_name(f".{path.name}.part")
    with _alone(beside):
        try:
            kept = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
            if kept is not None:
                beside.chmod(kept | stat.S_IRUSR | stat.S_IWUSR)  # before a word is in it
            write(beside)
            if kept is not None:
                beside.chmod(kept)
            sync(beside)
            beside.replace(path)
        except BaseException as error:
            beside.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno and not error.filename:  # a full disk tells no name
                error.filename = str(path)
            raise
    sync(path.parent)


@contextmanager
def _alone(beside: Path) -> Iterator[None]:
    """Makes the file and holds it against others that would write it; the dead hold nothing."""
    while True:
        if beside.is_symlink() or beside.is_fifo():  # which would be written through, or waited at
            beside.unlink()
        with beside.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(file.fileno(), beside):  # not, if whoever held it renamed or removed it while we waited
                yield
                return


def _is_at(opened: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(opened), path.stat())
    except FileNotFoundError:
        return False


def sync(path: Path) -> None:
    """Waits until a file, or the names in a folder, are on the disk; nothing if there is no such file."""
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
    """Writes a file, whole or not at all."""

    def write(beside: Path) -> None:
        beside.write_bytes(content)

    replace_file(path, write)


def replace_text(path: Path, text: str) -> None:
    """Writes a text file, whole or not at all."""
    replace_bytes(path, text.encode())


def write_json(path: Path, value: object) -> None:
    """Writes `value` as indented JSON, whole or not at all."""
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    replace_text(path, text)


def read_bytes(path: Path) -> bytes:
    """What a file holds; nothing if there is none.

    Raises:
        DataError: if it is no file, but a folder, a device or a pipe that might never end.
    """
    if path.exists() and not path.is_file():
        raise DataError(path, "a file", "something else", "Remove it.", where="read_bytes")
    return path.read_bytes() if path.exists() else b""


def read_json_object(path: Path) -> dict[str, Json]:
    """The object of a JSON file.

    Raises:
        DataError: if it holds no JSON, or something other than an object, or what could not be written again.
    """
    try:
        value = json.loads(read_bytes(path))
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(path, "a JSON file", error, "Restore it.", where="read_json") from error
    if not isinstance(value, dict) or _is_deep(value):
        got = "one too deep" if isinstance(value, dict) else type(value).__name__
        raise DataError(path, "a JSON object", got, "Restore the file.", where="read_json")
    return value


def _is_deep(value: Json, most: int = 50) -> bool:
    """Whether it holds what is nested deeper, which may not be written again."""
    level = [value]
    for _ in range(most):
        level = [part for whole in level if isinstance(whole, dict | list) for part in _parts(whole)]
    return bool(level)


def _parts(whole: dict[str, Json] | list[Json]) -> Iterable[Json]:
    return whole.values() if isinstance(whole, dict) else whole
