"""Files that are whole or not there."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gnomon.errors import DataError

Json = Any
"""What a JSON file can hold."""


def replace_file(path: Path, write: Callable[[Path], None]) -> None:
    """Has `write` fill a file beside `path`, and renames it: readers see the old file or the new one, never a part.

    What a killed process leaves beside is written over by the next.
    """
    beside = path.with_name(f".{path.name}.part")
    try:
        write(beside)
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


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


def read_json(path: Path) -> Json:
    """The value of a JSON file.

    Raises:
        DataError: if the file is missing or no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"read_json({path}): expected a JSON file, got {error}. Name the folder of a run.") from error
