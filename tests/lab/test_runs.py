"""Runs: what is written stays, what is broken is said, and a killed run ends as an unbroken one."""

import fcntl
import io
import json
import math
import os
import re
import shutil
import subprocess

import pytest
import torch
from rich.cells import cell_len
from rich.console import Console

from gnomon import Reading
from gnomon.errors import CheckpointError, ConvergenceError, DataError, EmptyError, RangeError
from gnomon_lab.cli.progress import Progress
from gnomon_lab.papers.own.grok_digits import Config
from gnomon_lab.runs import (
    Run,
    at_most,
    last,
    load_run,
    machine,
    open_run,
    over_seeds,
    read_records,
    series,
    settled_at,
)
from gnomon_lab.runs.checkpoint import load_checkpoint, save_checkpoint
from gnomon_lab.runs.files import replace_file, write_json
from gnomon_lab.runs.series import seconds_of
from tests.children import child
from tests.lab import killer


def test_a_dozen_kills_change_nothing(tmp_path):
    done = child(killer.main, tmp_path, seconds=300)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["kills"] >= 12
    assert len(said["moments"]) >= 5, "the kills all fell on the same moment"


@pytest.mark.parametrize(
    ("values", "measured", "holds"),
    [
        ([0.05], "0.05", True),
        ([0.1], "0.1", True),
        ([0.10004], "0.10004", False),
        ([0.09, 0.1004], "0.09 to 0.1004 over 2 seeds", False),
        ([0.3], "0.3", False),
        ([math.inf], "inf", False),
        ([-0.0], "0", True),
    ],
)
def test_a_measured_value_shows_whether_it_is_at_most_the_limit(values, measured, holds):
    claim = at_most("small", "here", 0.1, values)
    assert (claim.expected, claim.measured, claim.holds) == ("at most 0.1", measured, holds)


def test_zero_is_said_without_a_sign():
    assert over_seeds([-0.001, 0.0], ".1%") == "-0.1% to 0.0% over 2 seeds"
    assert over_seeds([-0.0001, 0.0], ".2f") == "0.00 in each of 2 seeds"
    assert over_seeds([-0.5], "+.2f") == "-0.50"


class Counter:
    """A thing with a state: a number."""

    def __init__(self):
        self.value = torch.zeros(())

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


class StoppedError(Exception):
    pass


def count(folder, steps=10, stop_at=None, arms=("a", "b"), checkpoint_seconds=0.0, ends_at=None):
    """Counts and draws: each record holds the count and a random number."""
    run = Run(folder, 0, checkpoint_seconds=checkpoint_seconds)
    for arm in arms:
        counter, generator = Counter(), torch.Generator().manual_seed(1)
        for step in run.steps(arm, steps, counter=counter, generator=generator):
            if step > 0:
                counter.value = counter.value + 1
            run.record(step, value=counter.value.item(), draw=torch.rand((), generator=generator).item())
            if step == ends_at:
                run.stop()
            if (arm, step) == stop_at:
                raise StoppedError
    return [{k: v for k, v in record.items() if k != "seconds"} for record in run.records()]


def test_a_record_holds_the_seconds_up_to_it(tmp_path, monkeypatch):
    """Ten seconds in a step of one arm, of which a reading takes four, then one more: a flow is one step."""
    run = Run(tmp_path, 0)
    monkeypatch.setattr("gnomon_lab.runs.run.time.monotonic", iter([0.0, 10.0, 11.0, 12.0, 13.0]).__next__)
    for step in run.steps("flow", 0):
        run.record(step, Reading(0, {"one": torch.ones(())}, {"one": 4.0}))
        run.record(step)
    found = [(seconds["trained"], seconds["read"]) for seconds in (record["seconds"] for record in run.records())]
    assert found == [(6.0, 4.0), (7.0, 4.0)]
    assert seconds_of(run.records()) == 11.0


@pytest.mark.parametrize("stop_at", [("a", 0), ("a", 4), ("a", 10), ("b", 0), ("b", 10)])
@pytest.mark.parametrize("checkpoint_seconds", [0.0, 60.0])
def test_resuming_ends_with_the_same_records(tmp_path, stop_at, checkpoint_seconds):
    (tmp_path / "whole").mkdir()
    (tmp_path / "broken").mkdir()
    whole = count(tmp_path / "whole")
    assert [(record["arm"], record["step"], record["value"]) for record in whole] == [
        (arm, step, step) for arm in "ab" for step in range(11)
    ]
    with pytest.raises(StoppedError):
        count(tmp_path / "broken", stop_at=stop_at, checkpoint_seconds=checkpoint_seconds)
    assert count(tmp_path / "broken", checkpoint_seconds=checkpoint_seconds) == whole
    assert count(tmp_path / "broken") == whole, "a finished run runs again"


