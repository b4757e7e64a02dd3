"""All files of readings below a folder, or one file: new ones are found, and those that vanish are forgotten."""

import itertools
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from gnomon_lab.watching.asked import Asked, asked_at, told_apart
from gnomon_lab.watching.curves import Curves
from gnomon_lab.watching.file import Followed
from gnomon_lab.watching.looks import RUN, Looks

DEPTH = 4
"""Folders between the one that is watched and a file: `./runs/NAME/ID/records.jsonl` is found from above `runs`."""
RARELY = 20
"""How long to wait before looking for new files again, as a multiple of how long looking takes."""
EXAMPLES = 6
"""Names of quantities that are given where none is as wanted."""


@dataclass(frozen=True)
class Curve:
    """What is drawn as one line: a history, a run, or one arm of a run.

    Attributes:
        key: stays the same as long as it is watched.
        place: its own number, from 0, in the order in which curves were found.
        colour: the place of its colour on the page.
        dash: the place of its dashes there.
        label: what it is called among the others.
        setting: the options in which its run differs from others of its experiment; empty if it differs from none.
        curves: its numbers.
        changed: when its file last changed, seconds since 1970.
        finished: whether its run says that it is finished.
        broken: how many lines of its file are not readings.
        version: the version of what is watched when this last changed.
    """

    key: str
    place: int
    colour: int
    dash: int
    label: str
    setting: str
    curves: Curves
    changed: float
    finished: bool
    broken: int
    version: int


class Watched:
    """What is in a folder's files of readings, all `*.jsonl` four folders deep, or in one file.

    Args:
        path: the folder or the file.
        only: patterns for the wanted quantities, such as `test/*`; default: all.
    Attributes:
        path: the same.
        version: rises whenever something changes; later than that of any earlier watcher.
    """

    def __init__(self, path: Path, only: Sequence[str] = ()) -> None:
        self.path = path
        self.version = time.time_ns() // 1000
        self._asked_for = [*only]
        self._only = [end for pattern in only for end in (pattern, f"{pattern}.q25", f"{pattern}.q75")]
        self._files: dict[Path, Followed] = {}
        self._versions: dict[Path, int] = {}
        self._places: dict[str, int] = {}
        self._looks = Looks()
        self._asked: dict[Path, Asked | None] = {}
        self._told_apart: dict[Path, str] = {}
        self._look_again = 0.0
        self._unread: dict[Path, str] = {}
        self._closed: dict[Path, str] = {}
        self._alone = path.is_file()

    @property
    def there(self) -> bool:
        """Whether the folder or the file is still there."""
        return os.access(self.path, os.F_OK)

    def look(self, seconds: float = 1.0) -> bool:
        """Reads what was added, for about this long at most; returns whether all of it was read."""
        until = time.monotonic() + seconds
        self._find()
        for path, file in [*self._files.items()]:
            while self._read(path, file):
                if time.monotonic() > until:
                    return False
        return True

    @property
    def files(self) -> list[Path]:
        """The files that it reads, as far as they were found."""
        return [*self._files]

    def curves(self) -> list[Curve]:
        """What is drawn, in the order in which it was found; without what has no wanted quantity, if any has one."""
        found = [(f"{path}\0{arm or ''}", path, arm) for path, file in self._files.items() for arm in file.arms]
        for key, path, arm in found:
            self._places.setdefault(key, len(self._places))
            self._looks.add(path, arm)
        labels = labelled([(self._words(path), arm) for _, path, arm in found])
        settings = self._settings([path for path, file in self._files.items() if file.arms])
        drawn = [
            self._curve(key, path, arm, label, settings[path])
            for (key, path, arm), label in zip(found, labels, strict=True)
        ]
        wanted = [curve for curve in drawn if curve.curves.names]
        return sorted(wanted or drawn, key=lambda curve: curve.place)

    def left_out(self) -> list[str]:
        """Why files that look like readings, and what is in folders, are not drawn, one sentence each."""
        none = [f"{path} holds no readings" for path, file in self._files.items() if file.holds_none]
        return [*none, *self._unread.values(), *self._closed.values()]

    def unmatched(self) -> str:
        """That no quantity so far is a wanted one, and which there are; empty if one is, or there is none at all."""
        names = [*dict.fromkeys(name for file in self._files.values() for name in file.unwanted)]
        if not names or any(curves.names for file in self._files.values() for curves in file.arms.values()):
            return ""
        there = ", ".join([*names[:EXAMPLES], *(["…"] if len(names) > EXAMPLES else [])])
        return f"no quantity matches {' or '.join(self._asked_for)}; there are {there}"

    def _settings(self, paths: Sequence[Path]) -> dict[Path, str]:
        """What tells runs apart; what one was asked for stays the same, and is read once."""
        asked = {path: self._asked.get(path) or asked_at(path) for path in paths}
        if asked != self._asked:
            self._asked, self._told_apart = asked, told_apart(asked)
        return self._told_apart

    def _curve(self, key: str, path: Path, arm: str | None, label: str, setting: str) -> Curve:
        file = self._files[path]
        finished = path.name == "records.jsonl" and os.access(path.with_name("result.json"), os.F_OK)
        places, version = (self._places[key], *self._looks.of(path, arm)), self._versions[path]
        return Curve(key, *places, label, setting, file.arms[arm], file.changed, finished, file.broken, version)

    def _read(self, path: Path, file: Followed) -> bool:
        """Reads on in a file; returns whether anything was new."""
        try:
            changed = file.read()
            self._unread.pop(path, None)
        except FileNotFoundError:
            del self._files[path]
            self._unread.pop(path, None)
            self.version += 1
            return False
        except OSError as error:
            self._unread[path] = f"{path} cannot be read: {error.strerror or error}"
            return False
        if changed:
            self.version += 1
            self._versions[path] = self.version
        return changed

    def _find(self) -> None:
        start = time.monotonic()
        if start < self._look_again:
            return
        self._closed.clear()
        for path in [self.path] if self._alone else sorted(_files(self.path, DEPTH, self._closed), key=_as_counted):
            if path not in self._files:
                self._files[path] = Followed(path, self._wants)
        end = time.monotonic()
        self._look_again = end + RARELY * (end - start)

    def _wants(self, name: str) -> bool:
        """Whether a quantity is asked for, by its whole name or by that without the split."""
        named = (name, name.rpartition("/")[2])
        return not self._only or any(fnmatchcase(one, pattern) for pattern in self._only for one in named)

    def _words(self, path: Path) -> tuple[str, ...]:
        """What the file is called: its folders below the watched one, and its name unless it is a run's."""
        parts = path.relative_to(self.path).parts if path != self.path else (path.name,)
        if parts[-1] == "records.jsonl":
            return parts[:-1] or (path.absolute().parent.name,)
        return (*parts[:-1], path.stem)


