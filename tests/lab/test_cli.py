"""The command line as a user meets it."""

import io
import json
import os
import resource
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from gnomon import __version__
from gnomon_lab.cli import main
from gnomon_lab.cli.execute import show_claims
from gnomon_lab.cli.tables import laid_out
from gnomon_lab.cli.terminal import Terminal
from gnomon_lab.experiment import Entry
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.runs import Claim
from tests.children import child, started
from tests.lab.measuring import in_folder

GNOMON = [sys.executable, "-c", "from gnomon_lab.cli import main; main()"]
TINY = ["grok-digits", "--steps", "30", "--width", "8", "--train", "20"]


def gnomon(folder, *arguments):
    return subprocess.run([*GNOMON, *arguments], cwd=folder, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def here(monkeypatch, capsys):
    """`gnomon` in this process: where nothing depends on one of its own, which takes seconds to import torch."""

    def call(folder, *arguments):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["gnomon", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return subprocess.CompletedProcess(arguments, end.value.code, *capsys.readouterr())

    return call


def on_small_disk(folder, size, arguments):
    """`gnomon` where no file may grow beyond a size: writing fails as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    os.chdir(folder)
    sys.argv = ["gnomon", *arguments]
    main()


def complaint(done):
    """The one line on stderr of a call that failed as users' mistakes do."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A folder in which the tiny experiment has run, what it printed, and its run's folder."""
    folder = tmp_path_factory.mktemp("ran")
    done = child(in_folder, folder, "run", *TINY)
    assert done.returncode == 0, done.stderr
    (run,) = (folder / "runs" / "grok-digits").iterdir()
    return folder, done.stdout, run


def processor_seconds(call):
    """Processor time in a process of its own, as other tests may hold the cores."""
    start = resource.getrusage(resource.RUSAGE_CHILDREN)
    call()
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return end.ru_utime - start.ru_utime + end.ru_stime - start.ru_stime


def import_the_parser():
    """What parses the arguments, of which tyro imports typeguard for tuples: 0.17 s where torch takes 1.7."""
    subprocess.run([sys.executable, "-c", "import tyro, typeguard"], check=True)


@pytest.mark.parametrize("command", [[], ["run"], ["list"], ["report"], ["verify"], ["measure"], ["watch"]])
def test_help_is_there_and_fast(command, tmp_path):
    def call():
        done = gnomon(tmp_path, *command, "--help")
        assert done.returncode == 0
        assert "usage: gnomon" in done.stdout
        assert "None" not in done.stdout
        assert "False" not in done.stdout

    # By turns, of which one is enough: a core is slower while its neighbour is busy.
    turns = ((processor_seconds(call), processor_seconds(import_the_parser)) for _ in range(3))
    assert any(help_takes < (2 if command else 1) * parser_takes for help_takes, parser_takes in turns)


def test_help_of_an_experiment_tells_its_settings(tmp_path, here):
    told = here(tmp_path, "run", "grok-digits", "--help").stdout
    assert "--coefficient FLOAT" in told
    assert "False" not in told


def test_version(tmp_path):
    assert gnomon(tmp_path, "--version").stdout == f"gnomon {__version__}\n"


def test_run_prints_its_table_and_leaves_its_files(ran):
    _, said, run = ran
    for word in ("train", "test", "centroid", "alignment", "Jacobian", "PC1", "seconds", "baseline", "GrokAlign"):
        assert word in said
    assert "report.html" in said
    assert "No claim is judged: the claims are about another setting." in said
    assert said.splitlines()[-1].startswith(
        "What next: `gnomon run grok-digits --steps 30 --train 20 --width 8 --seeds 0-4` "
    )
    names = {path.name for path in run.iterdir()}
    assert {
        "config.json",
        "records.jsonl",
        "result.json",
        "report.html",
        "figures",
        "checkpoint-baseline.safetensors",
    } <= names
    assert {path.name for path in (run / "figures").iterdir()} == {"curves.svg", "centroids.svg"}
    config = json.loads((run / "config.json").read_text())
    assert config["config"]["steps"] == 30
    assert config["made_with"][0]["packages"]["torch"]


def test_the_terminal_names_each_claim_and_what_came_of_it():
    claims = [Claim("it groks", "a paper", "at least 90%", "95.0%", True), Claim("soon", "a paper", "< 9", "12", False)]
    module = SimpleNamespace(settings=("its own",), claims=lambda seeds: claims)
    run = SimpleNamespace(has_one_of=lambda settings: settings == ("its own",), records=list)
    said = io.StringIO()
    show_claims(module, [run], Terminal(file=said, width=30))
    assert said.getvalue().splitlines() == [
        "1 of 2 claims reproduced:",
        "  ✓ it groks: 95.0% (expected: at least 90%)",
        "  ✗ not reproduced: soon: 12 (expected: < 9)",
    ]


def test_second_call_runs_nothing(ran, here):
    folder, _, run = ran
    before = (run / "records.jsonl").read_bytes()
    assert "finished before" in here(folder, "run", *TINY).stdout
    assert (run / "records.jsonl").read_bytes() == before


def test_runs_repeat_bit_for_bit(ran, tmp_path, here):
    assert here(tmp_path, "run", *TINY).returncode == 0
    (again,) = (tmp_path / "runs" / "grok-digits").iterdir()

    def plain(run):
        lines = (run / "records.jsonl").read_text().splitlines()
        return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]

    assert plain(again) == plain(ran[2])


def test_a_paper_s_setting_that_is_the_default_is_said_to_be(tmp_path, here):
    done = here(tmp_path, "run", *TINY, "--steps", "2", "--paper")
    assert done.stderr.startswith("grok-digits has no other setting for --paper than its default\n")


def test_seeds_are_runs(tmp_path, here):
    assert here(tmp_path, "run", *TINY, "--steps", "2", "--seeds", "1,3-3").returncode == 0
    assert sorted(path.name[-5:] for path in (tmp_path / "runs" / "grok-digits").iterdir()) == [
        "seed1",
        "seed3",
        "seeds",
    ]


def test_list_and_report(ran, here):
    folder, _, run = ran
    listed = here(folder, "list").stdout
    assert "grok-digits" in listed
    assert f"{run.name}  seed 0, finished" in listed
    (run / "report.html").unlink()
    assert here(folder, "report", "grok-digits").stdout.strip().endswith("report.html")
    assert (run / "report.html").stat().st_size > 10**6
    assert here(folder, "report", str(run)).returncode == 0


def test_verify_counts_only_the_stated_settings(ran, here):
    done = here(ran[0], "verify", "grok-digits")
    assert "not run" in done.stdout
    assert "verify(--runs): expected finished runs of the settings that claims are about, got none" in complaint(done)


def test_verify_of_no_folder_is_one_line(tmp_path, here):
    said = complaint(here(tmp_path, "verify", "--runs", "typo"))
    assert "verify(--runs): expected a folder of runs, got 'typo', which is none." in said


@pytest.mark.parametrize("command", ["run", "verify"])
@pytest.mark.parametrize(
    ("module", "words"),
    [
        (
            "own.decay",
            "expected a module gnomon_lab.papers.own.decay, got none. Correct its Entry in gnomon_lab/papers/",
        ),
        ("nowhere.decay", "expected a module gnomon_lab.papers.nowhere.decay, got none. Correct its Entry"),
        ("mse_collapse", "to define EXPERIMENT, got a module without. End it so, or correct its Entry in gnomon_lab/"),
    ],
)
def test_an_entry_that_leads_to_no_experiment_is_named(command, module, words, tmp_path, here, monkeypatch):
    entry = Entry(f"gnomon_lab.papers.{module}", "what weight decay does", "this test")
    monkeypatch.setitem(EXPERIMENTS, entry.name, entry)
    said = complaint(here(tmp_path, command, entry.name))
    assert f"experiment({entry.name}): expected" in said
    assert words in said


def test_what_an_experiments_module_fails_to_import_is_no_fault_of_its_entry(tmp_path, here, monkeypatch):
    (tmp_path / "decay.py").write_text("import nowhere_to_be_found")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(EXPERIMENTS, "decay", Entry("decay", "what weight decay does", "this test"))
    said = complaint(here(tmp_path, "run", "decay"))
    assert "No module named 'nowhere_to_be_found'" in said
    assert "Entry" not in said


@pytest.mark.bad_input
@pytest.mark.parametrize("key", ["weight-decay", "rank"])
def test_an_experiment_that_asks_for_another_name_than_its_entry_has_is_told_both(
    key, tmp_path, here, monkeypatch, request
):
    (tmp_path / "decay.py").write_text(
        "from dataclasses import replace\nfrom gnomon_lab.papers import EXPERIMENTS, experiment\n"
        f"EXPERIMENT = replace(experiment('rank'), entry=EXPERIMENTS['{key}'])"
    )
    monkeypatch.syspath_prepend(tmp_path)
    request.addfinalizer(lambda: sys.modules.pop("decay", None))
    monkeypatch.setitem(EXPERIMENTS, "decay", Entry("decay", "what weight decay does", "this test"))
    said = complaint(here(tmp_path, "run", "decay"))
    expected = f"EXPERIMENTS: expected 'decay', the name of the Entry of decay, got '{key}'. Use the same name in both."
    assert expected in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["rnu"],
            ["expected one of run, list, report, verify, measure, verdict, watch, got 'rnu'", "Did you mean run?"],
        ),
        (["run"], ["expected an experiment's name first", "grok-digits"]),
        (["run", "grok-digit"], ["got 'grok-digit'", "Did you mean grok-digits?"]),
        (["run", "nope"], ["expected an experiment, got 'nope'. See `gnomon list`."]),
        (["verify", "grok"], ["got 'grok'", "Did you mean grok-digits?"]),
        (["run", "grok-digits", "--stesp", "3"], ["--stesp", "Did you mean --steps?"]),
        (["run", "grok-digits", "--steps", "many"], ["--steps", "'many'"]),
        (["run", "grok-digits", "--threads", "2147483648"], ["expected threads from 1 to 1024, got 2147483648"]),
        (["run", "grok-digits", "--loss", "l1"], ["'l1'", "'cross-entropy', 'mse'"]),
        (
            ["run", "grok-digits", "--steps", "0", "--width", "0"],
            ["steps at least 1, got 0", "width at least 1, got 0"],
        ),
        (["run", "grok-digits", "--seeds", "one"], ["--seeds", "expected numbers like 0, 0-9 or 0,3,5, got 'one'"]),
        (["run", "grok-digits", "--seeds", "3-1"], ["got '3-1'"]),
        (["run", "grok-digits", "--seeds", "0-999999999999"], ["expected seeds below 10^9"]),
        (["run", "grok-digits", "--coefficient", "inf"], ["coefficient finite and at least 0, got inf"]),
        (["run", "grok-digits", "--data-dir", "nowhere"], ["expected a folder, got 'nowhere'"]),
        (["run", "grok-digits", "--small", "--paper"], ["expected --small or --paper, got both"]),
        (["report"], ["got none for RUN"]),
        (["report", "./nowhere"], ["run(nowhere): expected a run's folder with config.json, got none"]),
        (["report", "grok-digit"], ["got 'grok-digit'", "Did you mean grok-digits?"]),
        (["run", "xor", "--no-small"], ["--no-small", "Did you mean --small?"]),
        (["report", "grok-digits"], ["expected a finished run in runs, got none", "gnomon run grok-digits"]),
        (["list", "--rnus", "x"], ["--rnus", "Did you mean --runs?"]),
    ],
)
def test_bad_arguments_are_one_line(arguments, words, tmp_path, here):
    said = complaint(here(tmp_path, *arguments))
    for word in words:
        assert word in said


def copy_of(ran, tmp_path):
    """The run in a folder of its own, as if it had not come to its end."""
    subprocess.run(["cp", "-r", ran[0] / "runs", tmp_path], check=True)
    (run,) = (tmp_path / "runs" / "grok-digits").iterdir()
    (run / "result.json").unlink()
    return run


def test_cut_records_are_one_line(ran, tmp_path, here):
    run = copy_of(ran, tmp_path)
    path = run / "records.jsonl"
    path.write_bytes(path.read_bytes()[:-2000])
    left = path.read_bytes()
    assert "that its checkpoint stands on, got" in complaint(here(tmp_path, "run", *TINY))
    assert path.read_bytes() == left


def test_cut_records_of_a_finished_run_are_one_line(ran, tmp_path, here):
    subprocess.run(["cp", "-r", ran[0] / "runs", tmp_path], check=True)
    (run,) = (tmp_path / "runs" / "grok-digits").iterdir()
    path = run / "records.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-3]))
    for command in (["run", *TINY], ["report", str(run)]):
        assert "records.jsonl): expected what the run finished with" in complaint(here(tmp_path, *command))


def test_full_disk_at_a_checkpoint_is_one_line(tmp_path):
    """The checkpoint is the largest file here, so that it fails first."""
    said = complaint(child(on_small_disk, tmp_path, 100_000, ["run", "grok-digits", "--steps", "2"]))
    assert "checkpoint-baseline.safetensors" in said


def test_flipped_byte_is_one_line(ran, tmp_path, here):
    run = copy_of(ran, tmp_path)
    path = run / "checkpoint-GrokAlign.safetensors"
    content = bytearray(path.read_bytes())
    content[-100] ^= 4
    path.write_bytes(content)
    records = (run / "records.jsonl").read_bytes()
    said = complaint(here(tmp_path, "run", *TINY))
    assert "checkpoint-GrokAlign.safetensors): expected a whole checkpoint, got contents that do not match" in said
    assert (run / "records.jsonl").read_bytes() == records
    path.unlink()
    assert here(tmp_path, "run", *TINY).returncode == 0


def test_damaged_config_is_one_line(ran, tmp_path, here):
    run = copy_of(ran, tmp_path)
    (run / "config.json").write_text("{")
    assert "config.json): expected a JSON file" in complaint(here(tmp_path, "report", str(run)))


def test_full_disk_is_one_line_and_loses_nothing(tmp_path, here):
    """With room again the same command goes on."""
    said = complaint(child(on_small_disk, tmp_path, 20_000, ["run", *TINY]))
    assert "File too large" in said
    assert "the same command again" in said
    (run,) = (tmp_path / "runs" / "grok-digits").iterdir()
    written = (run / "records.jsonl").read_bytes()
    assert written
    done = here(tmp_path, "run", *TINY)
    assert done.returncode == 0, done.stderr
    whole = (run / "records.jsonl").read_text().splitlines()
    steps = {arm: [r["step"] for r in map(json.loads, whole) if r["arm"] == arm] for arm in ("baseline", "GrokAlign")}
    assert steps["baseline"] == steps["GrokAlign"] == sorted(set(steps["baseline"]))


def test_unreadable_folder_is_one_line(tmp_path, here):
    (tmp_path / "runs").write_text("a file, no folder")
    said = complaint(here(tmp_path, "run", *TINY))
    assert "runs" in said


def test_killed_command_goes_on(tmp_path, here):
    command = ["run", "grok-digits", "--steps", "400", "--width", "16", "--train", "50"]
    with started(in_folder, tmp_path, *command) as (process, said):
        while not any(path.stat().st_size for path in tmp_path.glob("runs/*/*/records.jsonl")):
            assert process.is_alive(), said()
            time.sleep(0.05)
        process.kill()
        process.join()
    assert process.exitcode == -9
    done = here(tmp_path, *command)
    assert done.returncode == 0, done.stderr
    assert "report.html" in done.stdout


def test_no_number_of_a_table_is_cut_off_on_a_narrow_terminal():
    numbers = [f"{place}.5e-12" for place in range(8)]
    columns, rows = ["", *["a long name"] * 8], [["the name of an arm", *numbers]]
    for width in (80, 200):
        console = Console(width=width, file=io.StringIO())
        console.print(laid_out(columns, rows, console))
        printed = console.file.getvalue()
        assert [number for number in numbers if number not in printed] == []
        assert max(map(len, printed.splitlines())) <= width


def test_a_table_too_wide_either_way_stands_in_parts_that_repeat_the_names():
    names = [f"the name of entrant {place}" for place in range(9)]
    columns, rows = (
        ["", *(f"quantity{place}" for place in range(10))],
        [[name, *[f"{name[-1]}5%"] * 10] for name in names],
    )
    console = Console(width=80, file=io.StringIO())
    console.print(laid_out(columns, rows, console))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    words = [line.split() for line in lines if "quantity" in line]
    assert [word for line in words for word in line] == columns[1:]
    for name in names:
        cells = [line.split(name)[1].split() for line in lines if name in line]
        assert list(map(len, cells)) == list(map(len, words))


def test_a_table_of_long_cells_stands_in_parts_rather_than_in_wrapped_words():
    cell, name = "1.25 (0.97 to 1.34) / 0.97, 9 of 10", "the name of an entrant, on top"
    columns, rows = ["", "one, steps / time", "another, steps / time"], [[name, cell, cell]] * 3
    for width, wanted in ((110, 3), (80, 6), (60, 0)):
        console = Console(width=width, file=io.StringIO())
        console.print(laid_out(columns, rows, console))
        assert sum(cell in line for line in console.file.getvalue().splitlines()) == wanted


def test_a_table_too_wide_for_the_terminal_stands_on_its_side():
    columns = ["", *(f"quantity{place}" for place in range(10))]
    rows = [["baseline", *["never"] * 10], ["GrokAlign", *(f"{place},000" for place in range(10))]]
    console = Console(width=80, file=io.StringIO())
    console.print(laid_out(columns, rows, console))
    words = [line.split() for line in console.file.getvalue().splitlines() if line.strip()]
    assert words[0] == ["baseline", "GrokAlign"]
    assert words[2:] == [[f"quantity{place}", "never", f"{place},000"] for place in range(10)]
