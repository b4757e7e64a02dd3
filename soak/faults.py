"""What can become of a process at one of its file operations; all of them are counted, and one is struck."""

import builtins
import contextlib
import errno
import io
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import safetensors.torch

from soak.case import Do
from soak.names import Names

MODES = ("kill", "torn", "power", "full", "refused")
"""Killed before it; killed in its midst; the power fails before it; the disk is full from here on; it fails once."""
BY_PATH = ("replace", "rename", "unlink", "remove", "mkdir", "rmdir", "truncate", "link", "symlink", "open")
PASSED_ON = "passed-on"
"""A file beside the folder: there once something was refused."""
FROM_TO = ("replace", "rename", "link", "symlink")
BY_FILE = ("fsync", "fdatasync", "ftruncate")


class Faults:
    """Wraps this process's operations on files below a folder, for good; so it is for a child that ends soon."""

    def __init__(self, folder: Path, mode: str, at: int, chance: Random) -> None:
        self.folder, self.mode, self.at, self.chance = str(folder), mode, at, chance
        self.count, self.is_full, self.cut_short = 0, False, False
        self._names = Names(folder.parent / "names") if mode == "power" else None
        self._synced: dict[int, int] = {}
        """By inode: the bytes that survive a power failure, of files that this process wrote to."""

    def install(self) -> None:
        """Puts the wrappers where pathlib, shutil, safetensors and everyone else find them."""
        self._truncate = os.truncate
        for name in BY_PATH:
            setattr(os, name, self._by_path(name, getattr(os, name)))
        for name in BY_FILE:
            setattr(os, name, self._by_file(getattr(os, name)))
        self._write = os.write
        os.write = self._write_to
        self._open = io.open
        io.open = builtins.open = self._opened
        self._serialize = safetensors.torch.serialize_file
        safetensors.torch.serialize_file = self._serialized

    def operation(self, do: Do, half: Callable[[], int] | None = None, raw: bool = False) -> Any:
        """One more; `half` is given for a write, and does the first half of it."""
        self.count += 1
        if self.count == self.at:
            if self.mode == "torn":
                with contextlib.suppress(OSError):  # such as a folder whose parent is not there yet
                    (half or do)()
            if self.mode == "power":
                self._cut()
            if self.mode in ("kill", "torn", "power"):
                os.kill(os.getpid(), signal.SIGKILL)
            if self.mode == "refused":
                raise self._refused(errno.EIO)
            self.is_full = self.mode == "full"
        if self.is_full and half is not None:
            short = 0 if self.cut_short else half()
            self.cut_short = True
            if not (raw and short):
                raise self._refused(errno.ENOSPC)
            return short
        return do()

    def _refused(self, number: int) -> OSError:
        """The error, noted beside the folder."""
        self._open(os.path.join(os.path.dirname(self.folder), PASSED_ON), "w").close()
        return OSError(number, os.strerror(number))

    def _inside(self, path: object) -> bool:
        return path_of(path).startswith(self.folder)

    def _by_path(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(path: Any, *others: Any, **named: Any) -> Any:
            writes = name != "open" or (others and others[0] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
            place = path_of(path, named.get("dir_fd"))
            if not writes or not place.startswith(self.folder):
                return call(path, *others, **named)
            other = path_of(others[0]) if name in FROM_TO else ""
            return self.operation(self._noted(name, place, other, lambda: call(path, *others, **named)))

        return wrapped

    def _noted(self, name: str, place: str, other: str, do: Do) -> Do:
        """The same operation, whose change of names a power failure may take back."""
        if self._names is None or name == "truncate":
            return do
        names = self._names

        def noted() -> object:
            note = names.before(name, place, other)
            done = do()
            note()
            return done

        return noted

    def _by_file(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(file: Any, *others: Any) -> Any:
            number = file if isinstance(file, int) else file.fileno()

            def do() -> Any:
                done = call(file, *others)
                status = os.fstat(number)
                self._synced[status.st_ino] = status.st_size
                if self._names is not None and stat.S_ISDIR(status.st_mode):
                    self._names.synced(path_of(number))
                return done

            return self.operation(do) if self._inside(number) else do()

        return wrapped

    def _write_to(self, number: int, content: Any) -> int:
        if not self._inside(number):
            return self._write(number, content)
        half = content[: (len(content) + 1) // 2]
        return self.operation(lambda: self._write(number, content), lambda: self._write(number, half), raw=True)

    def _opened(self, path: Any, mode: str = "r", *others: Any, **named: Any) -> Any:
        if not set(mode) & set("wax+") or not self._inside(path):
            return self._open(path, mode, *others, **named)
        file = self.operation(self._noted("open", path_of(path), "", lambda: self._open(path, mode, *others, **named)))
        status = os.fstat(file.fileno())
        if {"w", "x"} & {*mode}:
            self._synced[status.st_ino] = 0
        else:
            self._synced.setdefault(status.st_ino, status.st_size)
        return Written(file, self)

    def _serialized(self, tensors: Any, path: Any, *others: Any, **named: Any) -> None:
        if not self._inside(path):
            return self._serialize(tensors, path, *others, **named)

        def half() -> int:
            self._serialize(tensors, path, *others, **named)
            size = os.stat(path).st_size // 2
            self._truncate(path, size)
            return size

        done = self.operation(lambda: self._serialize(tensors, path, *others, **named), half)
        self._synced[os.stat(path).st_ino] = 0
        return done

    def _cut(self) -> None:
        """Takes back some or all of the names, and of each file's bytes, that were not yet on the disk."""
        if self._names is not None:
            self._names.cut(self.chance)
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = os.path.join(folder, name)
                status = os.lstat(path)
                durable = self._synced.get(status.st_ino, status.st_size)
                if durable < status.st_size:
                    self._truncate(path, self.chance.choice([durable, self.chance.randint(durable, status.st_size)]))


def path_of(path: Any, folder: int | None = None) -> str:
    """The absolute path of a path or an open file; in an open folder, if one is given."""
    if isinstance(path, int):
        return os.readlink(f"/proc/self/fd/{path}")
    if not isinstance(path, str | bytes | os.PathLike):
        return ""
    return os.path.abspath(os.path.join("" if folder is None else path_of(folder), os.fsdecode(path)))


class Written:
    """A file that is open for writing, its writes counted; and its end, which may write what it kept back."""

    def __init__(self, file: Any, faults: Faults) -> None:
        self._file, self._faults = file, faults
        self._raw = isinstance(file, io.RawIOBase)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __iter__(self) -> Any:
        return iter(self._file)

    def __enter__(self) -> "Written":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def write(self, content: Any) -> int:
        """All of it, or its half and the fault."""

        def half() -> int:
            self._file.write(content[: (len(content) + 1) // 2])
            self._file.flush()
            return (len(content) + 1) // 2

        return self._faults.operation(lambda: self._file.write(content), half, self._raw)

    def truncate(self, *size: int) -> int:
        """Counted."""
        return self._faults.operation(lambda: self._file.truncate(*size))

    def close(self) -> None:
        """Counted unless it was closed before or keeps nothing back."""
        if self._raw or self._file.closed:
            self._file.close()
        else:
            self._faults.operation(self._file.close)
