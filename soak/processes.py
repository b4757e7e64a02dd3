"""The processes of this machine, as /proc has them."""

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """One that has not ended."""

    pid: int
    parent: int
    group: int
    session: int


def processes() -> Iterator[Process]:
    """All of them."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, *numbers = status.read_text(errors="replace").rpartition(")")[2].split()[:4]
            if state != "Z":
                yield Process(int(status.parent.name), *map(int, numbers))


def grandchildren(pid: int) -> list[int]:
    """The processes that its children have started."""
    there = [*processes()]
    children = {process.pid for process in there if process.parent == pid}
    return [process.pid for process in there if process.parent in children]


def group_lives(group: int) -> bool:
    """Whether a process of the group is there."""
    return any(process.group == group for process in processes())


def end_session(session: int) -> None:
    """Kills all processes of a session, whichever groups they made and whether or not their parents live."""
    while left := [process.pid for process in processes() if process.session == session]:
        for pid in left:
            kill(pid)


def kill(pid: int) -> None:
    """It may have ended before."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def words_of(pid: int) -> str:
    """The beginning of its command line."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")[:60]
    return ""