def test_an_arm_that_stops_early_is_finished(tmp_path):
    (tmp_path / "broken").mkdir()
    whole = count(tmp_path, ends_at=4)
    assert [(record["arm"], record["step"]) for record in whole] == [(arm, step) for arm in "ab" for step in range(5)]
    assert count(tmp_path, ends_at=4) == whole
    with pytest.raises(StoppedError):
        count(tmp_path / "broken", stop_at=("b", 2), checkpoint_seconds=60.0, ends_at=4)
    assert count(tmp_path / "broken", ends_at=4) == whole


def test_a_finished_arm_whose_state_was_dropped_stays_finished(tmp_path):
    def train(state, stop_at=None):
        run, made = Run(tmp_path, 0), []
        for arm in "ab":
            for step in run.steps(arm, 3, state=state):
                run.record(step)
                made.append((arm, step))
                if (arm, step) == stop_at:
                    raise StoppedError
            if arm == "a":
                run.drop_state()
        return made

    large = Counter()
    large.value = torch.zeros(1000)
    with pytest.raises(StoppedError):
        train(large, stop_at=("b", 1))
    before = Run(tmp_path, 0).checkpoint_path("a").stat()
    assert before.st_size < 1000
    assert train(large) == [("b", step) for step in range(4)]
    assert Run(tmp_path, 0).checkpoint_path("a").stat().st_mtime_ns == before.st_mtime_ns
    assert Run(tmp_path, 0).checkpoint_path("b").stat().st_size > 4000
    assert [record["arm"] for record in Run(tmp_path, 0).records()] == [*"aaaabbbb"]
    Run(tmp_path, 0).records_path.write_text('{"arm":"a","step":0}\n')
    with pytest.raises(DataError, match="expected the 4 records of a that its checkpoint stands on, got 1"):
        train(large)


def diverge(folder, at=6, watched=True):
    """Doubles a parameter, then makes it NaN."""
    run, counter = Run(folder, 0, checkpoint_seconds=0.0), Counter()
    for step in run.steps("a", 10, counter=counter):
        counter.value = counter.value + (float("nan") if step == at else 1)
        if watched:
            run.require_finite(penalty=torch.ones(()), loss=counter.value)
        run.record(step)


def test_a_loss_that_becomes_nan_ends_the_run_and_spares_the_checkpoint(tmp_path):
    good = re.escape(f"Last good checkpoint: step 5, {tmp_path / 'checkpoint-a.safetensors'}.")
    with pytest.raises(ConvergenceError, match=r"run\(a\): expected a finite loss at step 6, got nan\. .*" + good):
        diverge(tmp_path)
    assert load_checkpoint(tmp_path / "checkpoint-a.safetensors")["step"] == 5
    with pytest.raises(ConvergenceError, match=r"at step 6, got nan\. .*" + good):
        diverge(tmp_path)
    assert [record["step"] for record in read_records(tmp_path / "records.jsonl")] == list(range(6))


def test_a_state_that_became_nan_never_replaces_a_checkpoint(tmp_path):
    with pytest.raises(ConvergenceError, match=r"expected numbers in counter\.value at step 6, got nan\..*step 5, "):
        diverge(tmp_path, watched=False)
    assert load_checkpoint(tmp_path / "checkpoint-a.safetensors")["step"] == 5


def test_a_run_that_diverges_at_once_says_that_there_is_no_checkpoint(tmp_path):
    with pytest.raises(ConvergenceError, match=r"at step 0, got nan\. Nothing has been trained .* checkpoint: none"):
        diverge(tmp_path, at=0)


def located(run, **quantities):
    """Two steps in which all is well, and one that ends with an error: the run's own of a quantity, or a reading's."""
    with run.locating():
        for step in run.steps("a", 10, counter=Counter()):
            if step == 2:
                run.require_finite(**quantities)
                raise RangeError("x", "numbers", "nan", "Look at x.", where="read")


def test_an_error_of_a_reading_says_where_the_run_was(tmp_path):
    good = re.escape(f"Last good checkpoint: step 1, {tmp_path / 'checkpoint-a.safetensors'}.")
    where = rf"^read\(x\): expected numbers, got nan\. Look at x\. The run was in 'a', at step 2\. {good}$"
    with pytest.raises(RangeError, match=where):
        located(Run(tmp_path, 0, checkpoint_seconds=0.0))
    said = r"^run\(a\): expected a finite loss at step 2, got nan\. [^.]*\. " + good + "$"
    with pytest.raises(ConvergenceError, match=said):  # the run's own says it, once
        located(Run(tmp_path, 0, checkpoint_seconds=0.0), loss=torch.tensor(float("nan")))


