"""The runs in docs/records: whole, known to this version, with the verdicts that docs/results.md states; packing."""

import importlib.util
import shutil
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from gnomon_lab.cli.state import state
from gnomon_lab.papers import experiment
from gnomon_lab.runs import Run, all_runs, open_run
from tests.lab.resuming import StoppedError

ROOT = Path(__file__).parent.parent.parent
ARCHIVES = sorted((ROOT / "docs" / "records").glob("*.tar.xz"))
ALSO = {"xor": ["1e0f1e7a"]}
"""Runs of a setting that no claim is about, by their digests."""
RESULTS = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").splitlines()


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def records():
    return tool("records")


def unpacked(archive, folder):
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return all_runs(folder)


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda path: path.name)
def test_what_is_kept_can_be_read_and_judged(archive, tmp_path):
    runs, damaged = unpacked(archive, tmp_path)
    assert damaged == []
    by_setting = {}
    for found in runs:
        assert found.experiment == archive.name.removesuffix(".tar.xz")
        if found.finished:
            by_setting.setdefault(found.digest, []).append(found.records())
        else:
            assert found.reached()
    shown = experiment(runs[0].experiment)
    assert [found.digest for found in runs if not found.has_one_of(shown.settings)] == ALSO.get(shown.name, [])
    kept = {f"{shown.name}/{found.digest}-{seed}" for found in runs for seed in (f"seed{found.seed}", "seeds")}
    figures, by_folder = tool("figures"), {"/".join(found.folder.parts[-2:]): found for found in runs}
    figures_in = cache(lambda folder: list(figures.figures_of(by_folder, folder)))
    for name, place in figures.FIGURES.items():
        folder, _, wanted = place.rpartition("/")
        if folder.startswith(f"{shown.name}/"):
            assert folder in kept
            (figure,) = (one for one in figures_in(folder) if one.name == wanted)
            drawn = (ROOT / "docs" / "assets" / f"{name}.svg").read_text(encoding="utf-8")
            assert [said for said in (figure.title, figure.caption) if escape(said) not in drawn] == [], name
    for seeds in by_setting.values():
        assert {len(row) for row in shown.table(seeds[0])[1]} == {len(shown.table(seeds[0])[0])}
        claims = shown.claims(seeds)
        assert all(claim.measured for claim in claims)
        verdict = f"{sum(claim.holds for claim in claims)} of {len(claims)}" if claims else "no claim"
        assert any(verdict in row for row in RESULTS if row.startswith(f"| [{shown.name}]")), verdict


def test_figures_are_drawn_again_from_what_is_kept(tmp_path, monkeypatch):
    figures = tool("figures")
    assert [name for name in figures.FIGURES if not (ROOT / "docs" / "assets" / f"{name}.svg").exists()] == []
    monkeypatch.setattr(figures, "DOCS", tmp_path)
    (tmp_path / "records").mkdir()
    (tmp_path / "assets" / "experiments").mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "records" / "ntk-regime.tar.xz", tmp_path / "records")
    figures.redraw(["experiments/ntk-regime"])
    assert "How the inner product moves" in (tmp_path / "assets" / "experiments" / "ntk-regime.svg").read_text("utf-8")


@dataclass(frozen=True)
class Config:
    steps: int = 9


def count(run, made, stop=None):
    for step in run.steps("counting", Config().steps):
        made.append(step)
        run.record(step, square=step**2)
        if step == stop:
            raise StoppedError


def test_a_run_goes_on_from_an_archive_and_takes_its_own_place_there(tmp_path, records, capsys):
    first, second, archive = tmp_path / "first", tmp_path / "second", tmp_path / "counting.tar.xz"
    found = open_run(first, "counting", Config(), 3)
    with pytest.raises(StoppedError):
        count(Run(found.folder, 3, checkpoint_seconds=0.0), [], stop=4)
    assert records.pack(archive, [found]) == 1
    ((gone_on,), damaged) = unpacked(archive, second)
    assert damaged == []
    assert state(gone_on) == "not finished: counting at step 3"
    made = []
    count(Run(gone_on.folder, 3), made)
    gone_on.finish()
    assert made == [4, 5, 6, 7, 8, 9]
    assert [record["square"] for record in gone_on.records()] == [step**2 for step in range(10)]

    assert records.pack(archive, [gone_on]) == 1
    ((whole,), _) = unpacked(archive, tmp_path / "third")
    assert whole.records() == gone_on.records()
    assert sorted(path.name for path in whole.folder.iterdir()) == ["config.json", "records.jsonl", "result.json"]
    other = open_run(first, "counting", Config(), 4)
    count(Run(other.folder, 4), [])
    other.finish()
    packed = archive.read_bytes()
    assert records.pack(archive, [other]) == 2
    assert archive.read_bytes() != packed
    assert records.pack(archive, [gone_on, other]) == 2
    assert {run.seed for run in unpacked(archive, tmp_path / "fourth")[0]} == {3, 4}
    assert found.folder.name == gone_on.folder.name
    assert records.pack(archive, [found]) == 2
    assert "is not finished, and the one in counting.tar.xz is" in capsys.readouterr().out
    assert all(run.finished for run in unpacked(archive, tmp_path / "fifth")[0])


def test_many_finished_parts_are_counted(tmp_path):
    found = open_run(tmp_path, "counting", Config(), 0)
    run = Run(found.folder, 0, checkpoint_seconds=0.0)
    said = []
    for part in range(5):
        for step in run.steps(f"part {part}", 1):
            run.record(step)
        said.append(state(found))
    assert said[3:] == [
        "not finished: part 0 finished, part 1 finished, part 2 finished, part 3 finished",
        "not finished: 5 parts finished",
    ]
