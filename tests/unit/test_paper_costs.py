"""What `benchmarks/paper_costs.py` says of a whole from a slice, and that the page says what it measured."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def costs():
    spec = importlib.util.spec_from_file_location("paper_costs", ROOT / "benchmarks" / "paper_costs.py")
    module = sys.modules["paper_costs"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["paper_costs"]


@pytest.fixture
def clock(costs, monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(costs.time, "process_time", lambda: seconds[0])
    monkeypatch.setattr(costs, "ARM", 200.0)
    return seconds


def test_a_slice_says_what_the_whole_takes(costs, clock, tmp_path):
    """A step takes one second, each hundredth is read in ten more, and so are the first and the last."""
    run, total = costs.Slice(tmp_path, 0, None), 10_000

    def due(step):
        return step % 100 == 0

    for step in run.steps("long", total):
        clock[0] += (step > 0) + 10 * (due(step) or step == total)
        run.record(step, loss=0.5)
    assert clock[0] < 250
    arm = run.arms["long"]
    assert (arm.due, arm.training, arm.reading) == (99, total, 10 * 101)
    assert run.records()[0] == {"arm": "long", "step": 0, "seconds": {"trained": 0.0, "read": 0.0}, "loss": 0.5}
    assert run.records()[-1]["step"] == total


def test_a_short_arm_is_made_whole(costs, clock, tmp_path):
    run = costs.Slice(tmp_path, 0, None)
    due = {3: "a reading"}
    made = [step for step in run.steps("short", 5) if clock.__setitem__(0, clock[0] + 1 + (step in due)) is None]
    assert sorted(made) == [0, 1, 2, 3, 4, 5]
    assert sum((run.arms["short"].training, run.arms["short"].reading)) == 5 + 1 + 1
    assert list(run.steps("nothing to train", 0)) == [0]
    run.drop_state()
    assert not list(tmp_path.iterdir())


def test_an_experiment_that_has_had_its_time_is_ended(costs, clock, tmp_path, monkeypatch):
    monkeypatch.setattr(costs, "LIMIT", 30.0)
    steps = costs.Slice(tmp_path, 0, None).steps("long", 100)
    next(steps)
    clock[0] += 20
    next(steps)
    clock[0] += 20
    with pytest.raises(costs.OverError):
        next(steps)


def test_the_page_says_what_was_measured(costs):
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    found = costs.known()
    assert {point.title for point in costs.POINTS} == found.keys()
    rows = [[cell.strip() for cell in line.split("|")] for line in page.splitlines() if line.startswith("| [")]
    for row in found.values():
        said = f"{costs.said(row)}"
        name = row["title"].split()[0]
        assert any(cells[1].startswith(f"[{name}]") and said in cells for cells in rows), (name, said)


def test_what_stands_in_the_file_is_not_measured_again(costs, monkeypatch, tmp_path, capsys):
    first, second = costs.Point("xor"), costs.Point("rank")
    row = {"hours": 9.0, "over": False, "training": 8.0, "reading": 1.0, "gigabytes": 0.5}
    monkeypatch.setattr(costs, "RESULTS", tmp_path / "costs.jsonl")
    costs.RESULTS.write_text(json.dumps(row | {"title": "xor"}) + "\n", encoding="utf-8")
    asked = []
    monkeypatch.setattr(costs, "alone", lambda point: asked.append(point) or row | {"title": point.title, "hours": 1.0})
    costs.fill([first, second])
    costs.fill([first, second])
    assert asked == [second]
    out = capsys.readouterr().out.splitlines()
    assert [line.rpartition(": ")[2] for line in out[:2]] == ["does not fit", "fits"]
