"""What is printed stands as it is: no markup, no escapes, on any terminal and on none."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.table import Table

from gnomon_lab.cli import main
from gnomon_lab.cli.progress import Progress
from gnomon_lab.cli.say import plain, say
from gnomon_lab.cli.tables import laid_out
from gnomon_lab.cli.terminal import Terminal

HOSTILE = ["[red]x", "[/b]", "[bold", "a\x1b[31mb", "a\rb", "a\nb", "a\x9bb", "\u202eb", ":smile:", "a\udcffb", "a  b"]


def printed(**options):
    return Terminal(file=io.StringIO(), width=100, **options)


@pytest.fixture
def gnomon(monkeypatch, tmp_path):
    """Calls `gnomon`, printing to whatever stands as stdout; the exit code."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["gnomon", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code

    return call


@pytest.mark.parametrize("name", HOSTILE)
def test_names_stand_as_they_are(name, gnomon, capsys):
    written = name if name.isprintable() else ascii(name)[1:-1]
    assert plain(name) == written
    assert gnomon("list", "--runs", name) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"runs in {written}: there is no such folder"
    assert gnomon("report", name) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert said.strip().isprintable()


@pytest.mark.parametrize("name", [name for name in HOSTILE if "\n" not in name])
def test_tables_bars_and_captions_hold_names_as_they_are(name):
    terminal = printed()
    say(name, terminal, style="red")
    Progress(terminal, 0).show(name, 1, 2)
    terminal.print(laid_out(["", name], [[name, "1"]], terminal))
    terminal.print(Table(name, caption=name))
    said = terminal.file.getvalue()
    assert "\x1b" not in said
    assert said.count(plain(name)) == 6
    assert said.replace("\n", "").isprintable()


def test_letters_that_the_terminal_lacks_are_written_out(gnomon, monkeypatch):
    for command in (["--help"], ["measure", "--help"], ["list", "--runs", "añb"]):
        out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        monkeypatch.setattr(sys, "stdout", out)
        assert gnomon(*command) == 0
        said = out.buffer.getvalue().decode("ascii")
        assert "runs in a\\xf1b" in said or command[0] != "list"
    err = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    monkeypatch.setattr(sys, "stderr", err)
    assert gnomon("report", "añb") == 2
    err.flush()
    assert b"expected an experiment, got 'a\\xf1b'" in err.buffer.getvalue()


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["list", "--rnus", "x"],
            "got Unrecognized options: --rnus, x. Did you mean --runs? See `gnomon list",
        ),
        (["list", "--runs"], "gnomon list: expected valid arguments, got Missing value for argument '--runs"),
        (
            ["measure", "--moel", "x"],
            "gnomon measure: expected valid arguments, got none for --data.",
        ),
        (["measure", "a", "--model", "b", "--data", "c", "--seed", "--"], "gnomon measure: "),
        (
            ["measure", "a", "--model", "b", "--data", "c", "--seed", "x"],
            "expected valid arguments, got Error parsing --seed",
        ),
        (["measure", "a", "--model", "b", "--data", "c", "--dtype", "x"], "invalid choice 'x'"),
        (
            ["run", "xor", "--seeds", "0", "-" * 30],
            "gnomon run xor: expected valid arguments, got Unrecognized",
        ),
    ],
)
def test_wrong_arguments_are_one_line_on_any_terminal(arguments, words, encoding, gnomon, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert gnomon(*arguments) == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1
    assert "--" * 40 not in said


@pytest.mark.parametrize("command", [["--help"], ["--version"], ["list"], ["measure", "--help"]])
def test_a_reader_that_went_away_is_no_error(command, gnomon, monkeypatch, capsys):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        assert gnomon(*command) == 1
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("command", [["--help"], ["list"]])
def test_a_full_disk_behind_stdout_is_one_line(command, gnomon, monkeypatch, capsys):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert gnomon(*command) == 2
    said = capsys.readouterr().err
    assert "got [Errno 28] No space left on device" in said
    assert len(said.splitlines()) == 1


def test_without_stdout_nothing_is_printed(gnomon, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", None)
    assert gnomon("list") == 0
    monkeypatch.setattr(sys, "stdout", None)
    assert gnomon("list", "--runs") == 2
    assert "Missing value for argument '--runs'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ImportError("libtorch_cpu.so: failed to map segment"), "got libtorch_cpu.so: failed to map segment. Install"),
        (MemoryError(), "expected memory for what it computes, got none left"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "expected memory for what it computes, got none"),
        (SystemError("error return without exception set"), "expected memory for what it computes, got none left"),
    ],
)
def test_too_little_memory_to_import_is_one_line(error, words, gnomon, monkeypatch, capsys):
    def failing(name):
        raise error

    monkeypatch.setattr("gnomon_lab.cli.importlib.import_module", failing)
    assert gnomon("list") == 2
    said = capsys.readouterr().err
    assert words in said
    assert len(said.splitlines()) == 1


def test_other_errors_keep_their_traceback(gnomon, monkeypatch):
    def failing(name):
        raise RuntimeError("a fault of gnomon's")

    monkeypatch.setattr("gnomon_lab.cli.importlib.import_module", failing)
    with pytest.raises(RuntimeError, match="a fault of gnomon's"):
        gnomon("list")


def test_networks_larger_than_the_memory_are_one_line(gnomon, capsys):
    assert gnomon("run", "grok-digits", "--width", str(10**12)) == 2
    assert "expected memory for what it computes, got none left" in capsys.readouterr().err.splitlines()[-1]


STOPPED = """
import atexit, time
from gnomon_lab import cli

def called(command, arguments):
    raise KeyboardInterrupt

atexit.register(time.sleep, 60)
cli.called = called
cli.main()
"""


def test_a_second_interrupt_ends_at_once_and_says_nothing_more():
    with subprocess.Popen([sys.executable, "-c", STOPPED], stderr=subprocess.PIPE, text=True) as process:
        assert [process.stderr.readline() for _ in range(2)] == ["\n", "gnomon: stopped.\n"]
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == ""
    assert process.returncode == 130
