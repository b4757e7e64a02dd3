"""What `gnomon` says of several runs: settings, seeds, and one of them that is damaged."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest
import torch

from gnomon_lab.cli import main, run_command
from gnomon_lab.cli.verify_command import by_setting
from gnomon_lab.papers.grokalign import accelerate, delayed_robustness, init_scaling, xor
from gnomon_lab.papers.mse_collapse import central_path
from gnomon_lab.papers.own import grok_digits
from gnomon_lab.report.build import then
from gnomon_lab.report.setting import setting
from gnomon_lab.report.table import write_table
from gnomon_lab.runs import Run, all_runs, load_run, open_run
from gnomon_lab.runs.checkpoint import load_checkpoint, save_checkpoint

TINY = ["run", "grok-digits", "--steps", "2", "--width", "8", "--train", "20"]
CONFIG = grok_digits.Config(steps=2, width=8, train=20)


@pytest.fixture
def gnomon(monkeypatch, capsys, tmp_path):
    """Calls `gnomon` in a folder of its own, in this process."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["gnomon", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return subprocess.CompletedProcess(arguments, end.value.code, *capsys.readouterr())

    return call


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two seeds of one setting, and one of another."""
    root = tmp_path_factory.mktemp("made") / "runs"
    for arguments in (["--seeds", "0"], ["--seeds", "1"], ["--coefficient", "0.5"]):
        assert run_command.main([*TINY[1:], *arguments, "--runs", str(root)]) == 0
    return root


def unfolded(said):
    """What was printed, with the caption of a table on one line."""
    return "\n".join(line.strip() for line in said.splitlines()) + "\n"


@pytest.fixture
def runs(made, gnomon, tmp_path):
    """A copy of them in the folder in which `gnomon` is called."""
    shutil.copytree(made, tmp_path / "runs")
    return all_runs(tmp_path / "runs")[0]


def test_a_setting_is_told_by_the_options_that_make_it(tmp_path):
    small, paper = grok_digits.SMALL, grok_digits.PAPER

    def told(config):
        return setting(grok_digits.EXPERIMENT, open_run(tmp_path, "grok-digits", config, 0))

    assert told(small) == "default setting"
    assert told(CONFIG) == "--steps 2 --train 20 --width 8"
    assert told(paper) == ("default setting" if paper == small else "--paper")


@pytest.mark.parametrize("experiment", [xor, init_scaling])
def test_the_paper_s_setting_is_told_so_where_one_option_would_do(tmp_path, experiment):
    paper = experiment.EXPERIMENT.paper
    found = open_run(tmp_path, experiment.EXPERIMENT.name, paper, 0)
    assert setting(experiment.EXPERIMENT, found) == "--paper"
    other = open_run(tmp_path, experiment.EXPERIMENT.name, replace(paper, steps=7), 0)
    assert setting(experiment.EXPERIMENT, other) == "--paper --steps 7"


def test_an_option_of_two_words_is_told_as_a_shell_takes_it(tmp_path):
    noisy = replace(accelerate.SMALL, methods=("baseline", "input noise"))
    told = setting(accelerate.EXPERIMENT, open_run(tmp_path, "accelerate", noisy, 0))
    assert told == "--methods baseline 'input noise'"


def test_claims_are_judged_by_ascending_seed(runs, monkeypatch):
    """Resampled intervals depend on the order, and `verify` has this one."""
    judged = []
    monkeypatch.setattr("gnomon_lab.cli.execute.show_claims", lambda known, found, console: judged.extend(found))
    run_command.main([*TINY[1:], "--seeds", "1,0"])
    assert [found.seed for found in judged] == [0, 1]


def test_options_are_told_as_the_command_line_takes_them(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("gnomon_lab.cli.execute.execute", lambda known, config, *rest: asked.append(config) or 0)
    for known, name, value in (
        (delayed_robustness.EXPERIMENT, "stop_at_plateau", True),
        (central_path.EXPERIMENT, "sizes", ((3, 12, 4), (4, 10, 8))),
    ):
        wanted = replace(known.small, **{name: value})
        words = shlex.split(setting(known, open_run(tmp_path, known.name, wanted, 0)))
        run_command.main([known.name, *words])
        assert asked.pop() == wanted


def test_what_next_is_about_the_same_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for root, more in ((Path("runs"), ""), (Path("my runs"), "--runs 'my runs' ")):
        found = open_run(root, "grok-digits", grok_digits.SMALL, 0)
        assert then(grok_digits.EXPERIMENT, found).startswith(f"What next: `gnomon run grok-digits {more}--seeds 0-4`")
    folder = found.folder.resolve()
    for place, inside in ((folder, Path()), (folder.parent, Path(folder.name)), (folder / "..", Path(folder.name))):
        monkeypatch.chdir(place)
        assert f" --runs '{tmp_path / 'my runs'}' --seeds 0-4`" in then(grok_digits.EXPERIMENT, load_run(inside))


def test_list_names_runs_of_unknown_experiments(gnomon, tmp_path):
    open_run(tmp_path / "runs", "unknown", CONFIG, 0)
    assert "unknown, of an experiment that is not known here\n" in gnomon("list").stdout


def test_list_says_that_there_are_no_runs(gnomon, tmp_path):
    (tmp_path / "runs" / "grok-digits").mkdir(parents=True)
    (tmp_path / "runs" / "notes.txt").write_text("no run")
    assert gnomon("list").stdout.endswith("\nruns in runs\n  none\n")


def test_list_tells_settings_results_and_durations(gnomon, runs, tmp_path):
    open_run(tmp_path / "runs", "grok-digits", CONFIG, 2)
    assert gnomon("list").returncode == 0
    (runs[2].folder / "config.json").write_text("{")
    listed = gnomon("list")
    assert listed.returncode == 1, "one was left out"
    said = listed.stdout.splitlines()
    at = said.index("  grok-digits, --steps 2 --train 20 --width 8")
    first, summary, *_, begun = said[at + 1 : at + 6]
    assert first.startswith(f"    runs/grok-digits/{runs[0].folder.name}  seed 0, finished, took ")
    assert first.endswith(" s")
    assert summary == f"      {grok_digits.summary(runs[0].records())}"
    assert begun.endswith("-seed2  seed 2, not finished")
    assert "config.json): expected a JSON file" in said[-1]
    assert said[-1].startswith("  left out: ")


def test_report_takes_the_default_setting_or_says_what_it_took(gnomon, runs, tmp_path, monkeypatch):
    done = gnomon("report", "grok-digits")
    assert done.stdout == f"runs/grok-digits/{runs[2].folder.name}/report.html\n"
    assert done.stderr == "grok-digits, --coefficient 0.5 --steps 2 --train 20 --width 8, seed 0\n"
    monkeypatch.setattr(grok_digits, "EXPERIMENT", replace(grok_digits.EXPERIMENT, small=CONFIG))
    done = gnomon("report", "grok-digits")
    assert done.stdout == f"runs/grok-digits/{runs[0].digest}-seeds/report.html\n"
    assert done.stderr == "grok-digits, default setting, seed 0, 1\n"


def test_report_takes_the_run_that_finished_last(gnomon, runs):
    """Of two settings, neither the default: what was begun first may end last."""
    begun_first, begun_last = runs[0], runs[2]
    os.utime(begun_first.folder / "result.json", ns=(0, begun_last.ended_ns + 1))
    assert gnomon("report", "grok-digits").stderr == "grok-digits, --steps 2 --train 20 --width 8, seed 0, 1\n"
    os.utime(begun_last.folder / "result.json", ns=(0, begun_first.ended_ns + 1))
    assert gnomon("report", "grok-digits").stderr.startswith("grok-digits, --coefficient 0.5 ")


def test_report_without_a_damaged_run_is_no_success(gnomon, runs):
    assert gnomon("report", "grok-digits").returncode == 0
    (runs[0].folder / "config.json").write_text("{")
    done = gnomon("report", "grok-digits")
    assert (done.returncode, done.stdout) == (1, f"runs/grok-digits/{runs[2].folder.name}/report.html\n")
    assert done.stderr.startswith("left out: ")
    assert gnomon("report", str(runs[2].folder)).returncode == 0, "nothing was left out"


def test_the_records_of_several_seeds_are_one_table(gnomon, runs, tmp_path, monkeypatch):
    monkeypatch.setattr(grok_digits, "EXPERIMENT", replace(grok_digits.EXPERIMENT, small=CONFIG))
    assert gnomon("report", "grok-digits", "--table", "all.parquet").returncode == 0
    rows = pyarrow.parquet.read_table("all.parquet").to_pylist()
    records = [(run.seed, record) for run in runs if run.digest == runs[0].digest for record in run.records()]
    assert sorted({run for run, _ in records}) == [0, 1]
    assert [(row["seed"], row["arm"], row["step"]) for row in rows] == [
        (seed, record["arm"], record["step"]) for seed, record in sorted(records, key=lambda pair: pair[0])
    ]
    last = max(records, key=lambda pair: pair[0])[1]
    found = next(row for row in rows if (row["seed"], row["arm"], row["step"]) == (1, last["arm"], last["step"]))
    assert found["train/jacobian_norm"] == last["train/jacobian_norm"]
    assert found["seconds.trained"] == last["seconds"]["trained"]
    assert json.loads(found["centroids"]) == last["centroids"]
    done = gnomon("report", "grok-digits", "--table", "all.csv")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2, "gnomon: report(--table): expected a name that ends in .parquet, got 'all.csv'. Rename it."
    )  # fmt: skip


def test_columns_of_a_table_with_lists_in_some_records_or_several_kinds_are_json(tmp_path):
    """As in steering, whose first parts record one best setting, and later ones several."""
    found = open_run(tmp_path / "runs", "grok-digits", CONFIG, 0)
    run, values = Run(found.folder, 0), ((1.5, 1, None), ([1.5, 2], 2.5, "none"), (None, None, 7))
    for step in run.steps("tuned", 2):
        run.record(step, **dict(zip("abc", values[step], strict=True)))
    write_table([found], tmp_path / "all.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "all.parquet").to_pydict()
    assert [table[name] for name in "abc"] == [["1.5", "[1.5, 2]", None], [1, 2.5, None], [None, '"none"', "7"]]


def test_no_table_is_written_of_an_unfinished_run_or_over_what_is_no_file(gnomon, runs, tmp_path):
    (tmp_path / "folder.parquet").mkdir()
    Path("link.parquet").symlink_to(runs[0].folder / "records.jsonl")
    for name, words in (
        ("folder.parquet", "report(--table): expected a file, or none yet, got 'folder.parquet', which is a folder."),
        ("link.parquet", "report(--table): expected a file, or none yet, got 'link.parquet', which is a link."),
        ("none/all.parquet", "report(--table): expected a file in a folder, got 'none/all.parquet'. Make its folder."),
    ):
        done = gnomon("report", str(runs[0].folder), "--table", name)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
    (runs[0].folder / "result.json").unlink()
    done = gnomon("report", str(runs[0].folder), "--table", "all.parquet")
    assert (done.returncode, done.stdout) == (2, "")
    assert "expected a finished run, got an unfinished one." in done.stderr
    assert not Path("all.parquet").exists()


def test_several_seeds_make_one_page_with_their_spread(gnomon, runs, tmp_path):
    page = (tmp_path / "runs" / "grok-digits" / f"{runs[0].digest}-seeds" / "report.html").read_text()
    assert "grok-digits, 2 seeds: " in page
    assert page.count("</th><td") == 2
    assert "\u00a0to\u00a0" in page[page.index("<tbody>") : page.index("</tbody>")]
    again = gnomon(*TINY, "--seeds", "0,1")
    assert again.returncode == 0
    pages = [line for line in again.stdout.splitlines() if line.startswith("report")]
    assert len(pages) == 3, "each seed's, and that of both"
    assert pages[-1].startswith(f"report over 2 seeds: runs/grok-digits/{runs[0].digest}-seeds/")


def test_a_page_over_seeds_of_which_one_was_deleted_is_made_again(gnomon, runs):
    assert gnomon(*TINY, "--seeds", "0-2").returncode == 0
    page = runs[0].folder.parent / f"{runs[0].digest}-seeds" / "report.html"
    assert "grok-digits, 3 seeds: " in page.read_text()
    shutil.rmtree(runs[0].folder.parent / f"{runs[0].digest}-seed2")
    assert "report over 2 seeds: " in gnomon(*TINY, "--seeds", "0,1").stdout
    assert "grok-digits, 2 seeds: " in page.read_text()


@pytest.mark.parametrize("stale", [True, False])
def test_a_finished_sweep_writes_the_page_that_is_missing_and_prints_the_claims(gnomon, runs, monkeypatch, stale):
    monkeypatch.setattr(grok_digits, "EXPERIMENT", replace(grok_digits.EXPERIMENT, others=(CONFIG,)))
    page = runs[0].folder.parent / f"{runs[0].digest}-seeds" / "report.html"
    if stale:
        os.utime(page, (0, 0))
    else:
        page.unlink()
    said = gnomon(*TINY, "--seeds", "0,1").stdout
    assert " claims reproduced:" in said
    assert f"report over 2 seeds: runs/grok-digits/{page.parent.name}/report.html" in said
    assert page.stat().st_mtime > 0


def test_a_page_over_seeds_without_a_damaged_one_says_so(gnomon, runs):
    assert gnomon(*TINY, "--seeds", "2").returncode == 0
    (runs[0].folder / "records.jsonl").write_text("")
    (runs[2].folder / "records.jsonl").write_text("")
    said = gnomon(*TINY, "--seeds", "1,2").stdout
    assert "report over 2 seeds: " in said
    (left,) = (line for line in said.splitlines() if line.startswith("left out: "))
    assert f"{runs[0].folder.name}/records.jsonl): expected what the run finished with" in left, "not another setting's"


def test_verify_says_which_seeds_are_not_finished(gnomon, runs, tmp_path, monkeypatch):
    monkeypatch.setattr(grok_digits, "EXPERIMENT", replace(grok_digits.EXPERIMENT, others=(CONFIG,)))
    assert f"{runs[0].digest}-*, seeds 0, 1\n" in unfolded(gnomon("verify", "grok-digits").stdout)
    (runs[0].folder / "result.json").unlink()
    said = unfolded(gnomon("verify", "grok-digits").stdout)
    assert f"{runs[0].digest}-*, seed 1; unfinished: 0\n" in said
    (runs[1].folder / "result.json").unlink()
    done = gnomon("verify", "grok-digits")
    assert done.stdout.endswith(": not run; unfinished: 0, 1\n")


def test_verify_of_what_claims_nothing_says_so(gnomon, runs, monkeypatch):
    silent = replace(grok_digits.EXPERIMENT, others=(CONFIG,), claims=lambda seeds: [])
    monkeypatch.setattr(grok_digits, "EXPERIMENT", silent)
    done = gnomon("verify", "grok-digits")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.rstrip().endswith(": makes no claims")


def test_one_damaged_run_stops_neither_verify_nor_a_sweep(gnomon, runs, monkeypatch):
    judged = replace(grok_digits.EXPERIMENT, others=(CONFIG,))
    monkeypatch.setattr(grok_digits, "EXPERIMENT", judged)
    healthy = gnomon("verify", "grok-digits")
    assert healthy.returncode == 1, "so small a run reproduces nothing"
    assert len(by_setting(Path("runs"), judged)[0][runs[0].digest]) == 2
    (runs[1].folder / "records.jsonl").write_text("")
    (runs[2].folder / "config.json").write_text("{")
    said = gnomon("verify", "grok-digits").stdout
    assert "not reproduced" in said
    assert said.count("left out: ") == 2
    assert len(by_setting(Path("runs"), judged)[0][runs[0].digest]) == 1
    swept = gnomon(*TINY, "--seeds", "0,1")
    assert swept.returncode == 1
    assert "seed 0: finished before" in swept.stdout
    assert "records.jsonl): expected what the run finished with, got another file or none" in swept.stdout
    assert swept.stdout.splitlines()[-1] == "1 of 1 runs failed: seed 1"


def aged(found):
    """The finished run as another version would have made it: its records lack what the table shows."""
    path = found.folder / "records.jsonl"
    records = [{"arm": record["arm"], "step": record["step"]} for record in found.records()]
    (found.folder / "result.json").unlink()
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    found.finish()


def test_one_run_of_another_version_stops_neither_verify_nor_a_sweep(gnomon, runs, monkeypatch):
    others = tuple(grok_digits.Config(**found.config) for found in (runs[0], runs[2]))
    monkeypatch.setattr(grok_digits, "EXPERIMENT", replace(grok_digits.EXPERIMENT, others=others))
    aged(runs[0])
    done = gnomon("verify", "grok-digits")
    assert done.returncode == 1
    assert f"{runs[2].digest}-*" in done.stdout, "the other setting is judged"
    (left,) = (line for line in done.stdout.splitlines() if line.startswith("left out: "))
    assert ", as this version of gnomon makes them, got none in baseline at step " in left
    again = gnomon(*TINY, "--seeds", "0-2")
    assert (again.returncode, again.stderr) == (1, "")
    said = again.stdout.splitlines()
    *_, new = (line for line in said if line.startswith("report: "))
    assert new.endswith("-seed2/report.html")
    wrong = said[said.index(new) + 1 :]
    assert sum(", as this version of gnomon makes them, got none in baseline at step " in line for line in wrong) == 1


def test_altered_records_have_no_verdict(gnomon, runs):
    assert "expected what the run finished with" not in gnomon("verdict", str(runs[0].folder)).stderr
    path = runs[0].folder / "records.jsonl"
    path.write_text(path.read_text().replace('"step":0', '"step":1', 1))
    done = gnomon("verdict", str(runs[0].folder))
    assert done.returncode == 2
    assert "expected what the run finished with, got another file or none: it was altered" in done.stderr


def test_a_report_of_an_unfinished_run_says_how_to_finish_it(gnomon, runs):
    for run in runs:
        (run.folder / "result.json").unlink()
    done = gnomon("report", "grok-digits")
    assert "expected a finished run in runs, got an unfinished one, --" in done.stderr
    assert f"--steps 2 --train 20 --width 8 --seeds {runs[-1].seed}` to finish it." in done.stderr


def test_places_that_make_no_sense_are_refused_though_all_runs_are_finished(gnomon, runs):
    for wrong in (["--on", "nonsense"], ["--workers", "0"], ["--on", "dask://here"]):
        done = gnomon(*TINY, *wrong)
        assert done.returncode == 2
        assert done.stderr.startswith(f"gnomon: run({wrong[0]}): expected ")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is the device that is to be missing")
@pytest.mark.parametrize("seeds", ["0", "0,1"])
def test_a_device_that_is_not_there_is_one_line_and_begins_no_run(gnomon, seeds):
    done = gnomon("run", "deep-rfm", "--device", "cuda", "--seeds", seeds)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert done.stderr.startswith("gnomon: run(--device): expected a device of this machine, got 'cuda' (")
    assert not Path("runs").exists()


@pytest.mark.parametrize("seeds", ["1" * 23, "0-" + "9" * 23, "1" * 5000, "-1", "٣", "1-2-3", ""])
def test_seeds_that_are_too_long_or_none_are_one_line(gnomon, seeds):
    done = gnomon("run", "grok-digits", f"--seeds={seeds}")
    assert done.returncode == 2
    assert done.stderr.startswith("gnomon: run(--seeds): expected ")
    assert len(done.stderr.splitlines()) == 1


def test_resuming_says_from_which_step(gnomon, tmp_path):
    class StoppedError(Exception):
        pass

    class Stopping(Run):
        def record(self, at, *readings, **values):
            super().record(at, *readings, **values)
            if (self._arm, at) == ("GrokAlign", 2):
                raise StoppedError

    found = open_run(tmp_path / "runs", "grok-digits", CONFIG, 0)
    with pytest.raises(StoppedError):
        grok_digits.run(CONFIG, Stopping(found.folder, 0, checkpoint_seconds=0.0))
    words = "baseline finished, GrokAlign at step 1"
    assert f"seed 0, not finished: {words}" in gnomon("list").stdout
    for more in ([], ["--seeds", "0,1"]):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("gnomon_lab.experiment.Experiment.finish", lambda *_: None)
            patched.setattr("gnomon_lab.cli.execute.sweep", lambda *_: (_ for _ in ()))
            assert f"last checkpoints: {words}\n" in gnomon(*TINY, *more).stdout


def test_a_checkpoint_that_is_a_link_to_nowhere_stops_no_list(gnomon, tmp_path):
    found = open_run(tmp_path / "runs", "grok-digits", CONFIG, 0)
    found.begin()
    (found.folder / "checkpoint-baseline.safetensors").symlink_to("nowhere")
    listed = gnomon("list")
    assert listed.returncode == 0
    assert "seed 0, not finished: load_checkpoint(" in listed.stdout


@pytest.mark.parametrize("lacking", ["arm", "step", "finished"])
def test_a_checkpoint_that_lacks_something_stops_no_list(gnomon, tmp_path, lacking):
    found = open_run(tmp_path / "runs", "grok-digits", CONFIG, 0)
    run = Run(found.folder, 0)
    for step in run.steps("baseline", 1):
        run.record(step)
    path = run.checkpoint_path("baseline")
    state = load_checkpoint(path)
    del state[lacking]
    save_checkpoint(path, state)
    listed = gnomon("list")
    assert listed.returncode == 0
    assert f"seed 0, not finished: load_checkpoint(runs/{path.relative_to(tmp_path / 'runs')}): expected run" in (
        listed.stdout
    )
    done = gnomon(*TINY)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "checkpoint-baseline.safetensors): expected run and arm " in done.stderr


@pytest.mark.parametrize(("name", "wrong"), [("seconds", "long"), ("seconds", -1), ("summary", 3)])
def test_a_result_with_something_else_in_it_stops_no_list(gnomon, tmp_path, name, wrong):
    found = open_run(tmp_path / "runs", "grok-digits", CONFIG, 0)
    found.finish(**{name: wrong})
    listed = gnomon("list")
    assert listed.returncode == 1, "the run is left out"
    assert f"result.json): expected a sound {name}, got {wrong!r}. Restore it, or delete it" in listed.stdout
