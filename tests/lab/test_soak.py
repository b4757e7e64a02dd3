"""`make soak` has no end of its own; here each of its kinds makes a few cases, and its checks find what is planted."""

import dataclasses
import importlib
import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import pytest
from soak import kills
from soak.case import STRIDE, Case
from soak.guard import environment, guard, violations
from soak.hostile import OPTIONS
from soak.ledger import Ledger
from soak.measured import words_for
from soak.mutations import names_in
from soak.processes import processes
from soak.sweeps import Sweeps, sweep
from soak.workers import Worker

from gnomon_lab.cli import COMMANDS, measure_options
from gnomon_lab.runs import files
from gnomon_lab.runs.run import Run
from tests.children import child

ROOT = Path(__file__).parents[2]
# "random kills" are those of test_runs.py, and two kinds start sweeps.
QUICK = ("file operations", "altered runs", "measured files", "functions", "command lines")


def soak(folder, *arguments):
    """Its exit code, and what it printed."""
    done = child(_soak, ["soak", "--folder", str(folder), "--workers", "1", *arguments], seconds=250)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout


def _soak(words):
    from soak.__main__ import main  # which sets the environment

    os.chdir(ROOT)
    sys.argv = words
    sys.exit(main())


def test_every_kind_makes_its_cases(tmp_path):
    code, said = soak(tmp_path, "--cases", "1", "--only", *QUICK)
    assert code in (0, 1), said
    failures = [path.read_text() for path in tmp_path.glob("*/failures.jsonl")]
    for kind in QUICK:
        # Of functions three are too few to say anything: tests/unit/test_fuzz.py goes through them all.
        faults = r"\d \| \d \| \d" if kind == "functions" else r"0 \| 0 \| 0"
        assert re.search(rf"^\| {kind} \| \d+ \| \d+ \| {faults} \| 0 \|$", said, re.MULTILINE), (said, failures)
    assert not (tmp_path / "scratch").exists(), "its scratch is left"
    assert len(next(tmp_path.glob("*/units.jsonl")).read_text().splitlines()) == len(QUICK)


# Faults that are planted.


def _struck(folder, mode, plant, awaited):
    """In a child: what comes of a fault at one file operation of a run after the other, once something is wrong with
    gnomon, up to the first verdict that is awaited."""
    kills.SETTINGS = {"central-path": kills.SETTINGS["central-path"]}
    kills.MODES = (mode,)
    kind = kills.AtOperations()
    kind.prepare(folder / "prepared")
    plant()
    verdicts = []
    for number in range(0, kind.operations["central-path"], 4):
        place = folder / str(number)
        place.mkdir()
        os.chdir(place)
        case = kind.case(Random(number), number, place)
        verdicts.append([case.did, case.verdict, case.saw, case.kills])
        if case.verdict == awaited:
            break
    (folder / "verdicts.json").write_text(json.dumps(verdicts))


def struck(folder, mode, plant, awaited):
    done = child(_struck, folder, mode, plant, awaited, seconds=250)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "verdicts.json").read_text())


def forgets_checkpoints():
    """What ends with the same records, but starts again without it."""
    locked = Run.locked

    @contextmanager
    def without(run):
        with locked(run):
            for path in [*run.folder.glob("checkpoint-*.safetensors"), run.records_path]:
                path.unlink(missing_ok=True)
            yield

    Run.locked = without


def syncs_no_folder():
    import gnomon_lab.runs.find
    import gnomon_lab.runs.run

    sync = files.sync
    for module in (files, gnomon_lab.runs.find, gnomon_lab.runs.run):
        module.sync = lambda path: None if path.is_dir() else sync(path)


def passes_no_error_on():
    import gnomon_lab.runs.run

    sync = files.sync

    def swallowing(path):
        with suppress(OSError):
            sync(path)

    files.sync = gnomon_lab.runs.run.sync = swallowing


@pytest.mark.parametrize(
    ("mode", "plant", "verdict", "saw"),
    [
        ("kill", forgets_checkpoints, "lost", "it went back to"),
        ("power", syncs_no_folder, "lost", "it went back to"),
        ("refused", passes_no_error_on, "wrong", "exit 0 although"),
    ],
)
def test_what_breaks_a_promise_is_found(tmp_path, mode, plant, verdict, saw):
    cases = struck(tmp_path, mode, plant, verdict)
    assert cases[-1][1] == verdict, cases
    assert saw in cases[-1][2], cases
    assert all(case[3] == (mode != "refused") for case in cases)


