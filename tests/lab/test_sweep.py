"""Sweeps: many runs in workers end as they do one after another, and one that fails or dies stops no other."""

import fcntl
import importlib
import io
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from distributed import LocalCluster
from rich.console import Console

from gnomon.errors import DataError, MissingExtraError
from gnomon_lab.cli import main, run_command
from gnomon_lab.cli.execute import Board
from gnomon_lab.experiment import Entry
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.own import grok_digits
from gnomon_lab.runs import Run, open_run
from gnomon_lab.runs.executors import open_executor
from gnomon_lab.runs.sweep import Ended, Moved, Task, sweep
from tests.children import started
from tests.lab.resuming import timeless

MADE_UP = """
import os, signal, time
from dataclasses import dataclass

import torch

from gnomon_lab.experiment import Entry, Experiment
from gnomon_lab.settings import Settings


@dataclass(frozen=True)
class Config(Settings):
    steps: int = 3
    seconds: float = 0.0
    fail: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    die: tuple[int, ...] = ()


def run(config, run):
    generator = torch.Generator().manual_seed(run.seed)
    for step in run.steps("only", config.steps, generator=generator):
        time.sleep(config.seconds)
        run.record(step, draw=torch.rand((), generator=generator).item())
        if step == 2 and run.seed in config.fail:
            raise ValueError("two is too many")
        if step == 2 and run.seed in config.lost:
            raise FileNotFoundError(os.fsdecode(b"no \\xff"))
        if step == 2 and run.seed in config.die:
            os.kill(os.getpid(), signal.SIGKILL)


def table(records):
    return ("", "readings"), [("only", str(len(records)))]


def none(records):
    return []


SMALL = Config(steps=50, seconds=0.04, die=(2,))
EXPERIMENT = Experiment(Entry("made_up", "", ""), "", SMALL, SMALL, run, table, str, none, none)
"""


MEND = "Mend it, and call the same command again: the run goes on from its last checkpoint."


def gnomon_run(folder, *words):
    """`gnomon run` of the made-up experiment, as from a terminal of its own."""
    os.setsid()
    os.chdir(folder)
    # Ignored where the tests run in the background, and blocked if a sweep of an earlier test started the forkserver.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    EXPERIMENTS["made-up"] = Entry("made_up", "", "")
    sys.argv = ["gnomon", "run", "made-up", *words]
    main()


def waits_for_a_worker(root):
    made_up = importlib.import_module("made_up")
    with open_executor(None, 1, 1, Path()) as executor:
        list(sweep(tasks_of(made_up, root, [0], steps=1000, seconds=0.1), executor))


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """An experiment's module that workers can import, and no other test has."""
    (tmp_path / "made_up.py").write_text(MADE_UP)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delitem(sys.modules, "made_up", raising=False)
    return importlib.import_module("made_up")


def tasks_of(made_up, root, seeds=range(3), **settings):
    return tasks_with(made_up.EXPERIMENT, made_up.Config(**settings), root, seeds)


def tasks_with(experiment, config, root, seeds):
    return [Task(experiment.name, config, seed, root, partial(experiment.finish, config)) for seed in seeds]


def ends(tasks, executor):
    """The last lines of each seed's run."""
    return {event.task.seed: event.lines for event in sweep(tasks, executor) if isinstance(event, Ended)}


def steps_of(task):
    found = open_run(task.root, task.experiment, task.config, task.seed)
    return found.finished, [record["step"] for record in found.records()]


def stop_under_way(tasks, executor):
    """Closes the sweep as soon as every run is past its start."""
    moved = set()
    with closing(sweep(tasks, executor)) as events:
        for event in events:
            assert isinstance(event, Moved), event
            moved |= {event.task.seed} if event.done else set()
            if len(moved) == len(tasks):
                break
    assert not list(tasks[0].root.glob(".sweep-*"))


