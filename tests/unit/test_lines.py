"""A line is appended whole or not at all."""

import io
import json
import resource
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from gnomon import History, Reading
from gnomon._lines import append_line
from gnomon.errors import DataError


@contextmanager
def largest_file(size):
    """As on a full disk: what reaches beyond is cut off, and the next write fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class Halves(io.FileIO):
    """A file that takes half of what it is given at a time."""

    def write(self, content):
        return super().write(bytes(content)[: max(1, len(content) // 2)])


def test_a_line_is_written_to_its_end_however_short_the_writes(tmp_path, monkeypatch):
    path = tmp_path / "lines"
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", lambda self, mode, buffering: Halves(self, mode.replace("b", "")))
        append_line(path, b"a" * 100)
        append_line(path, b"b" * 100)
    assert path.read_bytes() == b"a" * 100 + b"\n" + b"b" * 100 + b"\n"


def test_a_line_without_room_leaves_nothing(tmp_path):
    path = tmp_path / "lines"
    append_line(path, b"a" * 99)
    with largest_file(120), pytest.raises(OSError, match="File too large"):
        append_line(path, b"b" * 50)
    assert path.read_bytes() == b"a" * 99 + b"\n"
    append_line(path, b"c")
    assert path.read_bytes() == b"a" * 99 + b"\nc\n"


def test_a_line_does_not_land_on_a_torn_one(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b'{"a": 1}\n{"a"')
    append_line(path, b'{"a": 2}')
    assert path.read_bytes() == b'{"a": 1}\n{"a"\n{"a": 2}\n'


def test_a_history_on_a_full_disk_is_whole_lines_and_an_error(tmp_path):
    path = tmp_path / "records.jsonl"
    sink = History(path).append
    sink(Reading(0, {"loss": torch.tensor(0.5)}, {}))
    with (
        largest_file(path.stat().st_size + 10),
        pytest.raises(DataError, match=r"History\(path\): expected a file with room for a line, got .*too large"),
    ):
        sink(Reading(1, {"loss": torch.tensor(0.25)}, {}))
    sink(Reading(2, {"loss": torch.tensor(0.125)}, {}))
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [0, 2]
