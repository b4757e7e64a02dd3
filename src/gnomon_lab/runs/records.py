"""records.jsonl: one line a reading, appended and flushed; a torn last line is dropped on reading."""

import json
import os
from pathlib import Path
from typing import Any

from gnomon.errors import DataError

Record = dict[str, Any]
"""Plain JSON: `arm`, `step`, then the numbers of one reading; wall times stand under `seconds`."""


def read_records(path: Path) -> list[Record]:
    """The whole records of the file, none if there is no file; a last line without its end was being written.

    Raises:
        DataError: if a line before the last is no JSON object.
    """
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    records = []
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise DataError(
                f"read_records({path}): expected a JSON object in line {number}, got {line[:40]!r}. "
                f"Restore the file, or delete the run's folder to run again."
            )
        records.append(record)
    return records


def append_record(path: Path, record: Record) -> None:
    """Appends one line and hands it to the operating system, so that a killed process loses none."""
    line = json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n"
    with path.open("ab", buffering=0) as file:
        file.write(line.encode())


def require_records(path: Path, count: int) -> None:
    """Raises DataError if the file holds fewer than `count` records, or damaged ones."""
    records = read_records(path)
    if len(records) < count:
        raise DataError(
            f"read_records({path}): expected the {count} records that the checkpoint stands on, got {len(records)}. "
            f"Restore the file, or delete the run's folder to run again."
        )


def keep_records(path: Path, count: int) -> None:
    """Cuts the file after `count` records, the torn last line included.

    Raises:
        DataError: if there are fewer.
    """
    require_records(path, count)
    if path.exists():
        with path.open("rb+") as file:
            for _ in range(count):
                file.readline()
            file.truncate()
            os.fsync(file.fileno())
