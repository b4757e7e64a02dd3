"""One file of readings that grows: only what was appended is read."""

import functools
import json
import math
import os
import stat
from collections.abc import Callable
from pathlib import Path

from gnomon._parts import is_spread
from gnomon_lab.watching.curves import UNMEASURED, Curves

CHUNK = 1 << 20
LONGEST = 100 << 20
"""The most bytes of a line; those with the values of all samples are long."""
PATIENCE = 4 << 20
"""Bytes without a reading, after which a file is left out."""
TAIL = 64
"""Bytes that must be where they were, or the file is another one."""
LAYOUTS = 100
"""Layouts of lines whose names are examined only once."""
GREATEST = 2**53
"""The greatest step that a page's numbers hold exactly."""
QUARTILES = (".q25", ".q75")
"""How the names of numbers end between which a band is drawn."""
BESIDE = frozenset({"arm", "step", "seconds", "samples"})
"""What a line holds besides numbers, as in `gnomon.History`."""


class Followed:
    """A file of readings: a run's records, or a history.

    Attributes:
        path: where it is.
        arms: the curves of each arm; those of a history under None.
        unwanted: quantities in readings that have no wanted one, in the order in which they first came.
        broken: how many complete lines are not readings.
        changed: when it last changed, seconds since 1970.
    """

    def __init__(self, path: Path, wanted: Callable[[str], bool]) -> None:
        self.path = path
        self._wanted = wanted
        self._names = functools.lru_cache(LAYOUTS)(self._named)
        self._seen: tuple[int, ...] = ()
        self._forget()
        self.changed = 0.0

    @property
    def holds_none(self) -> bool:
        """Whether there are lines, and none of them is a reading."""
        return self.broken > 0 and not self.arms

    @property
    def behind(self) -> bool:
        """Whether there is more to read."""
        return not self._given_up and self._size > self._offset

    def read(self) -> bool:
        """Reads on, at most a part of what was appended; returns whether anything is new.

        Raises:
            OSError: if the file is gone, or cannot be read.
        """
        there = self.path.stat()
        seen = (there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns)
        if seen == self._seen and not self.behind:
            return False
        if not stat.S_ISREG(there.st_mode):
            raise OSError(f"{self.path} is no regular file")
        with self.path.open("rb") as file:
            there = os.fstat(file.fileno())
            new = self._is_another(there, file.fileno())
            if new:
                self._forget()
            self._seen = (there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns)
            self._size, self.changed = there.st_size, there.st_mtime
            content = b"" if self._given_up else os.pread(file.fileno(), CHUNK, self._offset)
        self._take(content)
        return new or bool(content)

    def _is_another(self, there: os.stat_result, opened: int) -> bool:
        """Whether the file no longer begins with what was read before, as far as the end of that tells."""
        if not self._seen:
            return False
        tail = os.pread(opened, len(self._tail), self._offset - len(self._tail))
        return self._seen[:2] != (there.st_dev, there.st_ino) or tail != self._tail

    def _forget(self) -> None:
        self.arms: dict[str | None, Curves] = {}
        self.unwanted: dict[str, None] = {}
        self.broken = 0
        self._offset = self._size = 0
        self._tail = self._partial = b""
        self._given_up = False

    def _take(self, content: bytes) -> None:
        self._offset += len(content)
        self._tail = (self._tail + content)[-TAIL:]
        *lines, self._partial = (self._partial + content).split(b"\n")
        for line in filter(None, lines):  # processes that write at the same moment may leave empty ones
            self._take_line(line)
        too_long = len(self._partial) > LONGEST
        self._given_up |= too_long or (self.holds_none and self._offset >= PATIENCE)
        if self._given_up:
            self.broken += not self.broken
            self._partial = b""

    def _take_line(self, line: bytes) -> None:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        step = record.get("step") if isinstance(record, dict) else None
        if type(step) is not int or abs(step) > GREATEST:
            self.broken += 1
            return
        arm = named if isinstance(named := record.get("arm"), str) else None
        curves = self.arms.setdefault(arm, Curves())
        wanted = (name for name in self._names(tuple(record)) if not _of_shares(record, name))
        numbers = {name: number for name in wanted if (number := _number(record[name])) is not None}
        if not numbers:
            self.unwanted |= dict.fromkeys(_quantities(record))
        curves.add(step, numbers, _numbered(record))

    def _named(self, keys: tuple[str, ...]) -> list[str]:
        """What is wanted from a line with these keys; extremes and errors of what is there itself are not drawn."""
        drawn = [name for name in keys if name not in BESIDE and self._wanted(name)]
        return [name for name in drawn if name.endswith(QUARTILES) or not is_spread(name, keys)]


def _of_shares(record: dict[str, object], name: str) -> bool:
    """Whether this is a quartile of samples that are each right or wrong, 1 or 0: interpolated, it may lie between."""
    if not name.endswith(QUARTILES):
        return False
    extremes = [record.get(f"{name[:-4]}{end}") for end in (".min", ".max")]
    return all(extreme == 0 or extreme == 1 for extreme in extremes)


def _numbered(record: dict[str, object]) -> frozenset[str]:
    """The names of a line's numbers."""
    return frozenset(name for name, value in record.items() if name not in BESIDE and _number(value) is not None)


def _quantities(record: dict[str, object]) -> list[str]:
    """The names of a line's numbers in its order, without quartiles and extremes of those that are there themselves."""
    there = _numbered(record)
    return [name for name in record if name in there and not is_spread(name, there)]


def _number(value: object) -> float | None:
    """The number; None for what is not one. null stands for NaN and infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else UNMEASURED
    if value is None:
        return UNMEASURED
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    try:
        return float(value)
    except OverflowError:  # hundreds of digits
        return UNMEASURED
