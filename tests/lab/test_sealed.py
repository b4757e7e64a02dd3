"""What a run stands on: altered, copied, missing or hostile files are named, and stop no other run."""

import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from gnomon.errors import DataError
from gnomon_lab.papers.own.grok_digits import EXPERIMENT, Config
from gnomon_lab.runs import all_runs, find_run, load_run, open_run, read_records
from gnomon_lab.runs.files import read_json_object, replace_file, replace_text, write_json
from tests.lab.test_runs import StoppedError, count
from tests.unit.test_lines import largest_file

CONFIG = Config(steps=4000)


class Counting:
    """An experiment's module that counts."""

    @staticmethod
    def run(config, run):
        for step in run.steps("a", 3):
            run.record(step)

    @staticmethod
    def table(records):
        return ("", "records"), [("a", str(len(records)))]

    @staticmethod
    def summary(records):
        return f"{len(records)} records."


def begun(root, seed=0):
    return open_run(root, "grok-digits", CONFIG, seed)


def finished(root, seed=0):
    found = begun(root, seed)
    replace(EXPERIMENT, run=Counting.run, table=Counting.table, summary=Counting.summary).finish(
        CONFIG, found, lambda part, done, total: None
    )
    return load_run(found.folder)


def stopped(folder):
    """The records of a run whose arm a is finished and whose arm b was stopped at step 7, and those of a whole one."""
    (folder / "whole").mkdir(parents=True)
    (folder / "broken").mkdir()
    whole = count(folder / "whole")
    with pytest.raises(StoppedError):
        count(folder / "broken", stop_at=("b", 7))
    return folder / "broken", whole


def altered(path, old, new):
    """The file with one text in the place of another."""
    content = path.read_text()
    assert old in content
    path.write_text(content.replace(old, new, 1))


@pytest.mark.parametrize(("arm", "record"), [("a", '{"arm":"a","step":4,'), ("b", '{"arm":"b","step":4,')])
def test_a_record_that_was_altered_is_refused_and_its_arm_can_be_trained_again(tmp_path, arm, record):
    folder, whole = stopped(tmp_path)
    path = folder / "records.jsonl"
    altered(path, record + '"value":4.0', record + '"value":0.999')
    before, checkpoint = path.read_bytes(), folder / f"checkpoint-{arm}.safetensors"
    with pytest.raises(
        DataError, match=rf"records of {arm} that its checkpoint stands on, got others: .* or delete {checkpoint} to"
    ):
        count(folder)
    assert path.read_bytes() == before
    checkpoint.unlink()
    assert sorted(count(folder), key=lambda record: record["arm"]) == whole


def test_records_that_a_power_failure_took_cost_one_arm(tmp_path):
    folder, whole = stopped(tmp_path)
    path, checkpoint = folder / "records.jsonl", folder / "checkpoint-b.safetensors"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))
    with pytest.raises(DataError, match=rf"the 7 records of b that its .*, got 6\. .* or delete {checkpoint} to train"):
        count(folder)
    checkpoint.unlink()
    assert count(folder) == whole


@pytest.mark.parametrize(
    "tail",
    [
        b"\0" * 80,
        b"\0" * 80 + b'\n{"arm":"b","step":9}\n',
        b"[" * 200_000 + b"\n",
        b'{"arm":"b","step":1e400}\n{"arm":"strange","step":3}\n{"arm":["a"],"step":3}\n',
    ],
)
def test_what_no_checkpoint_stands_on_is_made_again(tmp_path, tail):
    folder, whole = stopped(tmp_path)
    with (folder / "records.jsonl").open("ab") as file:
        file.write(tail)
    assert count(folder) == whole


def test_a_record_without_room_leaves_the_file_whole_and_the_run_goes_on(tmp_path):
    folder, whole = stopped(tmp_path)
    path = folder / "records.jsonl"
    with (
        largest_file(path.stat().st_size + 30),
        pytest.raises(
            DataError, match=r"record\(.*expected room for a line of \d+ bytes, got .* the same command again"
        ),
    ):
        count(folder, checkpoint_seconds=60.0)
    assert path.read_bytes().endswith(b"\n")
    read_records(path)
    assert count(folder) == whole


def test_records_are_on_the_disk_before_the_checkpoint_that_stands_on_them(tmp_path, monkeypatch):
    done = []
    fsync, replace = os.fsync, Path.replace

    def synced(file):
        done.append(("sync", Path(f"/proc/self/fd/{file}").resolve().name))
        fsync(file)

    def renamed(self, target):
        done.append(("rename", target.name))
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    (tmp_path / "run").mkdir()
    count(tmp_path / "run", steps=0, arms=("a",))
    checkpoint = "checkpoint-a.safetensors"
    assert done == [("sync", "records.jsonl"), ("sync", f".{checkpoint}.part"), ("rename", checkpoint), ("sync", "run")]


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("config.json", '"steps": 4000', '"steps": 40'),
        ("config.json", '"seed": 0', '"seed": 1'),
        ("config.json", '"python"', '"snake"'),
        ("result.json", '"records"', '"Records"'),
        ("records.jsonl", '"step":2', '"step":5'),
    ],
)
def test_a_finished_run_of_which_a_file_was_altered_is_refused(tmp_path, name, old, new):
    found = finished(tmp_path)
    altered(found.folder / name, old, new)
    with pytest.raises(DataError, match=rf"run\({found.folder / name}\): expected .*altered"):
        load_run(found.folder)
    finished(tmp_path, seed=1)
    runs, (sentence,) = all_runs(tmp_path)
    assert [run.seed for run in runs] == [1]
    assert str(found.folder / name) in sentence


