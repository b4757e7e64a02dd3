"""A run goes on with the images and the tables that it was begun with, or not at all."""

import hashlib
import json
from dataclasses import replace

import pytest

from gnomon.errors import DataError
from gnomon_lab.cli.execute import execute, execute_many
from gnomon_lab.papers.grokalign.rank import EXPERIMENT
from gnomon_lab.papers.own import verdict, who_knows_first
from gnomon_lab.papers.own._watched import CORPUS
from gnomon_lab.runs import find_run, load_run
from gnomon_lab.runs.data import load_images
from gnomon_lab.runs.files import write_json
from tests.unit.test_data import random_images, write

CONFIG = replace(EXPERIMENT.small, steps=7)
OTHERS = (
    r"expected the samples of mnist \(train, the first 3\) that the run loaded, got others\. Name their folder by -"
)


class StoppedError(Exception):
    """Kills the run."""


@pytest.fixture
def places(tmp_path):
    """Two folders of data sets, which differ in one label."""
    for place, labels in (("one", [0, 1, 2, 3]), ("two", [0, 1, 1, 3])):
        write(tmp_path / place / "mnist" / "train.parquet", random_images(4), labels)
    return tmp_path / "one", tmp_path / "two"


def loading(stop_at=None, limit=3):
    """An experiment that loads images and counts; killed at a step."""

    def run(config, run):
        load_images("mnist", "train", data_dir=run.data_dir, limit=limit)
        for step in run.steps("a", 3):
            if step == stop_at:
                raise StoppedError
            run.record(step)

    table = ("", "records"), [("a", "4")]
    return replace(EXPERIMENT, run=run, table=lambda _: table, summary=lambda _: "", figures=lambda _: [])


def noted(root):
    return json.loads((find_run(root, "rank", CONFIG, 0).folder / "config.json").read_text())["data"]


@pytest.mark.bad_input
def test_a_run_is_not_resumed_with_other_data(tmp_path, places, monkeypatch):
    one, two = places
    with pytest.raises(StoppedError):
        execute(loading(stop_at=2), CONFIG, 0, tmp_path, one)
    (entry,) = noted(tmp_path)
    assert entry.keys() == {"name", "split", "limit", "sha256"}
    with pytest.raises(DataError, match=OTHERS):
        execute(loading(), CONFIG, 0, tmp_path, two)
    monkeypatch.setenv("GNOMON_DATA", str(two))
    with pytest.raises(DataError, match=OTHERS):
        execute(loading(), CONFIG, 0, tmp_path, None)
    monkeypatch.setenv("GNOMON_DATA", str(one))
    assert execute(loading(), CONFIG, 0, tmp_path, None) == 0
    assert noted(tmp_path) == [entry], "noted once"
    assert load_run(find_run(tmp_path, "rank", CONFIG, 0).folder).finished


@pytest.mark.bad_input
def test_a_finished_run_is_not_shown_for_other_data(tmp_path, places, capsys):
    one, two = places
    execute(loading(), CONFIG, 0, tmp_path, one)
    with pytest.raises(DataError, match=OTHERS):
        execute(loading(), CONFIG, 0, tmp_path, two)
    with pytest.raises(DataError, match=OTHERS):
        execute_many(loading(), CONFIG, [0], tmp_path, two, None, 1)
    capsys.readouterr()
    for place in (one, None):  # without a folder, the images need not be anywhere
        execute(loading(), CONFIG, 0, tmp_path, place)
        assert "finished before" in capsys.readouterr().out


def test_runs_without_hashes_are_resumed_and_shown(tmp_path, places):
    """As those of versions that noted none."""
    one, two = places
    with pytest.raises(StoppedError):
        execute(loading(stop_at=2), CONFIG, 0, tmp_path, one)
    path = find_run(tmp_path, "rank", CONFIG, 0).folder / "config.json"
    older = json.loads(path.read_text())
    older.pop("data")
    write_json(path, older)
    assert execute(loading(), CONFIG, 0, tmp_path, two) == 0
    assert len(noted(tmp_path)) == 1


def test_every_part_that_is_loaded_is_noted(tmp_path, places):
    with pytest.raises(StoppedError):
        execute(loading(stop_at=2), CONFIG, 0, tmp_path, places[0])
    execute(loading(limit=2), CONFIG, 0, tmp_path, places[1])  # in which the first two are the same
    assert [entry["limit"] for entry in noted(tmp_path)] == [3, 2]


@pytest.mark.bad_input
@pytest.mark.parametrize("value", [3, [3], [{}], [{"name": [], "split": "train", "limit": 3, "sha256": ""}]])
def test_hashes_that_are_not_sound_are_named(tmp_path, places, value):
    with pytest.raises(StoppedError):
        execute(loading(stop_at=2), CONFIG, 0, tmp_path, places[0])
    path = find_run(tmp_path, "rank", CONFIG, 0).folder / "config.json"
    write_json(path, json.loads(path.read_text()) | {"data": value})
    with pytest.raises(DataError, match=r"expected name, split, limit and sha256 of each entry of data"):
        execute(loading(), CONFIG, 0, tmp_path, places[0])


def reading(real, stop_at=None):
    """An experiment that reads a table, and counts instead of what it does; killed at a step."""

    def run(config, run):
        for step in run.steps("a", 3):
            if step == stop_at:
                raise StoppedError
            run.record(step)

    return replace(loading(), run=run, entry=real.entry, small=real.small, tables=real.tables, claims=lambda _: [])


ON_THE_CORPUS = pytest.mark.parametrize("real", [who_knows_first.EXPERIMENT, verdict.EXPERIMENT], ids=lambda e: e.name)


@pytest.mark.bad_input
@ON_THE_CORPUS
def test_a_run_on_a_table_goes_on_with_no_other(tmp_path, real):
    table, whole = tmp_path / "mine.parquet", reading(real)
    table.write_bytes(b"one")
    config = replace(real.small, corpus=str(table))
    with pytest.raises(StoppedError):
        execute(reading(real, stop_at=2), config, 0, tmp_path, None)
    folder = find_run(tmp_path, real.name, config, 0).folder
    (entry,) = json.loads((folder / "config.json").read_text())["data"]
    assert (entry["name"], entry["sha256"]) == (str(table), hashlib.sha256(b"one").hexdigest())
    others = rf"run\({folder}\): expected the table {table} that the run read, got another\. Restore it, or choose"
    table.write_bytes(b"two")
    with pytest.raises(DataError, match=others):
        execute(whole, config, 0, tmp_path, None)
    table.write_bytes(b"one")
    assert execute(whole, config, 0, tmp_path, None) == 0
    table.write_bytes(b"two")
    with pytest.raises(DataError, match=others):
        execute(whole, config, 0, tmp_path, None)
    with pytest.raises(DataError, match=others):
        execute_many(whole, config, [0], tmp_path, None, None, 1)
    table.unlink()  # nothing contradicts the run
    assert execute(whole, config, 0, tmp_path, None) == 0


@ON_THE_CORPUS
def test_the_table_that_comes_with_gnomon_is_noted_too(tmp_path, real):
    execute(reading(real), real.small, 0, tmp_path, None)
    folder = find_run(tmp_path, real.name, real.small, 0).folder
    (entry,) = json.loads((folder / "config.json").read_text())["data"]
    assert (entry["name"], entry["sha256"]) == ("corpus.parquet", hashlib.sha256(CORPUS.read_bytes()).hexdigest())