def test_an_error_before_any_step_is_left_as_it_is(tmp_path):
    with pytest.raises(RangeError, match=r"Look at x\.$"), Run(tmp_path, 0).locating():
        raise RangeError("x", "numbers", "nan", "Look at x.", where="read")


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"loss": math.inf}, "loss"),
        ({"rows": [[1.0], [0.0, math.nan]]}, "rows.1.1"),
        ({"s": {"t": (math.nan,)}}, "s.t.0"),
    ],
)
def test_a_number_that_is_not_finite_ends_the_run_wherever_it_is_in_a_record(tmp_path, values, name):
    run = Run(tmp_path, 0)
    next(run.steps("a", 1))
    named = rf"run\(a\): expected a finite {re.escape(name)} at step 0, got (nan|inf)\."
    with pytest.raises(ConvergenceError, match=named):
        run.record(0, **values)
    assert not run.records()


def test_torn_last_line_is_dropped(tmp_path):
    whole = count(tmp_path)
    path = tmp_path / "records.jsonl"
    with path.open("ab") as file:
        file.write(b'{"arm":"b","st')
    assert len(read_records(path)) == len(whole)
    (tmp_path / "checkpoint-b.safetensors").unlink()
    assert count(tmp_path) == whole


def test_damaged_records_are_named(tmp_path):
    count(tmp_path)
    path = tmp_path / "records.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], b"{broken\n", *lines[4:]]))
    with pytest.raises(DataError, match=r"expected a record with arm and step in line 4, got b'\{broken'"):
        read_records(path)
    path.write_bytes(b"".join(lines[:5]))
    with pytest.raises(DataError, match=r"expected the 11 records of a that its checkpoint stands on, got 5"):
        count(tmp_path)
    assert path.read_bytes() == b"".join(lines[:5]), "what was left is lost"


def test_records_of_a_finished_run_that_were_cut_are_named(tmp_path):
    count(tmp_path)
    path = tmp_path / "records.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:15]))
    with pytest.raises(DataError, match=r"expected the 11 records of b that its checkpoint stands on, got 4"):
        count(tmp_path)


def test_records_that_another_version_made_are_named_with_what_they_lack(tmp_path):
    found = open_run(tmp_path, "grok-digits", Config(), 0)
    found.begin()
    (found.folder / "records.jsonl").write_text('{"arm": "GrokAlign", "step": 3, "train.accuracy": 1.0}\n')
    found.finish(columns=[], rows=[], summary="", seconds=0.0)
    (record,) = found.records()
    assert record == {"arm": "GrokAlign", "step": 3, "train.accuracy": 1.0}
    assert record.get("train/accuracy") is None
    named = r"records with train/accuracy, as this version .* none in GrokAlign at step 3 .*delete its folder"
    with pytest.raises(DataError, match=named):
        last(found.records(), "GrokAlign")["train/accuracy"]


@pytest.mark.parametrize("arm", ["a", "b"])
def test_an_arm_without_checkpoint_runs_again_and_spares_the_other(tmp_path, arm):
    whole = count(tmp_path)
    (tmp_path / f"checkpoint-{arm}.safetensors").unlink()
    assert sorted(count(tmp_path), key=lambda record: record["arm"]) == whole


def test_a_checkpoint_of_another_arm_or_run_is_named(tmp_path):
    count(tmp_path)
    first, second = (tmp_path / f"checkpoint-{arm}.safetensors" for arm in "ab")
    second.write_bytes(first.read_bytes())
    with pytest.raises(CheckpointError, match=r"expected run and arm \('.*', 'b'\) .*got \('.*', 'a'\)"):
        count(tmp_path)


def test_what_cannot_come_back_is_not_saved(tmp_path):
    for state in ({"a": {1, 2}}, {("a", 1): 2}, {"a": object()}):
        with pytest.raises(CheckpointError, match=r"\(state\): expected tensors, .* got (set|dict|object)"):
            save_checkpoint(tmp_path / "c", state)
    assert not list(tmp_path.iterdir())


def test_files_have_the_modes_of_others(tmp_path):
    write_json(tmp_path / "ours", 1)
    (tmp_path / "theirs").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "theirs").stat().st_mode


