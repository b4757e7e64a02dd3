"""Earlier readings of checkpoints: a history in a file that only grows, so that nothing is measured twice."""

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gnomon._lines import append_line, not_written
from gnomon.errors import DataError
from gnomon_lab.measuring.filling import listed

Record = dict[str, Any]
"""A line: `step` and numbers, as in `gnomon.History`; under `checkpoint` which it was, under `measured` how."""
UNSAID = {"split": "train"}
"""What histories mean where they hold None: earlier versions kept the option as it was given."""
FOLLOW = ("data", "samples", "network_sha256", "samples_sha256")
"""Parts of a setting that differ, in this order, when another one does, such as the split, which is named first."""
BEGINS = b'{"step":'
"""How a line begins, even one during which its writer was killed."""


class Kept:
    """The readings of checkpoints by step, as `History.load` gives them: a new one replaces those from its step on.

    Replaced readings are still known: by the hash of their checkpoint, and the latest one at each step by that.

    Args:
        path: the file; None to keep them in memory only.
        setting: what the numbers depend on besides the checkpoint.
    Attributes:
        latest: the last reading at each step, also where one at an earlier step has replaced it since.
    Raises:
        DataError: if the file holds something else, or readings in another setting, which is named.
    """

    def __init__(self, path: Path | None, setting: Mapping[str, object]) -> None:
        self.path, self.setting = path, json.loads(json.dumps(setting))
        self._rows: list[Record] = []
        self.latest: dict[int, Record] = {}
        self._known: dict[str, Record] = {}
        for record in [] if path is None else read(path):
            self.require_same(record["measured"]["setting"])
            self._take(record)

    @property
    def rows(self) -> list[Record]:
        """The readings in their place, by ascending step."""
        return [*self._rows]

    def find(self, sha256: str) -> Record | None:
        """The reading of the checkpoint with this hash, whatever its step; None if there is none."""
        return self._known.get(sha256)

    def put(self, record: Record) -> None:
        """Puts a reading at its step; nothing is written if it is already there.

        Raises:
            DataError: if there is no room for it; those before it stay.
        """
        if any(row["step"] == record["step"] and sha256(row) == sha256(record) for row in self._rows):
            return
        if self.path is not None:
            try:
                append_line(self.path, json.dumps(record, allow_nan=False, separators=(",", ":")).encode())
            except OSError as cause:
                raise not_written("--history", cause, "what was measured before stays") from cause
        self._take(record)

    def _take(self, record: Record) -> None:
        self._rows = [row for row in self._rows if row["step"] < record["step"]] + [record]
        self._known[sha256(record)] = self.latest[record["step"]] = record

    def require_same(self, setting: Mapping[str, object]) -> None:
        """Raises DataError if these were measured in another setting, naming what differs."""
        before, now = ({name: meant(one, name) for name in self.setting} for one in (setting, self.setting))
        names = [name for name in now if before[name] != now[name]]
        if names:
            names.sort(key=lambda name: FOLLOW.index(name) if name in FOLLOW else -1)
            told = [f"{name} {before[name]!r} and not {now[name]!r}" for name in names]
            raise DataError(
                "--history",
                "readings that were taken as these are to be",
                f"those of {listed(told)} in {self.path}",
                "Name another file, or the same options.",
            )


def meant(setting: Mapping[str, object], name: str) -> object:
    """A part of a setting, also where it was kept as None for the default."""
    found = setting.get(name)
    return UNSAID.get(name) if found is None else found


def sha256(record: Record) -> str:
    """The hash of the checkpoint."""
    return str(record["checkpoint"]["sha256"])


def read(path: Path) -> list[Record]:
    """The readings in a file, in the order in which they were written; none if there is no file.

    Raises:
        DataError: if it holds something else.
    """
    try:
        lines = path.read_bytes().split(b"\n") if path.exists() else []
    except OSError as cause:
        raise DataError("--history", "a file that can be read", cause, "Name another.") from cause
    found = []
    for number, line in enumerate(lines, 1):
        record = parsed(line)
        if record is not None and number < len(lines):
            found.append(record)
        elif record is None and line and not (line.startswith(BEGINS) and not is_json(line)):
            raise DataError(
                "--history",
                "a file that gnomon measure made, or none yet",
                f"{line[:40]!r} in line {number} of {path}",
                "Name another file.",
            )
    return found


def setting_in(path: Path) -> dict[str, Any]:
    """The setting in which the readings in a file were taken; empty if `gnomon measure` did not make it."""
    with contextlib.suppress(OSError), path.open("rb") as lines:
        if (record := parsed(lines.readline())) is not None:
            return dict(record["measured"]["setting"])
    return {}


def parsed(line: bytes) -> Record | None:
    """The reading in a line; None if it holds none."""
    try:
        record = json.loads(line)
        whole = type(record["step"]) is int and isinstance(record["measured"]["setting"], dict) and sha256(record)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return record if whole else None


def is_json(line: bytes) -> bool:
    """Whether a line is complete."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
