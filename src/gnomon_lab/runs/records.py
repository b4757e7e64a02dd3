"""records.jsonl: one line a reading, appended and flushed; an incomplete last line is dropped on reading."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Never

from gnomon._lines import append_line
from gnomon.errors import DataError
from gnomon_lab.runs.files import read_bytes, replace_bytes

Record = dict[str, Any]
"""Plain JSON: `arm`, `step`, then the numbers of one reading; wall times stand under `seconds`."""


class Finished(Record):
    """A record of a finished run: what it is asked for and lacks, another version of gnomon did not record."""

    def __init__(self, record: Record, folder: Path, commit: object) -> None:
        super().__init__(record)
        self._folder = folder
        self._commit = commit

    def __missing__(self, name: str) -> Never:
        made = f" (made at commit {self._commit})" if self._commit else ""
        raise DataError(
            self._folder,
            f"records with {name}, as this version of gnomon makes them",
            f"none in {self['arm']} at step {self['step']}{made}",
            "Read the run with the version that made it, or delete its folder to run again.",
            where="run",
        )


@dataclass(frozen=True)
class Seal:
    """The records of its arm that a checkpoint stands on: how many, and the hash of their lines."""

    checkpoint: Path
    records: int
    sha256: str


class Kept:
    """The records of one arm up to now, as a checkpoint seals them."""

    def __init__(self) -> None:
        self.count = 0
        self._hash = hashlib.sha256()

    def add(self, line: bytes) -> None:
        """Counts one line, without its end."""
        self.count += 1
        self._hash.update(line + b"\n")

    @property
    def sha256(self) -> str:
        """The hash of all lines."""
        return self._hash.hexdigest()


def read_records(path: Path) -> list[Record]:
    """The whole records of the file, none if there is no file; a last line without its end was being written.

    Raises:
        DataError: if a line before the last is no record.
    """
    return parse_records(path, read_bytes(path))


def parse_records(path: Path, content: bytes) -> list[Record]:
    """The records in what the file held; raises as `read_records`."""
    records = []
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        record = _parse(line)
        if record is None:
            raise DataError(
                path,
                f"a record with arm and step in line {number}",
                f"{line[:40]!r}",
                "Restore the file, or call `gnomon run` again, which makes what is missing.",
                where="read_records",
            )
        records.append(record)
    return records


def _parse(line: bytes) -> Record | None:
    """The record in a line; None if it holds none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(record, dict) and isinstance(record.get("arm"), str) and type(record.get("step")) is int
    return record if whole else None


def append_record(path: Path, record: Record) -> bytes:
    """Appends one line, and returns it without its end.

    Raises:
        DataError: if there is no room for it; the lines before it are whole, and it is not there.
    """
    line = json.dumps(record, allow_nan=False, separators=(",", ":")).encode()
    try:
        append_line(path, line)
    except OSError as error:
        raise DataError(
            path,
            f"room for a line of {len(line)} bytes",
            error,
            "Make room, and call the same command again: it goes on from the last checkpoint.",
            where="record",
        ) from error
    return line


def keep_records(path: Path, seals: Mapping[str, Seal]) -> dict[str, Kept]:
    """Leaves those records in the file that checkpoints stand on, and drops all others, which are made again.

    The others are those since an arm's checkpoint, those of an arm without one, and lines that are no records, such as
    a power failure leaves. Nothing is dropped unless all that checkpoints stand on is there.

    Args:
        path: the file.
        seals: what the checkpoints stand on, by arm.

    Returns:
        What is left, by arm.

    Raises:
        DataError: if what a checkpoint stands on is missing, or was altered.
    """
    lines = read_bytes(path).split(b"\n")
    kept = {arm: Kept() for arm in seals}
    left = []
    for line in lines[:-1]:
        record = _parse(line)
        arm = "" if record is None else record["arm"]
        if arm in seals and kept[arm].count < seals[arm].records:
            kept[arm].add(line)
            left.append(line)
    for arm, seal in seals.items():
        if kept[arm].sha256 != seal.sha256:
            missing = kept[arm].count < seal.records
            raise DataError(
                path,
                f"the {seal.records} records of {arm} that its checkpoint stands on",
                kept[arm].count if missing else "others: the file was altered",
                f"Restore the file, or delete {seal.checkpoint} to train this arm again.",
                where="read_records",
            )
    if left != lines[:-1] or lines[-1]:
        replace_bytes(path, b"".join(line + b"\n" for line in left))
    return kept