def test_checkpoint_keeps_every_kind(tmp_path):
    shared = torch.randn(3, 4)
    state = {
        "model": {"weight": shared.T, "again": shared, "half": torch.randn(2).bfloat16()},
        "optimizer": {"state": {0: {"step": torch.tensor(3.0)}, 1: {}}, "param_groups": [{"lr": 1e-3, "betas": [0.9]}]},
        "generator": torch.Generator().manual_seed(5).get_state(),
        "numbers": [1, 0.1, None, True, "text"],
        "empty": torch.zeros(0, 3),
        "expanded": torch.ones(()).expand(1),
    }
    save_checkpoint(tmp_path / "c", state)
    loaded = load_checkpoint(tmp_path / "c")
    assert loaded["numbers"] == state["numbers"]
    assert loaded["optimizer"]["param_groups"] == state["optimizer"]["param_groups"]
    del loaded["numbers"], state["numbers"]
    torch.testing.assert_close(loaded, state, rtol=0, atol=0)


def test_every_flipped_byte_is_found(tmp_path):
    path = tmp_path / "checkpoint-a.safetensors"
    save_checkpoint(path, {"weight": torch.randn(20), "step": 7})
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(CheckpointError, match="expected a whole checkpoint, got"):
            load_checkpoint(path)
    path.write_bytes(whole[:-5])
    with pytest.raises(CheckpointError, match=r"expected a whole checkpoint, got SafetensorError"):
        load_checkpoint(path)
    with pytest.raises(CheckpointError, match=r"expected a whole checkpoint, got FileNotFoundError"):
        load_checkpoint(tmp_path / "none")