def test_records_that_are_altered_while_a_run_goes_on_are_not_sealed(tmp_path):
    def run(config, run):
        count(run.folder)
        altered(run.records_path, '{"arm":"a","step":4,"value":4.0', '{"arm":"a","step":4,"value":9.0')

    found = begun(tmp_path)
    altering = replace(EXPERIMENT, run=run, table=Counting.table, summary=Counting.summary)
    with pytest.raises(DataError, match=r"expected the \d+ records of a that its .*, got others: .* to train this"):
        altering.finish(CONFIG, found, lambda part, done, total: None)
    assert not found.finished


def test_an_unfinished_run_whose_sealed_records_were_altered_is_not_judged(tmp_path):
    found = begun(tmp_path)
    with pytest.raises(StoppedError):
        count(found.folder, stop_at=("b", 7))
    whole = found.records()
    with (found.folder / "records.jsonl").open("a") as records:
        records.write('{"arm":"b","step":100}\n')
    assert found.records()[:-1] == whole, "what was read since the checkpoint is no part of it"
    altered(found.folder / "records.jsonl", '{"arm":"b","step":4,', '{"arm":"b","step":5,')
    with pytest.raises(DataError, match=r"expected the \d+ records of b .*, got others: the file was altered"):
        found.records()


def test_all_folders_that_were_made_for_a_run_are_on_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("gnomon_lab.runs.find.sync", synced.append)
    begun(tmp_path / "deep" / "runs")
    assert {tmp_path, tmp_path / "deep", tmp_path / "deep/runs", tmp_path / "deep/runs/grok-digits"} <= {*synced}


def test_a_begun_run_whose_configuration_was_altered_is_refused(tmp_path):
    found = begun(tmp_path)
    altered(found.folder / "config.json", '"steps": 4000', '"steps": 40')
    with pytest.raises(
        DataError, match=r"config\.json\): expected the configuration and seed that grok-digits/\w+-seed0 .* delete the"
    ):
        begun(tmp_path)


def test_a_run_without_seals_is_refused(tmp_path):
    found = finished(tmp_path)
    write_json(found.folder / "result.json", {"columns": [], "rows": []})
    with pytest.raises(DataError, match=r"result\.json\): expected the result that the run finished with, got another"):
        load_run(found.folder)
    (found.folder / "result.json").unlink()
    assert finished(tmp_path).records() == found.records()


@pytest.mark.parametrize("place", ["grok-digits/copy", "grok-digits/{}-seed1", "rank/{}-seed0"])
def test_a_copied_folder_is_no_second_seed(tmp_path, place):
    found = finished(tmp_path)
    copy = tmp_path / place.format(found.digest)
    shutil.copytree(found.folder, copy)
    runs, (said,) = all_runs(tmp_path)
    assert runs == [found]
    assert f"{copy / 'config.json'}): expected the configuration and seed that" in said
    altered(copy / "config.json", '"seed": 0', '"seed": 1')
    assert all_runs(tmp_path)[0] == [found]


@pytest.mark.parametrize("experiment", [None, "grok-digits"])
def test_what_may_not_be_entered_is_named(tmp_path, monkeypatch, experiment):
    """A folder of somebody else; it was passed over, so that `gnomon verify` judged the other seeds alone."""
    found = finished(tmp_path)
    theirs = found.folder.with_name(f"{found.digest}-seed1")
    theirs.mkdir()
    assert all_runs(tmp_path, experiment) == ([found], [])
    closed = [theirs]

    def unless_closed(method):
        def checked(path, **options):
            if {path, path.parent} & {*closed}:
                raise PermissionError(13, "Permission denied", str(path))
            return method(path, **options)

        return checked

    for name in ("stat", "iterdir"):
        monkeypatch.setattr(Path, name, unless_closed(getattr(Path, name)))
    denied = "[Errno 13] Permission denied: '{}'"
    assert all_runs(tmp_path, experiment) == ([found], [denied.format(theirs / "config.json")])
    closed[:] = [theirs.parent]
    assert all_runs(tmp_path, experiment) == ([], [denied.format(theirs.parent)])


