"""records.jsonl: one line a reading, appended and flushed; a torn last line is dropped on reading."""

import json
from pathlib import Path
from typing import Any

from gnomon.errors import DataError
from gnomon_lab.runs.files import replace_bytes

Record = dict[str, Any]
"""Plain JSON: `arm`, `step`, then the numbers of one reading; wall times stand under `seconds`."""


def read_records(path: Path) -> list[Record]:
    """The whole records of the file, none if there is no file; a last line without its end was being written.

    Raises:
        DataError: if a line before the last is no record.
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
        if not isinstance(record, dict) or not {"arm", "step"} <= record.keys():
            raise DataError(
                f"read_records({path}): expected a record with arm and step in line {number}, got {line[:40]!r}. "
                f"Restore the file, or delete the run's folder to run again."
            )
        records.append(record)
    return records


def append_record(path: Path, record: Record) -> None:
    """Appends one line and hands it to the operating system, so that a killed process loses none."""
    line = json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n"
    with path.open("ab", buffering=0) as file:
        file.write(line.encode())


def require_records(path: Path, arm: str, count: int) -> list[Record]:
    """All records, if there are `count` of this arm or more; DataError otherwise."""
    records = read_records(path)
    found = sum(record["arm"] == arm for record in records)
    if found < count:
        raise DataError(
            f"read_records({path}): expected the {count} records of {arm} that its checkpoint stands on, "
            f"got {found}. Restore the file, or delete the run's folder to run again."
        )
    return records


def keep_records(path: Path, arm: str, count: int) -> None:
    """Drops what one arm recorded after its first `count` records, and the torn last line; other arms keep theirs.

    Raises:
        DataError: if there are fewer.
    """
    records = require_records(path, arm, count)
    dropped = {*[place for place, record in enumerate(records) if record["arm"] == arm][count:]}
    if path.exists():
        lines = path.read_bytes().splitlines(keepends=True)[: len(records)]
        replace_bytes(path, b"".join(line for place, line in enumerate(lines) if place not in dropped))
