"""records.jsonl: one line per reading, appended and flushed; an incomplete last line is dropped on reading."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Never

from gnomon._lines import append_line
from gnomon.errors import DataError
from gnomon_lab.runs.checkpoint import load_of_run
from gnomon_lab.runs.files import read_bytes, replace_bytes

Record = dict[str, Any]
"""Plain JSON: `arm`, `step`, then the numbers of one reading; wall times are under `seconds`."""
Arm = Sequence[Record]
"""The records of one arm."""
Seeds = Sequence[Sequence[Record]]
"""The records of one run for each seed."""
Cells = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""The column heads of a table made from records, and its rows."""


class Finished(Record):
    """A record of a finished run: a name that it lacks was not recorded by the version of gnomon that made the run."""

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
    """The records of its arm that a checkpoint relies on: how many, and the hash of their lines."""

    checkpoint: Path
    records: int
    sha256: str


def seals_in(folder: Path) -> dict[str, Seal]:
    """What the checkpoints in a run's folder rely on, by arm; raises as `load_of_run` does."""
    seals = {}
    for path in sorted(folder.glob("checkpoint-*.safetensors")):
        saved = load_of_run(path)
        seals[saved["arm"]] = Seal(path, saved["records"], saved["records_sha256"])
    return seals


class Kept:
    """The records of one arm so far, as a checkpoint seals them."""

    def __init__(self) -> None:
        self.count = 0
        self._hash = hashlib.sha256()

    def add(self, line: bytes) -> None:
        """Adds one line, given without its newline."""
        self.count += 1
        self._hash.update(line + b"\n")

    @property
    def sha256(self) -> str:
        """The hash of all lines."""
        return self._hash.hexdigest()


def read_records(path: Path) -> list[Record]:
    """The complete records of the file, none if there is no file; a last line without a newline was being written.

    Raises:
        DataError: if a line before the last is not a record.
    """
    return parse_records(path, read_bytes(path))


def parse_records(path: Path, content: bytes) -> list[Record]:
    """The records in the file's contents; raises as `read_records` does."""
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
    """Appends one line, and returns it without its newline.

    Raises:
        DataError: if there is no room for it; the lines before it are complete, and it is not there.
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


def require_sealed(path: Path, content: bytes, seals: Mapping[str, Seal]) -> tuple[dict[str, Kept], list[bytes]]:
    """The records in the file's contents that checkpoints rely on, by arm, and their lines in order.

    Raises:
        DataError: if what a checkpoint relies on is missing, or was altered.
    """
    kept = {arm: Kept() for arm in seals}
    left = []
    for line in content.split(b"\n")[:-1]:
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
    return kept, left


def keep_records(path: Path, seals: Mapping[str, Seal]) -> dict[str, Kept]:
    """Keeps the records in the file that checkpoints rely on, and drops all others, which are made again.

    The others are those made after an arm's checkpoint, those of an arm without one, and lines that are not records,
    such as a power failure leaves. Nothing is dropped unless everything that checkpoints rely on is there.

    Args:
        path: the file.
        seals: what the checkpoints rely on, by arm.

    Returns:
        The records that are left, by arm.

    Raises:
        DataError: if what a checkpoint relies on is missing, or was altered.
    """
    content = read_bytes(path)
    kept, left = require_sealed(path, content, seals)
    if content != (whole := b"".join(line + b"\n" for line in left)):
        replace_bytes(path, whole)
    return kept
