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
from soak.gnomon_command import command
from soak.guard import environment
from soak.kills import compared, outcome, same_machine
from soak.processes import grandchildren, group_lives, kill, processes, words_of

NAME = "grok-digits"
SEEDS = (0, 1, 2)
WORDS = ["run", NAME, "--steps", "2000", "--width", "4", "--train", "12", "--readings", "1", "--runs", "runs"]
"""Runs of four seconds, or more where others work too."""
PATIENCE = 150.0
"""Seconds that a sweep may take."""
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
            ended = forked(lambda seed=seed: command([*WORDS, "--seeds", str(seed)]), PATIENCE)
            if ended.code != 0:
                raise RuntimeError(f"the unbroken run of seed {seed} ended with {ended}")
            self.whole[seed] = outcome(folder / str(seed) / "runs")

    def case(self, chance: Random, number: int, folder: Path) -> Case:
        """Kills one to three times, then lets it end; a kill that came too late to kill anything is no try."""
        did, kills = [], 0
        for _ in range(chance.randint(1, 3)):
            whom, after = chance.choice(["sweep", "worker", "all"]), chance.uniform(0.0, 6.0)
            did.append(f"{whom} {after:.2f} s after its first worker began")
            killed, *verdict = killed_sweep(whom, after, chance)
            kills += killed
            if verdict[0]:
                break
        else:
            verdict = self.goes_on(folder)
        return Case(f"killed: {', '.join(did)}", *verdict, tries=kills, kills=kills)

    def goes_on(self, folder: Path) -> tuple[str, str]:
        """Has the sweep go on to its end, and compares its runs with the unbroken ones."""
        with sweep() as process:
            try:
                out, err = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                return "hung", "the sweep that went on"
        if process.returncode != 0 or "Traceback" in err:
            return "lost", f"the sweep that went on ended with {process.returncode}: {out[-900:]}{err[-900:]}"
        for seed in SEEDS:
            alone = folder / "alone" / str(seed) / NAME
            alone.mkdir(parents=True)
            for found in (folder / "runs" / NAME).glob(f"*-seed{seed}"):
                found.rename(alone / found.name)
            verdict, saw = compared(alone.parent, self.whole[seed])
            if verdict:
                return verdict, f"seed {seed}: {saw}"
        return "", ""


def killed_sweep(whom: str, after: float, chance: Random) -> tuple[bool, str, str]:
    """Starts the sweep, kills, and waits until nothing of it lives; whether it killed anything, and the verdict."""
    with sweep() as process:
        while not grandchildren(process.pid) and process.poll() is None:
            time.sleep(0.05)
        time.sleep(after)
        workers = grandchildren(process.pid)  # its child is the process that they are forked from
        killed = process.poll() is None
        if whom == "worker" and killed and workers:
            kill(chance.choice(workers))
            try:
                out, err = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                return True, "hung", "a sweep whose worker was killed"
            killed = process.returncode != 0  # the worker had not finished its run
            if (saw := lost_more(process.returncode, out, err))[0]:
                return killed, *saw
        elif whom == "worker":
            killed = False
        elif whom == "all":
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        else:
            kill(process.pid)
        process.wait()
        deadline = time.monotonic() + ORPHANS
        while group_lives(process.pid):
            if time.monotonic() > deadline:
                left = [words_of(each.pid) for each in processes() if each.group == process.pid]
                return killed, "hung", f"what the killed sweep left: {left}"
            time.sleep(0.1)
    return killed, "", ""


def lost_more(code: int, out: str, err: str) -> tuple[str, str]:
    """The verdict on the end of a sweep whose worker was killed: it says so, and finishes the other runs."""
    finished = len([*Path("runs", NAME).glob("*-seed[0-9]/result.json")])
    if code not in (0, 1) or "Traceback" in err:
        return "raw", f"a sweep whose worker was killed ended with {code}: {out[-900:]}{err[-900:]}"
    if finished < len(SEEDS) - code:
        return "lost", f"with one worker killed, {finished} runs were finished: {out[-900:]}"
    return ("", "") if code == 0 or "was killed" in out else ("wrong", f"it does not say what was killed: {out[-900:]}")


@contextlib.contextmanager
def sweep() -> Any:
    """The command, in a group of its own, which is ended in any case."""
    words = [*WORDS, "--seeds", "0-2", "--workers", "2"]
    process = subprocess.Popen(
        [sys.executable, "-c", "from gnomon_lab.cli import main; main()", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        process_group=0,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
