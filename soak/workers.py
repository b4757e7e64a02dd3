"""Cases in processes of their own, forked from one that has imported everything; those that hang are ended."""

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from soak.case import Case, Kind, tried
from soak.guard import guard, violations
from soak.processes import end_session, kill

FORK = get_context("fork")


class Worker:
    """Makes a unit of cases, one after another, in a process that is replaced when it hangs or dies."""

    def __init__(self, kind: Kind, seed: int, unit: int, numbers: Sequence[int], scratch: Path) -> None:
        self.kind, self.seed, self.unit, self.numbers, self.scratch = kind, seed, unit, numbers, scratch
        self.cases: list[Case] = []
        self.begun = time.monotonic()
        self._start()

    @property
    def finished(self) -> bool:
        """Whether all cases were made."""
        return len(self.cases) == len(self.numbers)

    def look(self) -> None:
        """Takes what the process said since; ends it if it has hung, and goes on behind what it died of."""
        try:
            while self.pipe.poll():
                self.cases.append(self.pipe.recv())
                self._since = time.monotonic()
        except EOFError:
            self.process.join()
            if not self.finished:
                self.cases.append(Case("see --again", "raw", f"the process ended with {self.process.exitcode}"))
                self._start()
            return
        if not self.finished and time.monotonic() - self._since > self.kind.limit:
            self.stop()
            self.cases.append(Case("see --again", "hung", f"no end after {self.kind.limit} s"))
            self._start()

    def stop(self) -> None:
        """Ends the process and all that it started, such as sweeps, which have groups of their own."""
        kill(self.process.pid)  # which may not yet have its session
        end_session(self.process.pid)
        self.process.join()

    def _start(self) -> None:
        self._since = time.monotonic()
        if self.finished:
            return
        self.pipe, end = FORK.Pipe(duplex=False)
        left = self.numbers[len(self.cases) :]
        self.process = FORK.Process(target=serve, args=(self.kind, self.seed, left, self.scratch, end))
        self.process.start()
        end.close()


def serve(kind: Kind, seed: int, numbers: Sequence[int], scratch: Path, pipe: Connection) -> None:
    """In the worker's process: makes the cases and sends them."""
    os.setsid()  # the terminal's Ctrl-C is for the soak, which ends us
    guard(scratch, scratch / f"outside-{os.getpid()}")
    log = os.open(scratch / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in numbers:
        os.dup2(log, 1)
        os.dup2(log, 2)
        pipe.send(made(kind, seed, number, scratch))


def made(kind: Kind, seed: int, number: int, scratch: Path) -> Case:
    """One case, in an empty folder that is gone afterwards."""
    folder = scratch / f"{kind.name}-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.chdir(folder)
    case = tried(kind, seed, number, folder)
    if (left := violations()) and not case.verdict:
        case = replace(case, verdict="wrong", saw=left)
    os.chdir(scratch)
    shutil.rmtree(folder, ignore_errors=True)
    return case
