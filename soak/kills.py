"""Runs that are killed, at every file operation in turn or at random, or lose power or room: they go on as if not."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from gnomon_lab.cli import execute
from gnomon_lab.runs import Run, load_run
from gnomon_lab.runs import find as finding
from gnomon_lab.runs import machine as machines
from soak.case import Case
from soak.faults import MODES, PASSED_ON, Faults
from soak.forked import Ended, forked
from soak.gnomon_command import called, command, unfit

SETTINGS: dict[str, list[str]] = {
    "grok-digits": ["--steps", "3", "--width", "4", "--train", "12", "--readings", "1"],
    "modular-addition": [
        "--prime",
        "5",
        "--width",
        "4",
        "--heads",
        "2",
        "--hidden",
        "4",
        "--steps",
        "1",
        "--jacobians",
        "2",
    ],
    "central-path": ["--sizes", "2", "6", "3", "--decades", "1", "--readings", "1"],
}
"""Experiments that take a tenth of a second."""
BEGUN = "begun"
"""The file, in the current folder, that gets a line for each step that begins."""
ALLOWED = {"kill": (-signal.SIGKILL,), "torn": (-signal.SIGKILL,), "power": (-signal.SIGKILL,)}
"""How a struck run ends; one that was refused something by the disk ends in a sentence."""


def arguments(name: str, seed: int = 0) -> list[str]:
    """The command line of a tiny run, in the folder `runs`."""
    return ["run", name, *SETTINGS[name], "--seeds", str(seed), "--runs", "runs"]


def run(name: str, seed: int = 0) -> None:
    """Makes it here, or goes on, with a checkpoint at each step; in a child, since it changes gnomon for good."""
    Run.__init__.__kwdefaults__["checkpoint_seconds"] = 0.0
    execute.build = lambda experiment, found: found.folder / "report.html"
    steps = Run.steps

    def noted(self: Run, arm: str, total: int, **state: Any) -> Iterator[int]:
        for step in steps(self, arm, total, **state):
            with Path(BEGUN).open("a") as file:
                file.write(f"{json.dumps([arm, step])}\n")
            yield step

    Run.steps = noted
    command(arguments(name, seed))


def fallen_back(begun: Path) -> str:
    """Which step was made again though it was not the last that had begun: a checkpoint lay between; or nothing."""
    seen, last = set[str](), ""
    for line in begun.read_text().splitlines() if begun.exists() else ():
        if line in seen and line != last:
            return f"it went back to {line} after it had begun {last}"
        seen.add(line)
        last = line
    return ""


def same_machine() -> None:
    """Has gnomon look at the machine once, not at each run: that starts git twice."""
    here = machines.machine()
    finding.machine = lambda: dict(here)


def outcome(root: Path) -> dict[str, Any]:
    """What a finished run holds, without wall times; reading it checks its seals."""
    (folder,) = [path.parent for path in root.glob("*/*/config.json")]
    found = load_run(folder)
    records = [{key: value for key, value in record.items() if key != "seconds"} for record in found.records()]
    records.sort(key=lambda record: record["arm"])  # one that was trained again stands behind the others
    return {
        "finished": found.finished,
        "records": records,
        "left": sorted(path.name for path in folder.glob(".*.part")),
    }


def compared(root: Path, whole: dict[str, Any]) -> tuple[str, str]:
    """The verdict on a run that went on after a fault."""
    try:
        got = outcome(root)
    except Exception as error:  # noqa: BLE001 - whatever it is, the run is lost
        return "lost", repr(error)
    if not got["finished"] or len(got["records"]) < len(whole["records"]):
        return "lost", f"{len(got['records'])} of {len(whole['records'])} records, finished: {got['finished']}"
    different = [key for key in whole if got[key] != whole[key]]
    return ("wrong", f"another {different[0]}: {str(got[different[0]])[:300]}") if different else ("", "")


class _Kills:
    """What both kinds hold their runs against."""

    def prepare(self, folder: Path) -> None:
        """One unbroken run of each setting, and how many file operations it makes."""
        same_machine()
        self.whole: dict[str, dict[str, Any]] = {}
        self.operations: dict[str, int] = {}
        for name in SETTINGS:
            place = folder / name
            (place / "warm").mkdir(parents=True)
            os.chdir(place / "warm")
            # Here, so that all that is imported late is there before the first child.
            called(arguments(name))
            os.chdir(place)

            def counted(name: str = name, place: Path = place) -> None:
                faults = Faults(place / "runs", "count", -1, Random(0))
                faults.install()
                try:
                    run(name)
                finally:
                    (place / "operations").write_text(str(faults.count))

            ended = forked(counted)
            if ended.code != 0:
                raise RuntimeError(f"the unbroken run of {name} ended with {ended}")
            self.operations[name] = int((place / "operations").read_text())
            self.whole[name] = outcome(place / "runs")

    def goes_on(self, name: str, folder: Path) -> tuple[str, str]:
        """Has the run go on to its end, and compares it with the unbroken one."""
        ended = forked(lambda: run(name))
        if ended.code is None:
            return "hung", "the resumed run"
        if ended.code != 0:
            return "lost", f"the resumed run ended with {ended.code}: {ended.err[-1500:]}"
        if saw := fallen_back(folder / BEGUN):
            return "lost", saw
        return compared(folder / "runs", self.whole[name])


class AtOperations(_Kills):
    """Every file operation of every setting in turn, in each mode."""

    name, share, unit, limit = "file operations", 0.25, 12, 150.0

    def case(self, chance: Random, number: int, folder: Path) -> Case:
        """Strikes one operation, and lets the run go on."""
        mode, name, at = self.place(number)
        ended = forked(lambda: struck(name, mode, at, chance, folder))
        did = f"{name}: {mode} at file operation {at} of {self.operations[name]}"
        verdict, saw = self.broken(mode, ended, folder)
        return Case(did, *((verdict, saw) if verdict else self.goes_on(name, folder)), kills=int(mode in ALLOWED))

    def place(self, number: int) -> tuple[str, str, int]:
        """The mode, the setting and the operation of a case."""
        places = [(mode, name, at) for name in SETTINGS for mode in MODES for at in range(1, self.operations[name] + 1)]
        # Stepped through by a prime, so that a short soak sees all of them alike.
        return places[number * 1009 % len(places)]

    def broken(self, mode: str, ended: Ended, folder: Path) -> tuple[str, str]:
        """The verdict on the end of the struck run itself."""
        if mode in ALLOWED:
            return ("", "") if ended.code in ALLOWED[mode] else unfit(ended, codes=())
        # A disk that fills up before the last operations, which write nothing, refuses nothing.
        refused = (folder / PASSED_ON).exists()
        if ended.code == 0 and (refused or mode == "refused"):
            return "wrong", f"exit 0 although it was refused something: {refused}"
        return unfit(ended)


class AtRandom(_Kills):
    """Once or several times, at any moment."""

    name, share, unit, limit = "random kills", 0.15, 12, 150.0

    def case(self, chance: Random, number: int, folder: Path) -> Case:
        """Kills the run up to five times, and lets it go on; a run that ends before was not killed."""
        name = chance.choice([*SETTINGS])
        moments: list[float] = []
        verdict, kills = ("", ""), 0
        while len(moments) < chance.randint(1, 5) and not verdict[0]:
            moments.append(chance.expovariate(8.0))
            ended = forked(lambda: run(name), kill_after=moments[-1])
            kills += ended.code == -signal.SIGKILL
            if ended.code is None:
                verdict = "hung", "a run"
            elif ended.code == 0:
                break
            elif ended.code != -signal.SIGKILL:
                verdict = "lost", ended.err[-1500:]
        verdict = verdict if verdict[0] else self.goes_on(name, folder)
        return Case(f"{name}: killed after {moments} s", *verdict, tries=len(moments), kills=kills)


def struck(name: str, mode: str, at: int, chance: Random, folder: Path) -> None:
    """A run with one fault."""
    Faults(folder / "runs", mode, at, chance).install()
    run(name)
