"""The soak: units of cases in turn, on all cores, until the time is over; then its figures."""

import argparse
import contextlib
import faulthandler
import fcntl
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import wait
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", PYTHONHASHSEED="0")

import torch

from gnomon_lab.runs.machine import commit
from soak.case import Kind
from soak.guard import guard, violations
from soak.ledger import Ledger
from soak.workers import Worker, made

HEARTBEAT = 60.0
"""Seconds between two lines of progress."""


def kinds() -> list[Kind]:
    """All of them."""
    from soak.altered import AlteredRuns
    from soak.commands import Commands, Processes
    from soak.functions import Functions
    from soak.kills import AtOperations, AtRandom
    from soak.measured import Measured
    from soak.sweeps import Sweeps

    return [AtOperations(), AtRandom(), Sweeps(), AlteredRuns(), Measured(), Commands(), Processes(), Functions()]


def main() -> int:
    """1 if a case failed."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    of_all = "of this seed and commit, earlier calls included; where files were changed, of this call"
    parser.add_argument("--minutes", type=float, default=60.0, help=of_all)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=Path(".soak"), help="for its state and its scratch")
    parser.add_argument("--only", nargs="+", metavar="KIND", help="these kinds alone")
    parser.add_argument("--cases", type=int, help="so many of each kind, and no time")
    parser.add_argument("--again", metavar="KIND:NUMBER", help="one case, here and with its traceback")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    sys.dont_write_bytecode, os.environ["PYTHONDONTWRITEBYTECODE"] = True, "1"  # it is written outside the folder
    chosen = [kind for kind in kinds() if asked.only is None or kind.name in asked.only]
    if asked.again:
        chosen = [kind for kind in chosen if kind.name == asked.again.rpartition(":")[0]]
    if not chosen:
        parser.error(f"there are: {', '.join(kind.name for kind in kinds())}")
    folder = asked.folder.resolve()
    with scratch(folder) as place:
        guard(folder, place / "outside")
        for kind in chosen:
            kind.prepare(place / "prepared" / kind.name)
        if left_it := violations():
            raise SystemExit(f"the preparation of the cases left the folder: {left_it}")
        if asked.again:
            guard(place, place / "outside")
            faulthandler.dump_traceback_later(chosen[0].limit, exit=True)
            case = made(chosen[0], asked.seed, int(asked.again.rpartition(":")[2]), place)
            print(case)
            return int(bool(case.verdict))
        ledger = Ledger(folder, commit(), asked.seed)
        try:
            soak(chosen, ledger, place, asked)
        except KeyboardInterrupt:
            print("stopped; the same command goes on")
    print(f"\nseed {asked.seed}, commit {commit()}, {ledger.minutes:.1f} minutes, {asked.workers} workers\n")
    print(ledger.figures())
    total = ledger.total()
    failed = sum(total[fault] for fault in ("lost", "wrong", "raw", "hung"))
    if failed:
        print(f"\n{failed} failures: {ledger.failures}")
    return int(bool(failed))


def soak(chosen: Sequence[Kind], ledger: Ledger, place: Path, asked: argparse.Namespace) -> None:
    """Hands out units, the kind first that has had least of its share, until the time or the cases are over."""
    working: list[Worker] = []
    marked = said = time.monotonic()
    over = {kind.name: -(-asked.cases // kind.unit) if asked.cases else None for kind in chosen}
    try:
        while True:
            elapsed = ledger.minutes + (time.monotonic() - marked) / 60
            open_kinds = [
                kind for kind in chosen if over[kind.name] is None or left(kind, ledger, working, over[kind.name])
            ]
            go_on = bool(open_kinds) if asked.cases else elapsed < asked.minutes
            while go_on and open_kinds and len(working) < asked.workers:
                kind = min(open_kinds, key=lambda kind: spent(kind, ledger, working) / kind.share)
                unit = ledger.free_unit(kind.name, {worker.unit for worker in working if worker.kind is kind})
                size = min(kind.unit, asked.cases or kind.unit)
                numbers = range(unit * kind.unit, unit * kind.unit + size)
                working.append(Worker(kind, asked.seed, unit, numbers, place))
                break
            if not working:
                return
            wait([worker.pipe for worker in working], 0.2)
            for worker in working:
                worker.look()
            for worker in [worker for worker in working if worker.finished]:
                working.remove(worker)
                worker.stop()
                now = time.monotonic()
                first = worker.numbers[0]
                ledger.add(worker.kind.name, worker.unit, first, worker.cases, now - worker.begun, now - marked)
                marked = now
            if time.monotonic() - said > HEARTBEAT:
                said = time.monotonic()
                total = ledger.total()
                print(f"{ledger.minutes:.0f} minutes: " + ", ".join(f"{name} {total[name]:,}" for name in total))
                sys.stdout.flush()
    finally:
        for worker in working:
            worker.stop()


def left(kind: Kind, ledger: Ledger, working: Sequence[Worker], units: int) -> bool:
    """Whether units are left to begin."""
    begun = sum(worker.kind is kind for worker in working) + len(ledger.done.get(kind.name, ()))
    return begun < units


def spent(kind: Kind, ledger: Ledger, working: Sequence[Worker]) -> float:
    """The seconds that a kind has had."""
    now = time.monotonic()
    under_way = sum(now - worker.begun + 0.1 for worker in working if worker.kind is kind)
    return ledger.counts[kind.name]["seconds"] + under_way if kind.name in ledger.counts else under_way


@contextlib.contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A folder that is empty at first and gone at last, and nobody else's; home and temporary files are in it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"another soak works in {folder}: name another --folder") from None
        place = folder / "scratch"
        shutil.rmtree(place, ignore_errors=True)
        (place / "home").mkdir(parents=True)
        named = ("HOME", "TMPDIR", "MPLCONFIGDIR", "TORCHINDUCTOR_CACHE_DIR")
        os.environ.update(dict.fromkeys(named, str(place / "home")))
        tempfile.tempdir = None  # to be asked for again
        here = Path.cwd()
        try:
            yield place
        finally:
            os.chdir(here)
            shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
