"""Sweeps in real processes, killed with or without their workers: nothing lives on, and the same command goes on."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

from soak.case import Case
from soak.forked import forked
from soak.kills import SETTINGS, compared, outcome, run, same_machine

NAME = "grok-digits"
SEEDS = (0, 1, 2)
ORPHANS = 30.0
"""Seconds that workers have to notice that their sweep is gone."""


class Sweeps:
    """A sweep of three seeds in two workers; the sweep, a worker, or all of them are killed at any moment."""

    name, share, unit, limit = "killed sweeps", 0.1, 1, 400.0

    def prepare(self, folder: Path) -> None:
        """One unbroken run of each seed."""
        same_machine()
        self.whole: dict[int, dict[str, Any]] = {}
        for seed in SEEDS:
            (folder / str(seed)).mkdir(parents=True)
            os.chdir(folder / str(seed))
            ended = forked(lambda seed=seed: run(NAME, seed))
            if ended.code != 0:
                raise RuntimeError(f"the unbroken run of seed {seed} ended with {ended}")
            self.whole[seed] = outcome(folder / str(seed) / "runs")

    def case(self, chance: Random, number: int, folder: Path) -> Case:
        """Kills one to three times, then lets it end."""
        did = []
        for _ in range(chance.randint(1, 3)):
            whom, after = chance.choice(["sweep", "worker", "all"]), chance.uniform(1.0, 12.0)
            did.append(f"{whom} after {after:.2f} s")
            verdict = self.killed(whom, after, chance)
            if verdict:
                return Case(f"killed: {', '.join(did)}", *verdict, len(did))
        words = f"killed: {', '.join(did)}"
        with sweep() as process:
            try:
                out, err = process.communicate(timeout=150)
            except subprocess.TimeoutExpired:
                return Case(words, "hung", "the sweep that went on", len(did))
        if process.returncode != 0 or "Traceback" in err:
            return Case(
                words,
                "lost",
                f"the sweep that went on ended with {process.returncode}: {out[-900:]}{err[-900:]}",
                len(did),
            )
        for seed in SEEDS:
            alone = folder / "alone" / str(seed) / NAME
            alone.mkdir(parents=True)
            for found in (folder / "runs" / NAME).glob(f"*-seed{seed}"):
                found.rename(alone / found.name)
            verdict, saw = compared(alone.parent, self.whole[seed])
            if verdict:
                return Case(words, verdict, f"seed {seed}: {saw}", len(did))
        return Case(words, tries=len(did))

    def killed(self, whom: str, after: float, chance: Random) -> tuple[str, str] | None:
        """Starts the sweep, kills, and waits until nothing of it lives."""
        with sweep() as process:
            time.sleep(after)
            workers = children(process.pid)
            if whom == "worker" and workers:
                kill(chance.choice(workers))
                try:
                    process.communicate(timeout=150)
                except subprocess.TimeoutExpired:
                    return "hung", "a sweep whose worker was killed"
            elif whom == "all":
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            else:
                kill(process.pid)
            process.wait()
            deadline = time.monotonic() + ORPHANS
            while group_lives(process.pid):
                if time.monotonic() > deadline:
                    return "hung", f"what the killed sweep left: {[*map(words_of, children(1))]}"
                time.sleep(0.1)
        return None


@contextlib.contextmanager
def sweep() -> Any:
    """The command, in a group of its own, which is ended in any case."""
    words = ["run", NAME, *SETTINGS[NAME], "--seeds", "0-2", "--workers", "2", "--runs", "runs"]
    process = subprocess.Popen(
        [sys.executable, "-c", "from gnomon_lab.cli import main; main()", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        process_group=0,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def kill(pid: int) -> None:
    """It may have ended before."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def children(pid: int) -> list[int]:
    """The processes that one has started and that are there."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            rest = status.read_text(errors="replace").rpartition(")")[2].split()
            if int(rest[1]) == pid and rest[0] != "Z":
                found.append(int(status.parent.name))
    return found


def group_lives(group: int) -> bool:
    """Whether a process of the group is there that has not ended."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            rest = status.read_text(errors="replace").rpartition(")")[2].split()
            if int(rest[2]) == group and rest[0] != "Z":
                return True
    return False


def words_of(pid: int) -> str:
    """The beginning of its command line."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")[:60]
    return ""