def test_files_are_whole_or_as_before(tmp_path):
    path = tmp_path / "file"
    write_json(path, {"a": 1})

    def fail(beside):
        beside.write_text("half")
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        replace_file(path, fail)
    assert json.loads(path.read_text()) == {"a": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.timeout(20)
def test_what_lies_in_the_place_of_a_part_is_neither_waited_at_nor_written_through(tmp_path):
    path, beside, other = tmp_path / "file", tmp_path / ".file.part", tmp_path / "other"
    other.write_text("kept")
    os.mkfifo(beside)
    write_json(path, 1)
    beside.symlink_to(other)
    write_json(path, 2)
    assert (path.read_text(), path.is_symlink(), other.read_text()) == ("2\n", False, "kept")


@pytest.mark.timeout(20)
def test_what_lies_in_the_place_of_the_lock_is_neither_waited_at_nor_written_through(tmp_path):
    lock, other = tmp_path / ".lock", tmp_path / "other"
    os.mkfifo(lock)
    with Run(tmp_path, 0).locked():
        pass
    lock.unlink()
    other.write_text("kept")
    lock.symlink_to(other)
    with pytest.raises(OSError, match=r"\.lock"), Run(tmp_path, 0).locked():
        pass
    assert other.read_text() == "kept"


def test_two_processes_cannot_share_a_run(tmp_path):
    first, second = Run(tmp_path, 0), Run(tmp_path, 0)
    with (
        first.locked(),
        pytest.raises(CheckpointError, match="expected a folder that nobody works in"),
        second.locked(),
    ):
        pass


def test_a_folder_that_was_begun_anew_is_not_written_to_by_the_run_before(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    first, second = (Run(folder, 0, checkpoint_seconds=0.0) for _ in range(2))
    with first.locked():
        steps = first.steps("a", 3)
        next(steps)
        first.record(0)
        shutil.rmtree(folder)
        folder.mkdir()
        with second.locked():
            named = r"expected the folder in which the run began, got another or none.*Stop this one"
            with pytest.raises(CheckpointError, match=named):
                first.record(1)
            with pytest.raises(CheckpointError, match=named):
                next(steps)
            assert [path.name for path in folder.iterdir()] == [".lock"]


def test_a_lock_on_a_folder_that_is_gone_is_taken_again(tmp_path, monkeypatch):
    """Between opening the lock's file and locking it, the folder was deleted and begun again."""
    folder, taken = tmp_path / "run", []
    folder.mkdir()

    def late(file, how):
        if not taken:
            shutil.rmtree(folder)
            folder.mkdir()
        taken.append(file)
        flock(file, how)

    flock = fcntl.flock
    monkeypatch.setattr("fcntl.flock", late)
    first, second = Run(folder, 0), Run(folder, 0)
    with (
        first.locked(),
        pytest.raises(CheckpointError, match="expected a folder that nobody works in"),
        second.locked(),
    ):
        pass
    assert len(taken) == 3


def test_same_configuration_same_folder(tmp_path):
    first = open_run(tmp_path, "grok-digits", Config(), 3)
    assert open_run(tmp_path, "grok-digits", Config(), 3) == first
    assert load_run(first.folder) == first
    folders = {
        open_run(tmp_path, "grok-digits", config, seed).folder
        for config in (Config(), Config(steps=5))
        for seed in (0, 1)
    }
    assert len(folders) == 4
    assert not first.finished
    saved = json.loads((first.folder / "config.json").read_text())
    write_json(first.folder / "config.json", saved | {"config": {}})
    with pytest.raises(DataError, match=r"config\.json\): expected the configuration and seed that grok-digits/.* is"):
        open_run(tmp_path, "grok-digits", Config(), 3)


def test_every_machine_and_version_that_worked_on_a_run_is_noted(tmp_path, monkeypatch):
    found = open_run(tmp_path, "grok-digits", Config(), 3)
    found.begin()
    found.begin()
    (here,) = load_run(found.folder).made_with
    assert {"python", "commit", "packages", "processor", "cores"} <= here.keys()
    monkeypatch.setattr("gnomon_lab.runs.found.machine", lambda: here | {"python": "4.0"})
    again = open_run(tmp_path, "grok-digits", Config(), 3)
    again.begin()
    assert load_run(found.folder) == again
    assert again.made_with == [here, here | {"python": "4.0"}]


def test_the_commit_is_that_of_the_codes_own_checkout(tmp_path, monkeypatch):
    """Not of one that the package is installed into; there and where git is missing it is None."""

    def git(*words):
        done = subprocess.run(["git", "-C", tmp_path, *words], capture_output=True, check=True, text=True)
        return done.stdout.strip()

    file = tmp_path / "inside" / "machine.py"
    file.parent.mkdir()
    file.write_text("one")
    monkeypatch.setattr(machine, "__file__", str(file))
    git("init")
    assert machine.commit() is None
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-m", "a")
    assert machine.commit() == git("rev-parse", "--short", "HEAD")
    file.write_text("two")
    assert machine.commit() == git("rev-parse", "--short", "HEAD") + "-dirty"
    monkeypatch.setenv("PATH", "")
    assert machine.commit() is None


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_no_number_ends_the_run_in_a_sentence(tmp_path, value):
    run = Run(tmp_path, 0)
    for step in run.steps("only", 3):
        run.record(step, loss=1.0)
        if step == 1:
            with pytest.raises(
                ConvergenceError, match=rf"run\(only\): expected a finite loss at step 1, got {value:g}"
            ):
                run.record(step, loss=value)
    assert [record["loss"] for record in run.records()] == [1.0] * 4


def test_series_last_and_settled():
    records = [{"arm": "a", "step": step, "test": value} for step, value in enumerate([0.1, 0.95, 0.8, 0.9, 0.93])]
    records += [{"arm": "a", "step": 9, "train": 0.5}, {"arm": "c", "step": 9, "test": 0.5}]
    assert series(records, "a", "test") == ((0, 1, 2, 3, 4), (0.1, 0.95, 0.8, 0.9, 0.93))
    assert last(records, "a") == {"arm": "a", "step": 9, "train": 0.5}
    assert settled_at(records, "a", "test", 0.9) == 3
    assert settled_at(records, "a", "test", 0.99) is None
    with pytest.raises(EmptyError, match=r"expected records of 'b', got none"):
        last(records, "b")


def test_progress_in_a_log_has_a_line_for_the_end_of_each_part(capsys):
    with Progress(Console(width=80)) as progress:
        progress.show("trained", 1, 3)
        progress.show("trained", 3, 3)
        progress.show("solved", 0, 0)
    assert capsys.readouterr().out.splitlines() == ["trained: step 3 of 3", "solved: done"]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("name", ["GrokAlign", "search fashion_mnist-resnet18 cross-entropy 0.180451"])
def test_no_number_beside_a_bar_is_cut_off(width, name):
    progress, terminal = Progress(Console(width=width, file=io.StringIO())), Console(width=width, file=io.StringIO())
    progress.show(name, 12345, 50000)
    terminal.print(progress.get_renderable())
    (row,) = terminal.file.getvalue().splitlines()
    drawn, count, passed, left = row.rsplit(maxsplit=3)
    assert (count, passed, left) == ("12345/50000", "0:00:00", "-:--:--")
    assert cell_len(row) <= width
    shown = drawn.rstrip(" ━╸╺")
    assert shown == name or (shown.endswith("…") and name.startswith(shown[:-1]))
    assert (shown == name) == (len(name) <= width - 31), "cut off only where there is no room"
