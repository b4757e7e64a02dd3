"""Files of lines that only grow."""

import os
import stat
from pathlib import Path

from gnomon.errors import DataError


def append_line(path: Path, line: bytes) -> None:
    """Appends a line and hands it to the operating system at once, so that a killed process loses none.

    A line during which a process was killed stays a separate line: the next one is not appended to it.

    Raises:
        OSError: if there is no room for the complete line, of which nothing then remains; or if there is no such
            folder.
    """
    with path.open("ab+", buffering=0) as file:
        before = os.fstat(file.fileno())
        partial = before.st_size > 0 and os.pread(file.fileno(), 1, before.st_size - 1) != b"\n"
        whole = left = memoryview(b"\n" * partial + line + b"\n")
        try:
            while left:
                left = left[file.write(left) :]
        finally:
            if len(left) < len(whole) and left and stat.S_ISREG(before.st_mode):
                file.truncate(before.st_size)


def not_written(argument: str, error: OSError, kept: str) -> DataError:
    """The error for a line that `append_line` could not write; `kept` says what is left."""
    if isinstance(error, FileNotFoundError):
        return DataError(argument, "a file in a folder that exists", error, "Create the folder, or put it back.")
    return DataError(argument, "a file with room for a line", error, f"Make room; {kept}.")
