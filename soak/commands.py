"""The command line, given what nobody types on purpose: each ends with a result or with one sentence."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random
from unittest import mock

from gnomon_lab.cli import execute
from gnomon_lab.experiment import Experiment
from soak.case import Case
from soak.gnomon_command import called, unfit
from soak.guard import environment, violations
from soak.hostile import arguments, furnish, outward, shown
from soak.kills import same_machine

CODES = dict.fromkeys(("list", "report", "verify", "verdict"), (0, 1, 2))
ENVIRONMENTS: tuple[dict[str, str], ...] = (
    {}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "latin-1"},
    {"TERM": "dumb"}, {"COLUMNS": "1"}, {"COLUMNS": "20", "FORCE_COLOR": "1"}, {"COLUMNS": "-5"},
    {"PYTHONWARNINGS": "error"},
)  # fmt: skip
WAYS = ("whole", "whole", "head", "closed", "no room", "little memory")
"""How a real process's output is read: all of it, the first line, by nobody, onto a full disk; or in 4 GB."""


class Began(Exception):  # noqa: N818 - no error
    """Training would begin: the command line was taken."""


class Commands:
    """In one process, which takes milliseconds."""

    name, share, unit, limit = "command lines", 0.2, 150, 30.0

    def prepare(self, folder: Path) -> None:
        """A folder with things to name."""
        same_machine()
        folder.mkdir(parents=True)
        furnish(folder)
        self.home = folder
        os.chdir(folder)
        for words in (
            ["list"],
            ["run", "--help"],
            ["run", "grok-digits", "--steps", "0"],
            ["verify", "xor"],
            MEASURE,
            WATCH,
            VERDICT,
        ):
            called(words)  # here, so that all that is imported late is there before the first worker

    def case(self, chance: Random, number: int, folder: Path) -> Case:
        """One command line; the training itself is left out."""
        for entry in self.home.iterdir():
            copy(entry, folder)
        words, encoding = arguments(chance), chance.choice(["utf-8", "utf-8", "ascii"])
        path = [*sys.path]
        with mock.patch.object(Experiment, "finish", began), mock.patch.object(execute, "open_executor", began):
            ended = called(words, encoding)
        if outward(words):
            violations()
        sys.path[:] = path
        sys.modules.pop("nets", None)
        if "soak.commands.Began" in ended.err:
            return Case(shown(words))
        verdict, saw = unfit(ended, CODES.get(words[0], (0, 2)))
        runs = words[words.index("--runs", 0, -1) + 1] if "--runs" in words[:-1] else "runs"
        helped = {"-h", "--help"} & {*words}
        if not verdict and words[0] == "verify" and ended.code == 0 and not helped and not Path(runs).is_dir():
            verdict, saw = "wrong", f"verified a folder that is not there: {ended.out[-300:]}"
        return Case(f"{shown(words)} ({encoding})", verdict, saw)


class Processes(Commands):
    """As processes of their own, whose output goes different ways."""

    name, share, unit, limit = "processes", 0.08, 4, 200.0

    def case(self, chance: Random, number: int, folder: Path) -> Case:
        """One command line in a shell."""
        for entry in self.home.iterdir():
            copy(entry, folder)
        words = arguments(chance)
        if words[:1] == ["run"]:
            words += ["--steps", "1", "--width", "2", "--train", "12"][: 6 if words[1:2] == ["grok-digits"] else 0]
            if words[1:2] != ["grok-digits"]:
                words = ["list", "--runs", *words[1:2]]
        more, way = chance.choice(ENVIRONMENTS), chance.choice(WAYS)
        limits = {"little memory": "ulimit -v 4000000; ", "no room": "exec > /dev/full; ", "closed": "exec >&-; "}
        script = f'{limits.get(way, "")}exec "$@"'
        command = [
            "bash",
            "-c",
            script,
            "bash",
            sys.executable,
            "-c",
            "from gnomon_lab.cli import main; main()",
            *words,
        ]
        process = subprocess.Popen(
            [word.encode(errors="surrogateescape") for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environment(), **more},
        )
        did = f"{shown(words)} ({way}, {more})"
        try:
            if way == "head" and process.stdout is not None:
                process.stdout.readline()
                process.stdout.close()
                process.stdout = None
            _, err = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return Case(did, "hung", "no end after 120 s")
        if outward(words):
            violations()
        said = err.decode("utf-8", "replace")
        if (
            "Traceback" in said
            or "Exception ignored" in said
            or process.returncode not in (0, 1, 2, 120 * (way == "no room"))
        ):
            return Case(did, "raw", f"exit {process.returncode}: {said[-3000:]}")
        return Case(did)


MEASURE = ["measure", "small.pt", "--model", "nets:small", "--data", "some.npz"]

VERDICT = ["verdict", "readings.jsonl", "--picture", "similar.png"]
WATCH = ["watch", "--once", "readings.jsonl"]


def began(*arguments: object, **named: object) -> None:
    """In the place of training."""
    raise Began


def copy(entry: Path, folder: Path) -> None:
    """A thing, whatever it is, into another folder."""
    target = folder / entry.name
    if entry.is_symlink():
        target.symlink_to(entry.readlink())
    elif entry.is_fifo():
        os.mkfifo(target)
    elif entry.is_dir():
        shutil.copytree(entry, target)
    else:
        shutil.copy(entry, target)