def test_a_run_may_be_reached_through_links(tmp_path):
    found = finished(tmp_path / "runs")
    (tmp_path / "latest").symlink_to(found.folder)
    (tmp_path / "digits").symlink_to(found.folder.parent)
    assert load_run(tmp_path / "latest") == load_run(tmp_path / "latest" / "." / "") == found
    assert load_run(tmp_path / "digits" / found.folder.name) == found
    for place in (tmp_path / "elsewhere", found.folder.with_name("beside")):
        found.folder.symlink_to(found.folder.resolve().rename(place))
        assert load_run(found.folder) == found
        assert all_runs(tmp_path / "runs") == ([found], [])
        found.folder.unlink()
        place.rename(found.folder)


def test_a_link_to_a_run_is_no_second_run_and_no_other_seed(tmp_path):
    found = finished(tmp_path)
    (found.folder.parent / "latest").symlink_to(found.folder)
    (tmp_path / "latest").symlink_to(found.folder.parent)
    (found.folder.parent / f"{found.digest}-seed1").symlink_to(found.folder.name)
    assert all_runs(tmp_path) == ([found], [])
    for seek in (open_run, find_run):
        with pytest.raises(DataError, match=rf"expected the configuration and seed that \S+-seed1 .* of {found.name}"):
            seek(tmp_path, "grok-digits", CONFIG, 1)


def test_what_was_altered_is_refused_through_a_link_too(tmp_path):
    found = finished(tmp_path / "runs")
    (tmp_path / "latest").symlink_to(found.folder)
    altered(found.folder / "records.jsonl", '"step":2', '"step":5')
    with pytest.raises(DataError, match=r"records\.jsonl\): expected what the run finished with, got another file"):
        load_run(tmp_path / "latest")
    altered(found.folder / "config.json", '"seed": 0', '"seed": 1')
    with pytest.raises(DataError, match=r"config\.json\): expected the configuration and seed that \S+ is named"):
        load_run(tmp_path / "latest")


CONFIGS = {
    "bracket": "{",
    "array": "[]",
    "null": "null",
    "deep": "[" * 200_000,
    "deep object": '{"a":' * 60 + "1" + "}" * 60,
    "long number": '{"seed": ' + "1" * 5000 + "}",
    "no text": b"\xff\xfe{",
    "nothing": "",
}
FIELDS = {
    "experiment": [None, "", "../rank", "\x1b[31m", "[/b]", 3],
    "config": [None, [], "small"],
    "seed": [10**22, -1, True, 0.0, "0", None],
    "made_with": [None, {}, [None], 3],
    "started": [None, 3],
}


@pytest.mark.parametrize("content", CONFIGS.values(), ids=CONFIGS.keys())
@pytest.mark.parametrize("name", ["config.json", "result.json"])
def test_one_hostile_file_is_a_sentence_and_stops_no_other_run(tmp_path, name, content):
    healthy, hurt = finished(tmp_path, 0), finished(tmp_path, 1)
    (hurt.folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    advice = {
        "config.json": "Restore it, or delete the folder to run again.",
        "result.json": "Restore it, or delete it: the same `gnomon run` then finishes the run again.",
    }
    with pytest.raises(DataError, match=rf"{name}\): expected a JSON .*\. {re.escape(advice[name])}$"):
        load_run(hurt.folder)
    runs, (said,) = all_runs(tmp_path)
    assert runs == [healthy]
    assert str(hurt.folder / name) in said


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in FIELDS.items() for value in values])
def test_a_field_of_config_json_that_is_not_sound_is_named(tmp_path, name, value):
    folder = begun(tmp_path).folder
    write_json(folder / "config.json", read_json_object(folder / "config.json") | {name: value})
    with pytest.raises(DataError, match=rf"expected experiment, .* in config\.json, got no sound {name}\."):
        load_run(folder)


@pytest.mark.parametrize("name", ["records.jsonl", "result.json", "checkpoint-a.safetensors"])
def test_what_is_no_file_is_not_opened(tmp_path, name):
    """A pipe would be waited for."""
    folder = begun(tmp_path).folder
    os.mkfifo(folder / name)
    with pytest.raises(
        Exception, match=rf"{name}\): expected (a file|a whole checkpoint), got (something else|no file)"
    ):
        finished(tmp_path)


def test_a_pipe_in_the_place_of_the_lock_is_not_waited_for(tmp_path):
    os.mkfifo(begun(tmp_path).folder / ".lock")
    assert finished(tmp_path).finished


def test_writers_of_one_file_do_not_meet(tmp_path):
    def write(number):
        for _ in range(20):
            replace_text(tmp_path / "file", f"{number}" * 1000)

    with ThreadPoolExecutor(4) as writers:
        list(writers.map(write, range(4)))
    assert len(set((tmp_path / "file").read_text())) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_a_killed_writer_left_is_written_over(tmp_path):
    (tmp_path / ".file.part").write_text("half of a long text")
    replace_file(tmp_path / "file", lambda beside: beside.write_text("whole"))
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "whole")]