def _hears_of_violations(folder):
    guard(folder, folder / "outside")
    (folder / "inside").write_text("")
    assert violations() == ""
    for what in (
        lambda: Path("/nowhere").mkdir(),
        lambda: __import__("socket").create_connection(("127.0.0.1", 9)),
    ):
        with suppress(OSError):  # as what is tried might do
            what()
        assert "the soak" in violations()
    code = f"try: open({str(folder.parent / 'elsewhere')!r}, 'w')\nexcept OSError: pass"
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True)
    assert "elsewhere" in violations()
    assert not (folder.parent / "elsewhere").exists()


def test_what_leaves_the_folder_is_found_though_its_error_is_caught(tmp_path):
    (tmp_path / "folder").mkdir()
    done = child(_hears_of_violations, tmp_path / "folder")
    assert done.returncode == 0, done.stderr


# Its own parts.


def test_every_command_is_given_nonsense_in_every_option():
    assert OPTIONS.keys() == COMMANDS.keys()
    positional = {"--checkpoint", "--path", "--run", "--name"}
    of_experiments = {f"--{name}" for name in ("steps", "width", "loss", "coefficient", "init-scale")}
    of_experiments |= {"--learning-rate", "--threads"}
    for command, options in OPTIONS.items():
        module = importlib.import_module(f"gnomon_lab.cli.{command}_command")
        fields = dataclasses.fields(measure_options.Options if command == "measure" else module.Options)
        there = {f"--{field.name.replace('_', '-')}" for field in fields} - positional
        # A browser is not opened, and without --once `watch` has no end.
        there = there - {"--open", "--once"} if command == "watch" else there
        assert {*options} - (of_experiments if command == "run" else set()) == there, command


@pytest.mark.parametrize(
    ("done", "words"),
    [
        ("some.npz: flip bits [3]", ["some.npz"]),
        ("a b.npz: swapped with nets.py, then cut to 3 bytes", ["a b.npz", "nets.py", "'nets'"]),
        ("table.parquet: deleted", ["table.parquet", "(table)"]),
    ],
)
def test_a_sentence_has_to_name_the_altered_file_in_full(done, words):
    assert words_for(names_in(done)) == words


def test_a_ledger_counts_kills_and_names_the_seed_and_is_kept_for_a_commit_alone(tmp_path):
    for commit, kept in (("abc", True), ("abc-dirty", False), (None, False)):
        ledger = Ledger(tmp_path, commit, 3)
        ledger.add("random kills", 0, 12, [Case("x", "lost", "y", tries=3, kills=2), Case("x")], 1.0, 60.0)
        assert "| random kills | 4 | 2 | 1 | 0 | 0 | 0 |" in ledger.figures()
        (failure,) = map(json.loads, ledger.failures.read_text().splitlines())
        assert failure["again"] == '--seed 3 --again "random kills:12"'
        assert (Ledger(tmp_path, commit, 3).minutes == 1.0) == kept


def test_another_seed_strikes_other_operations():
    kind = kills.AtOperations()
    kind.operations = dict.fromkeys(kills.SETTINGS, 100)
    assert kind.place(0) == kind.place(1500)
    assert not {kind.place(number) for number in range(100)} & {kind.place(STRIDE + number) for number in range(100)}


class _Sweeping(Sweeps):
    """Starts a sweep and waits."""

    def case(self, chance, number, folder):
        with sweep() as process:
            (folder.parent / "started").write_text(str(process.pid))
            process.wait()
        return Case("")


def _stopped(folder):
    worker = Worker(_Sweeping(), 0, 0, range(1), folder)
    started = folder / "started"
    while not (started.exists() and started.read_text()):
        worker.look()
    group = int(started.read_text())
    worker.stop()
    assert not [process for process in processes() if process.group == group]


def test_a_stopped_soak_leaves_no_sweep_behind(tmp_path):
    done = child(_stopped, tmp_path)
    assert done.returncode == 0, done.stderr