def require_free(task):
    """Nobody works in the run's folder."""
    with (open_run(task.root, task.experiment, task.config, task.seed).folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def alone(module, folder, config, seed):
    """The records of a run that is made here, by itself."""
    folder.mkdir()
    module.run(config, Run(folder, seed))
    return timeless(Run(folder, seed).records())


def test_any_executor_makes_the_runs_and_their_failures_are_said(made_up, tmp_path):
    """Threads are an executor too."""
    tasks = tasks_of(made_up, tmp_path / "runs", fail=(1,))
    with ThreadPoolExecutor(2) as executor:
        ended = ends(tasks, executor)
    assert ended[0] == ended[2] == ()
    assert ended[1][0].startswith("  File") or ended[1][0].startswith("Traceback")
    assert ended[1][-1] == "ValueError: two is too many"
    assert [steps_of(task) for task in tasks] == [(True, [0, 1, 2, 3]), (False, [0, 1, 2]), (True, [0, 1, 2, 3])]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["made-up"]


def test_an_error_that_names_what_is_no_text_is_said(made_up, tmp_path):
    """Names of files are bytes, which need not be UTF-8."""
    tasks = tasks_of(made_up, tmp_path / "runs", [0], lost=(0,))
    with ThreadPoolExecutor() as executor:
        assert ends(tasks, executor)[0][-1] == r"FileNotFoundError: no \udcff"


def test_a_failure_that_found_no_room_for_its_message_is_one(made_up, tmp_path, monkeypatch):
    """As on a full disk: the file is there, and empty."""

    def full(self, *words, **how):
        if self.suffix == ".txt":
            self.touch()
            raise OSError(28, "No space left on device")
        return write_text(self, *words, **how)

    write_text = Path.write_text
    monkeypatch.setattr(Path, "write_text", full)
    with ThreadPoolExecutor() as executor:
        (line,) = ends(tasks_of(made_up, tmp_path, [0], fail=(0,)), executor)[0]
    assert line == f"expected to read and write files, got [Errno 28] No space left on device. {MEND}"


def test_a_full_disk_is_one_line(made_up, tmp_path, monkeypatch):
    def full(path, state):
        raise OSError(28, "No space left on device", path.name)

    monkeypatch.setattr("gnomon_lab.runs.run.save_checkpoint", full)
    with ThreadPoolExecutor() as executor:
        (line,) = ends(tasks_of(made_up, tmp_path, [0]), executor)[0]
    got = "[Errno 28] No space left on device: 'checkpoint-only.safetensors'"
    assert line == f"expected to read and write files, got {got}. {MEND}"


def test_gnomon_s_own_errors_are_one_line(made_up, tmp_path):
    (task,) = tasks_of(made_up, tmp_path, [0])
    (open_run(tmp_path, "made-up", task.config, 0).folder / "checkpoint-only.safetensors").write_text("no checkpoint")
    with ThreadPoolExecutor() as executor:
        (line,) = ends([task], executor)[0]
    assert "checkpoint-only.safetensors): expected a whole checkpoint, got SafetensorError" in line


def test_progress_is_told_and_a_stopped_sweep_goes_on(made_up, tmp_path, monkeypatch):
    monkeypatch.setattr("gnomon_lab.runs.sweep.POLL", 0.02)
    tasks = tasks_of(made_up, tmp_path, range(2), steps=100, seconds=0.005)
    with ThreadPoolExecutor(2) as executor:
        stop_under_way(tasks, executor)
        for task in tasks:
            require_free(task)
            assert not steps_of(task)[0]
    with ThreadPoolExecutor(2) as executor:
        events = list(sweep(tasks, executor))
    moved = [event for event in events if isinstance(event, Moved) and event.task == tasks[0] and event.total]
    assert {(event.part, event.total) for event in moved} == {("only", 100)}
    assert [event.done for event in moved] == sorted({event.done for event in moved})
    assert [steps_of(task) for task in tasks] == [(True, [*range(101)])] * 2


def test_workers_end_with_a_parent_that_is_killed(made_up, tmp_path):
    with started(waits_for_a_worker, tmp_path / "runs") as (parent, said):
        while not list(tmp_path.glob("runs/*/*/records.jsonl")):
            assert parent.is_alive(), said()
            time.sleep(0.05)
        parent.kill()
    (lock,) = tmp_path.glob("runs/*/*/.lock")
    with lock.open() as file:
        deadline = time.monotonic() + 10
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                assert time.monotonic() < deadline, "the worker goes on, and nobody waits for it"
                time.sleep(0.05)


def test_ctrl_c_ends_in_one_line_and_the_same_command_goes_on(made_up, tmp_path, monkeypatch, capsys):
    """Called three times; the second time one worker is killed, while another goes on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(EXPERIMENTS, "made-up", Entry("made_up", "", ""))
    command = ["made-up", "--seeds", "0-2", "--workers", "2"]
    runs = [open_run(Path("runs"), "made-up", made_up.SMALL, seed) for seed in range(3)]
    with started(gnomon_run, tmp_path, *command[1:]) as (process, said):
        while not any(found.records() for found in runs):
            assert process.is_alive(), said()
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        process.join(60)
        assert said()[1] == "\ngnomon: stopped; the same command goes on from the last checkpoint, if there is one.\n"
        assert process.exitcode == 130
    assert [found.finished for found in runs] == [False] * 3
    assert [path.name for path in Path("runs").iterdir()] == ["made-up"]
    for task in tasks_of(made_up, Path("runs"), steps=50, seconds=0.04, die=(2,)):
        require_free(task)

    assert run_command.main(command) == 1
    said = capsys.readouterr().out
    assert "made-up, seed 2: failed" in said
    assert "BrokenProcessPool: " in said
    assert "Its worker was killed, perhaps for lack of memory, or crashed. Call the same command again" in said
    assert said.splitlines()[-1] == "1 of 3 runs failed: seed 2"
    assert [(found.folder / "report.html").exists() for found in runs] == [True, True, False]
    for seed, found in enumerate(runs[:2]):
        assert timeless(found.records()) == alone(made_up, tmp_path / f"alone{seed}", made_up.Config(50), seed)

    assert run_command.main([*command[:2], "0,1"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said == [
        *(f"made-up, seed {seed}: finished before, in {runs[seed].folder}" for seed in range(2)),
        *(f"report: {runs[seed].folder / 'report.html'}" for seed in range(2)),
        f"report over 2 seeds: {runs[0].folder.parent / f'{runs[0].digest}-seeds' / 'report.html'}",
    ]

    (runs[1].folder / "report.html").unlink()
    assert run_command.main([*command[:2], "0,1"]) == 0
    assert f"report: {runs[1].folder / 'report.html'}" in capsys.readouterr().out
    assert (runs[1].folder / "report.html").exists()


def test_a_cluster_that_stops_the_command_does_what_ctrl_c_does(made_up, tmp_path):
    with started(gnomon_run, tmp_path, "--seeds", "0,1") as (process, said):
        while not list(tmp_path.glob("runs/*/*/records.jsonl")):
            assert process.is_alive(), said()
            time.sleep(0.05)
        process.terminate()
        process.join(60)
        assert said()[1] == "\ngnomon: stopped; the same command goes on from the last checkpoint, if there is one.\n"
        assert process.exitcode == 130
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["made-up"]


def test_two_workers_make_the_records_of_runs_one_after_another(tmp_path):
    config = grok_digits.Config(steps=10, width=8, train=20)
    tasks = tasks_with(grok_digits.EXPERIMENT, config, tmp_path, range(2))
    with open_executor(None, 2, config.threads, tmp_path) as executor:
        assert ends(tasks, executor) == {0: (), 1: ()}
        # What a worker prints when Ctrl-C reaches it as it starts would spoil the one line.
        assert signal.SIGINT in executor.submit(signal.pthread_sigmask, signal.SIG_BLOCK, ()).result()
    for seed in range(2):
        found = open_run(tmp_path, "grok-digits", config, seed)
        assert timeless(found.records()) == alone(grok_digits, tmp_path / f"alone{seed}", config, seed)


def test_workers_have_the_environment_of_the_moment(tmp_path, monkeypatch):
    with open_executor(None, 1, 1, tmp_path) as executor:
        executor.submit(os.getpid).result()  # that from which workers are forked is there from here on
        monkeypatch.setenv("GNOMON_DATA", "elsewhere")
        assert executor.submit(os.getenv, "GNOMON_DATA").result() == "elsewhere"


def test_dask(made_up, tmp_path):
    """A scheduler and two workers on loopback."""
    with LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0") as cluster:
        where = cluster.scheduler_address.replace("tcp", "dask")
        tasks = tasks_of(made_up, tmp_path, fail=(1,))
        with open_executor(where, None, 1, tmp_path) as executor:
            ended = ends(tasks, executor)
        assert ended[0] == ended[2] == ()
        assert ended[1][-1] == "ValueError: two is too many"
        assert [steps_of(task)[0] for task in tasks] == [True, False, True]

        tasks = tasks_of(made_up, tmp_path, range(2), steps=100, seconds=0.02)
        with open_executor(where, None, 1, tmp_path) as executor:
            stop_under_way(tasks, executor)
        for task in tasks:
            require_free(task)
        with open_executor(where, None, 1, tmp_path) as executor:
            assert ends(tasks, executor) == {0: (), 1: ()}
        assert [steps_of(task) for task in tasks] == [(True, [*range(101)])] * 2


def test_submitit(made_up, tmp_path):
    tasks = tasks_of(made_up, tmp_path, range(2), fail=(1,))
    with open_executor("slurm:local", None, 1, tmp_path / ".slurm") as executor:
        ended = ends(tasks, executor)
    assert ended[0] == ()
    assert ended[1][-1] == "ValueError: two is too many"
    assert [steps_of(task)[0] for task in tasks] == [True, False]


@pytest.mark.parametrize(
    ("on", "workers", "message"),
    [
        (None, 0, r"\(--workers\): expected at least 1, got 0\."),
        (
            None,
            10_000,
            r"expected workers x threads of at most \d+, the processor cores, got 10000 x 2\. Ask for fewer",
        ),
        ("dsk://here:1", None, r"\(--on\): expected dask://HOST:PORT, slurm or slurm:local, got 'dsk://here:1'\."),
        ("dask://here:1", 2, r"\(--workers\): expected none with --on dask://here:1, got 2\. Start one"),
        ("dask://127.0.0.1", None, r"expected dask://HOST:PORT, got 'dask://127\.0\.0\.1'\. Give both"),
        ("dask://127.0.0.1:70000", None, r"expected dask://HOST:PORT, got 'dask://127\.0\.0\.1:70000'"),
        ("dask://127.0.0.1:1", None, r"expected a dask scheduler at 127\.0\.0\.1:1, got .* Start `dask scheduler`"),
        ("slurm", None, r"expected a machine that can submit to Slurm, got none \(Could not detect \"srun\""),
    ],
)
def test_what_cannot_be_is_one_sentence(on, workers, message, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(DataError, match=message), open_executor(on, workers, 2, tmp_path):
        pass


def test_a_dask_cluster_without_workers_is_named(tmp_path):
    with LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address=":0") as cluster:
        where = cluster.scheduler_address.replace("tcp", "dask")
        with (
            pytest.raises(DataError, match=r"expected dask workers at 127.*, got none\. Start `dask worker 127"),
            open_executor(where, None, 1, tmp_path),
        ):
            pass


@pytest.mark.parametrize(
    ("on", "module", "name"), [("dask://here:1", "distributed", "dask"), ("slurm", "submitit", "slurm")]
)
def test_missing_and_broken_extras_are_told_apart(on, module, name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with (
        pytest.raises(MissingExtraError, match=rf"run\(--on\) needs {module}: pip install '.\[{name}\]' in the"),
        open_executor(on, None, 1, tmp_path),
    ):
        pass

    class Broken:
        def find_spec(self, found, *_):
            if found == module:
                raise OSError("bad wheel")

    monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with (
        pytest.raises(MissingExtraError, match=r"does not import \(OSError: bad wheel\)"),
        open_executor(on, None, 1, tmp_path),
    ):
        pass


def shown(*, terminal, seconds_between_lines):
    """What is printed while three runs begin, two get on, and one of them ends."""
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    tasks = [Task("", None, seed, Path(), lambda *_: None) for seed in range(3)]
    with Board(console, 3, seconds_between_lines) as board:
        for event in (
            Moved(tasks[0], "starting", 0, 0),
            Moved(tasks[2], "GrokAlign", 1200, 4000),
            Moved(tasks[0], "baseline", 3, 4000),
            Ended(tasks[0]),
        ):
            board.show(event)
    return console.file.getvalue()


def test_progress_in_a_log_is_sparse_plain_lines():
    assert shown(terminal=False, seconds_between_lines=0.0).splitlines() == [
        "0 of 3 runs ended; seed 0: starting",
        "0 of 3 runs ended; seed 0: starting; seed 2: GrokAlign, step 1,200 of 4,000",
        "0 of 3 runs ended; seed 0: baseline, step 3 of 4,000; seed 2: GrokAlign, step 1,200 of 4,000",
        "1 of 3 runs ended; seed 2: GrokAlign, step 1,200 of 4,000",
    ]
    assert shown(terminal=False, seconds_between_lines=60.0) == ""


def test_progress_on_a_terminal_is_a_bar_a_run():
    last = shown(terminal=True, seconds_between_lines=0.0).split("runs ")[-1]
    assert "1/3" in last
    assert "seed 2 GrokAlign" in last
    assert "1200/4000" in last
    assert "seed 0" not in last