def _files(folder: Path, depth: int, closed: dict[Path, str]) -> Iterator[Path]:
    """All `*.jsonl` in a folder, so many folders deep; hidden folders and links to folders are skipped.

    Why a folder cannot be read is added to `closed`; one that is gone is none.
    """
    try:
        entries = [*os.scandir(folder)]
    except FileNotFoundError:
        return
    except OSError as error:
        closed[folder] = f"{folder} cannot be read: {error.strerror}"
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if depth and not entry.name.startswith("."):
                yield from _files(Path(entry.path), depth - 1, closed)
        elif entry.name.endswith(".jsonl"):
            yield Path(entry.path)


def _as_counted(path: Path) -> list[str | int]:
    """Its words and numbers in turn, so that seed 10 comes after seed 2."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split(r"([0-9]+)", str(path)))]


def labelled(found: Sequence[tuple[tuple[str, ...], str | None]]) -> list[str]:
    """What each is called: the folders that not all have in common, of runs of one setting the seed, and its arm."""
    names = [name for name, _ in found]
    if len(set(names)) > 1:
        above = zip(*(name[:-1] for name in names), strict=False)
        common = len([*itertools.takewhile(lambda folders: len(set(folders)) == 1, above)])
        names = [name[common:] for name in names]
        runs = [RUN.fullmatch(name[-1]) for name in names]
        if len({run and run["setting"] for run in runs}) == 1:
            names = [
                (*name[:-1], f"seed {run['seed']}" if run else name[-1]) for name, run in zip(names, runs, strict=True)
            ]
    elif any(arm for _, arm in found):
        names = [()] * len(names)
    return [", ".join(filter(None, ("/".join(name), arm))) for name, (_, arm) in zip(names, found, strict=True)]
