"""What is read of files that grow, and what is drawn of it."""

import json
import math
import os
import random
import re
from pathlib import Path

import numpy as np
import pytest

import gnomon
from gnomon.plot import style
from gnomon_lab.cli.terminal import Terminal
from gnomon_lab.watching import file as reading
from gnomon_lab.watching.answer import answer
from gnomon_lab.watching.braille import Axis, axis_of_steps, axis_of_values, drawn
from gnomon_lab.watching.curves import ABSENT, UNMEASURED, Curves
from gnomon_lab.watching.file import Followed
from gnomon_lab.watching.folder import Watched, labelled
from gnomon_lab.watching.page import SCRIPTS, page
from gnomon_lab.watching.terminal import picture


def line(step, /, **numbers):
    return json.dumps({"step": step, **numbers}) + "\n"


def followed(path):
    file = Followed(path, lambda name: True)
    while file.read():
        pass
    return file


def more(file):
    """What a file that is followed holds by now: the steps of its one arm."""
    while file.read():
        pass
    (curves,) = file.arms.values() or [Curves()]
    return curves.steps().tolist()


def test_a_history_is_read_as_it_reads_itself(tmp_path):
    path = tmp_path / "history.jsonl"
    lines = [line(0, loss=2.0), "\n", line(5, loss=None, nc1=1e-30), "torn {\n", line(3, loss=1.5), line(9, loss=1e300)]
    path.write_text("".join(lines) + '{"step": 12, "lo')
    file = followed(path)
    (curves,) = file.arms.values()
    with pytest.warns(UserWarning, match="no reading in line 4"):
        history = gnomon.History.load(path)
    assert curves.steps().tolist() == history.steps == [0, 3, 5, 9]
    np.testing.assert_array_equal(curves.column("loss"), history["loss"].numpy())
    assert (file.broken, curves.names, curves.last_step) == (1, ["loss", "nc1"], 9)


@pytest.mark.parametrize("only", [(), ("norm",)])
def test_probes_that_share_a_history_add_to_a_step(tmp_path, only):
    path = tmp_path / "history.jsonl"
    both = [line(step, loss=step + 0.5) + line(step, norm=2.0) for step in (-1, 10)]
    path.write_text("".join(both) + line(10, norm=None) + line(10, note="the same", other=1.0) + line(10, loss=3.0))
    watched, history = Watched(path, only), gnomon.History.load(path)
    watched.look()
    ((curves,),) = ([one.curves for one in watched.curves()],)
    assert curves.steps().tolist() == history.steps == [-1, 10]
    for name in curves.names:
        here = curves.column(name)
        np.testing.assert_array_equal(np.where(here == UNMEASURED, math.nan, here), history[name].numpy())
    assert curves.names == [name for name in ("loss", "norm", "other") if name in only or not only]


def test_null_is_told_from_what_a_reading_does_not_have(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text(line(0, a=None) + line(1, b=2) + '{"step": 2, "a": NaN, "b": 1e999, "c": [1], "d": true}\n')
    (curves,) = followed(path).arms.values()
    assert curves.names == ["a", "b"]
    np.testing.assert_array_equal(curves.column("a"), [UNMEASURED, math.nan, UNMEASURED])
    np.testing.assert_array_equal(curves.column("b"), [math.nan, 2, UNMEASURED])
    assert curves.last() == (2, {"a": UNMEASURED, "b": UNMEASURED})


def test_a_whole_without_a_value_at_one_step_is_a_gap_in_its_parts(tmp_path):
    """A dataclass that has no value is null under its own name, and has no chart of its own."""
    path = tmp_path / "history.jsonl"
    norm = {"norm": 1.0, "norm.q25": 0.5, "norm.q75": 1.5, "norm.error": 0.1}
    lines = [line(0, **{"test/nfa.pearson": 1.0}, **norm), line(10, **{"test/nfa": None}, **norm)]
    path.write_text("".join([*lines, line(20, **{"test/nfa.pearson": 0.3}, none=None)]))
    (curves,) = followed(path).arms.values()
    assert curves.names == ["test/nfa.pearson", "norm", "norm.q25", "norm.q75", "none"]
    np.testing.assert_array_equal(curves.column("test/nfa.pearson"), [1.0, UNMEASURED, 0.3])
    np.testing.assert_array_equal(curves.column("norm.q25"), [0.5, 0.5, math.nan])
    assert [name for name in curves.names if ".q" not in name] == gnomon.History.load(path).quantities
    path.write_text(path.read_text() + line(10, **{"test/nfa.pearson": 0.5}))
    (curves,) = followed(path).arms.values()
    np.testing.assert_array_equal(curves.column("test/nfa.pearson"), [1.0, 0.5, math.nan])


def test_the_last_reading_has_nothing_of_those_before(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text(line(100, loss=2.0, nc1=0.5) + line(101, loss=1.0))
    (curves,) = followed(path).arms.values()
    assert curves.last() == (101, {"loss": 1.0})
    watched = Watched(path, ["nc1"])
    watched.look()
    ((curves,),) = ([one.curves for one in watched.curves()],)
    assert curves.last() == (100, {"nc1": 0.5})


def test_extremes_are_left_out_and_quartiles_kept(tmp_path):
    path = tmp_path / "history.jsonl"
    history = gnomon.History(path)
    history.append(gnomon.Reading(4, {"test/nc1": np_tensor([1.0, 2.0, 3.0])}, {"logits": 0.1}))
    (curves,) = followed(path).arms.values()
    assert curves.last() == (4, {"test/nc1": 2.0, "test/nc1.q25": 1.5, "test/nc1.q75": 2.5})


def test_right_or_wrong_has_no_quartiles_though_a_quarter_is_wrong(tmp_path):
    """They are interpolated: with 75 of 100 right the lower one is 0.75."""
    path = tmp_path / "history.jsonl"
    history = gnomon.History(path)
    for step, right in enumerate((0, 25, 75, 100)):
        values = {"accuracy": np_tensor([1.0] * right + [0.0] * (100 - right)), "norm": np_tensor([0.0, 0.5, 2.0])}
        history.append(gnomon.Reading(step, values, {}))
    assert history["accuracy.q25"].tolist() == [0.0, 0.0, 0.75, 1.0]
    watched = Watched(path, ["accuracy", "norm"])
    watched.look()
    for curves in (*followed(path).arms.values(), watched.curves()[0].curves):
        assert curves.names == ["accuracy", "norm", "norm.q25", "norm.q75"]


def np_tensor(numbers):
    import torch

    return torch.tensor(numbers)


def test_only_what_was_appended_is_read(tmp_path, monkeypatch):
    path, read, pread = tmp_path / "history.jsonl", [], os.pread
    path.write_text("".join(line(step, loss=1.0) for step in range(1000)))
    file = followed(path)
    monkeypatch.setattr(reading.os, "pread", lambda *call: read.append(pread(*call)) or read[-1])
    with path.open("a") as written:
        written.write(line(1000, loss=2.0)[:9])
        written.flush()
        assert more(file)[-1] == 999, "a torn line is not read yet"
        written.write(line(1000, loss=2.0)[9:])
        written.flush()
        assert more(file)[-1] == 1000
    assert sum(map(len, read)) == len(line(1000, loss=2.0)) + 2 * reading.TAIL
    read.clear()
    assert (file.read(), read) == (False, []), "an unchanged file is not opened"


def test_a_file_that_is_another_by_now_is_read_anew(tmp_path):
    path = tmp_path / "history.jsonl"
    path.write_text(line(0, a=1) + line(1, a=1) + line(2, a=1))
    file = followed(path)
    path.write_text(line(7, a=2))
    assert more(file) == [7], "truncated"
    path.write_text(line(8, a=2) + line(9, a=2))
    assert more(file) == [8, 9], "written over, and longer"
    (tmp_path / "new").write_text(line(8, a=2) + line(9, a=2) + line(10, a=2))
    (tmp_path / "new").replace(path)
    assert more(file) == [8, 9, 10], "renamed"
    path.write_text("")
    assert more(file) == []


def test_a_name_that_comes_again_takes_the_place_of_its_own_from_there_on():
    curves = Curves()
    for step in (0, 5, 10, 15):
        curves.add(step, {"a": float(step), "b": 1.0} if step < 15 else {"a": 15.0})
    curves.add(10, {"a": -1.0})
    curves.add(20, {"b": 2.0})
    assert curves.steps().tolist() == [0, 5, 10, 20]
    np.testing.assert_array_equal(curves.column("a"), [0, 5, -1, math.nan])
    np.testing.assert_array_equal(curves.column("b"), [1, 1, 1, 2])


@pytest.mark.parametrize("only", [(), ("a", "c*")])
@pytest.mark.parametrize("seed", range(10))
def test_readings_in_any_order_are_those_of_a_history(tmp_path, seed, only):
    path, draw = tmp_path / "history.jsonl", random.Random(seed)
    names = ["a", "b", "c", "c.part", "c.other", "c.q25"]
    lines = [
        line(
            draw.randrange(12),
            **{name: draw.choice([None, 1.0, 2.0]) for name in draw.sample(names, draw.randint(0, 3))},
        )
        for _ in range(60)
    ]
    path.write_text("".join(lines))
    watched, history = Watched(path, only), gnomon.History.load(path)
    watched.look()
    (curves,) = (one.curves for one in watched.curves())
    assert curves.steps().tolist() == history.steps
    has_parts = not {"c.part", "c.other"}.isdisjoint(history.names)
    assert {*curves.names} == {
        name for name in history.names if (not only or name[0] in "ac") and not (name == "c" and has_parts)
    }
    for name in curves.names:
        here = curves.column(name)
        np.testing.assert_array_equal(np.where(here == UNMEASURED, math.nan, here), history[name].numpy())


@pytest.mark.parametrize("count", [10, 401, 20_000])
def test_thinned_curves_keep_their_peaks_their_start_and_their_end(count):
    curves, rng = Curves(), np.random.default_rng(count)
    numbers = rng.normal(size=count)
    numbers[count // 3] = 50
    numbers[2 * count // 3] = UNMEASURED
    for step, number in enumerate(numbers):
        curves.add(step, {"a": number} | ({"b": -number} if step % 2 else {}))
    steps, thin = curves.thinned(400)
    assert len(steps) <= 400
    assert (np.diff(steps) > 0).all()
    assert (steps[0], steps[-1], thin["a"][-1]) == (0, count - 1, numbers[-1])
    np.testing.assert_array_equal(steps[:10], np.arange(10))
    np.testing.assert_array_equal(thin["a"][:9], numbers[:9])
    finite = thin["a"][np.isfinite(thin["a"])]
    assert (finite.max(), finite.min()) == (50, numbers.min())
    assert np.nanmax(thin["b"][np.isfinite(thin["b"])]) == max(-numbers[1::2][np.isfinite(numbers[1::2])])


def test_a_thinned_line_goes_as_the_line_does():
    curves = Curves()
    for step in range(10_000):
        curves.add(step, {"up": float(step), "down": -float(step), "none": UNMEASURED})
    _, thin = curves.thinned(300)
    assert (np.diff(thin["up"]) > 0).all()
    assert (np.diff(thin["down"]) < 0).all()
    assert (thin["none"] == UNMEASURED).all()


def test_runs_are_found_as_they_come_and_forgotten_as_they_go(tmp_path):
    watched = Watched(tmp_path, ["a"])

    def seen():
        watched._look_again = 0
        assert watched.look()
        return {curve.label: curve.curves.last_step for curve in watched.curves()}

    assert seen() == {}
    for run in ("digits/1-seed0", "digits/1-seed1"):
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "records.jsonl").write_text(line(3, arm="one", a=1, b=2) + line(4, arm="two", a=1))
    assert seen() == {"1-seed0, one": 3, "1-seed0, two": 4, "1-seed1, one": 3, "1-seed1, two": 4}
    assert [curve.curves.names for curve in watched.curves()] == [["a"]] * 4
    (tmp_path / "digits/1-seed1/result.json").write_text("{}")
    (tmp_path / "late.jsonl").write_text(line(8, a=1))
    assert seen().keys() == {f"digits/1-seed{k}, {arm}" for k in (0, 1) for arm in ("one", "two")} | {"late"}
    assert [(curve.place, curve.finished) for curve in watched.curves()] == [
        (0, False), (1, False), (2, True), (3, True), (4, False)
    ]  # fmt: skip
    (tmp_path / "digits/1-seed0/records.jsonl").unlink()
    assert seen() == {"digits/1-seed1, one": 3, "digits/1-seed1, two": 4, "late": 8}
    assert [curve.place for curve in watched.curves()] == [2, 3, 4], "colours stay"


def test_runs_that_differ_in_the_seed_alone_have_the_colours_of_their_arms(tmp_path):
    """Every curve had its own, so that two seeds' GrokAlign looked less alike than one seed's two arms."""

    def seen(*files):
        for file in files:
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_text(line(3, arm="one", a=1) + line(3, arm="two", a=1))
        watched._look_again = 0
        watched.look()
        return {curve.label: (curve.colour, curve.dash) for curve in watched.curves()}

    watched = Watched(tmp_path)
    alone = seen("digits/0123abcd-seed0/records.jsonl")
    assert alone == {"one": (0, 0), "two": (1, 1)}
    of_one_setting = seen("digits/0123abcd-seed7/records.jsonl")
    assert of_one_setting == {
        "seed 0, one": (0, 0), "seed 0, two": (1, 0), "seed 7, one": (0, 1), "seed 7, two": (1, 1)
    }  # fmt: skip
    others = seen("digits/89abcdef-seed0/records.jsonl", "mine.jsonl")
    assert [*others.values()] == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]
    (tmp_path / "digits/0123abcd-seed0/records.jsonl").unlink()
    assert [*seen().values()] == [*others.values()][2:], "colours stay"


def test_runs_are_in_the_order_in_which_people_count(tmp_path):
    for name in ("seed10", "seed2", "1", "seed2b", "1²5"):
        (tmp_path / f"{name}.jsonl").write_text(line(1, a=1))
    watched = Watched(tmp_path)
    watched.look()
    assert [curve.label for curve in watched.curves()] == ["1", "1²5", "seed2", "seed2b", "seed10"]


def test_what_is_no_file_of_readings_is_passed_by_and_named(tmp_path):
    (tmp_path / "data.jsonl").write_text('{"text": "a"}\n' * 10)
    (tmp_path / "binary.jsonl").write_bytes(bytes(range(256)) * 99)
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "x.jsonl").write_text(line(1, a=1))
    (tmp_path / "deep" / "a" / "b" / "c" / "d").mkdir(parents=True)
    (tmp_path / "deep" / "a" / "b" / "c" / "d" / "x.jsonl").write_text(line(1, a=1))
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "nobody.jsonl").symlink_to(tmp_path / "nowhere")
    watched = Watched(tmp_path)
    assert watched.look()
    assert watched.curves() == []
    told = " ".join(watched.left_out())
    assert [name in told for name in ("data.jsonl", "binary.jsonl", "pipe.jsonl", "x.jsonl")] == [True] * 3 + [False]


def test_a_long_file_without_a_reading_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "PATIENCE", 1000)
    monkeypatch.setattr(reading, "CHUNK", 100)
    path = tmp_path / "data.jsonl"
    path.write_text('{"text": "a"}\n' * 1000)
    file = followed(path)
    assert (file.holds_none, file.behind, file.broken < 90) == (True, False, True)


def test_reading_stops_when_its_time_is_over_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "CHUNK", 1000)
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text("".join(line(step, a=1) for step in range(100)))
    watched = Watched(tmp_path)
    assert json.loads(answer(watched, seconds=0))["reading"]
    while not watched.look(0):
        pass
    assert [curve.curves.last_step for curve in watched.curves()] == [99, 99]


@pytest.mark.parametrize(
    ("found", "labels"),
    [
        ([(("history",), None)], ["history"]),
        ([(("digits", "1-seed0"), "A"), (("digits", "1-seed0"), "B")], ["A", "B"]),
        ([(("digits", "1"), None), (("digits", "2"), None)], ["1", "2"]),
        ([(("x", "digits", "1"), None), (("x", "rank", "1"), "A")], ["digits/1", "rank/1, A"]),
        ([(("a",), None), (("a", "b"), None)], ["a", "a/b"]),
        ([(("805ddd2f-seed0",), "A"), (("805ddd2f-seed1",), "A")], ["seed 0, A", "seed 1, A"]),
        ([(("805ddd2f-seed0",), "A"), (("d4128b74-seed1",), "A")], ["805ddd2f-seed0, A", "d4128b74-seed1, A"]),
        ([(("805ddd2f-seed0",), "A"), (("mine",), None)], ["805ddd2f-seed0, A", "mine"]),
    ],
)  # fmt: skip
def test_curves_are_called_by_what_tells_them_apart(found, labels):
    assert labelled(found) == labels


def test_runs_of_one_experiment_are_told_apart_by_what_they_were_asked_for(tmp_path):
    asked = {
        "digits/1-seed0": {"loss": "mse", "hidden_sizes": [64, 32], "steps": 9},
        "digits/1-seed1": {"loss": "mse", "hidden_sizes": [64, 32], "steps": 9},
        "digits/2-seed0": {"loss": None, "hidden_sizes": [64], "steps": 9, "noise": True},
        "rank/3-seed0": {"loss": "ce", "width": 1},
        "broken/4": [],
        "deep/5": {},
        "without/6": None,
    }
    for run, config in asked.items():
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "records.jsonl").write_text(line(0, a=1))
        if config is not None:
            told = json.dumps({"experiment": run.split("/")[0], "config": config, "seed": 0})
            (tmp_path / run / "config.json").write_text("[" * 10**5 if run == "deep/5" else told)
    watched = Watched(tmp_path)
    settings = {run["label"]: run["setting"] for run in json.loads(answer(watched))["runs"]}
    assert settings == dict.fromkeys(asked, "") | {
        "digits/1-seed0": "--loss mse --hidden-sizes 64 32",
        "digits/1-seed1": "--loss mse --hidden-sizes 64 32",
        "digits/2-seed0": "--loss None --hidden-sizes 64 --noise",
    }
    (tmp_path / "digits/2-seed0/records.jsonl").unlink()
    watched.look()
    assert {curve.setting for curve in watched.curves()} == {""}


def test_that_nothing_is_as_wanted_is_told_from_that_there_is_nothing(tmp_path):
    def unmatched(*only):
        watched = Watched(tmp_path, only)
        watched.look()
        return watched.unmatched()

    path = tmp_path / "a.jsonl"
    assert unmatched("loss") == ""
    path.write_text(line(0))
    assert unmatched("loss") == unmatched() == ""
    path.write_text(line(0, b=1, note="x", **{"b.q25": 1, "b.max": 1}) + line(0, a=1))
    assert unmatched("loss") == "no quantity matches loss; there are b, a"
    path.write_text(line(0, **dict.fromkeys("cdefghi", 1)) + line(1, **dict.fromkeys("cdefghi", 1)))
    assert unmatched("loss") == "no quantity matches loss; there are c, d, e, f, g, h, …"
    path.write_text(line(0, b=1) + line(0, loss=1))
    assert unmatched("loss") == unmatched() == ""


@pytest.mark.parametrize(
    ("only", "names"), [("loss", ["train/loss", "test/loss"]), ("test/*", ["test/loss"]), ("los", [])]
)
def test_a_quantity_is_named_with_its_split_or_without(tmp_path, only, names):
    (tmp_path / "a.jsonl").write_text(line(0, **{"train/loss": 1, "test/loss": 2, "train/norm": 3}))
    watched = Watched(tmp_path, [only])
    watched.look()
    assert [name for curve in watched.curves() for name in curve.curves.names] == names


def test_the_page_is_told_what_changed_alone(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.jsonl").write_text(line(0, v=1 / 3) + line(1, w=2) + line(2, v=None))
    watched = Watched(tmp_path)
    first = json.loads(answer(watched))
    assert [(run["label"], run["readings"], run["steps"]) for run in first["runs"]] == [
        ("a", 3, [0, 1, 2]), ("b", 3, [0, 1, 2])
    ]  # fmt: skip
    assert first["runs"][0]["values"] == {"v": [0.333333333, None, "-"], "w": [None, 2, None]}
    assert (first["reading"], first["there"]) == (False, True)
    with (tmp_path / "b.jsonl").open("a") as written:
        written.write(line(3, v=1e-12))
    then = json.loads(answer(watched, first["version"]))
    assert ["values" in run for run in then["runs"]] == [False, True]
    assert then["runs"][1]["values"]["v"][-1] == 1e-12
    assert "values" not in json.loads(answer(watched, then["version"]))["runs"][1]
    later = Watched(tmp_path)
    assert "values" in json.loads(answer(later, then["version"]))["runs"][0], "one that watches again tells all"


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_a_quantity_that_hardly_moves_is_told_as_moving(tmp_path, precision):
    """With six digits for each number it was constant on the page, and moved in the figures and on the terminal."""
    one = np.spacing(precision(379)) if precision is np.float32 else 1e-10
    numbers = {
        "norm": 379 + one * np.arange(41),
        "after": np.append(1e6, 379 + one * np.arange(40)),  # 1e6 has no place on a logarithmic axis of steps
        "far": 1.7e308 * np.linspace(-1, 1, 41),
        "zero": np.zeros(41),
    }
    told_apart = {"norm": 41, "after": 41 if precision is np.float32 else 2, "far": 41, "zero": 1}
    (tmp_path / "a.jsonl").write_text(
        "".join(line(step, gone=None, **{name: column[step] for name, column in numbers.items()}) for step in range(41))
    )
    values = json.loads(answer(Watched(tmp_path)))["runs"][0]["values"]
    assert {name: len(set(values[name])) for name in numbers} == told_apart
    for name, column in numbers.items():
        np.testing.assert_allclose(values[name], column, rtol=1e-8, atol=0)
    np.testing.assert_allclose(np.diff(values["norm"]), one, rtol=0.05)
    assert values["gone"] == ["-"] * 41


def test_the_answer_stays_small_where_there_are_many_curves(tmp_path, monkeypatch):
    monkeypatch.setattr("gnomon_lab.watching.answer.POINTS", 1000)
    for number in range(20):
        text = "".join(line(step, a=step, b=1) for step in range(200))
        (tmp_path / f"{number}.jsonl").write_text(text)
    told = json.loads(answer(Watched(tmp_path)))
    assert told["points"] == 60
    assert {len(run["steps"]) <= 60 for run in told["runs"]} == {True}


HOSTILE = '</script><script>alert("pwned")</script><img src="https://example.org/x.png" onerror=alert(1)>'


def test_a_page_loads_nothing_and_runs_nothing_of_what_it_shows(tmp_path):
    folder = tmp_path / HOSTILE.replace("/", "∕")
    folder.mkdir()
    (folder / "a.jsonl").write_text(line(0, **{HOSTILE: 1.0}) + json.dumps({"step": 0, "arm": HOSTILE, "a": 1}) + "\n")
    whole = page(folder, answer(Watched(folder)))
    assert whole.count("<script") == 1 + len(SCRIPTS)
    assert "<img" not in whole
    assert not re.search(r"<(?:script|img|link|iframe)[^>]*\s(?:src|href)=\"(?!data:,)", whole)
    assert "connect-src" not in whole
    told = json.loads(re.search(r'<script type="application/json" id="told">(.*?)</script>', whole, re.DOTALL)[1])
    assert HOSTILE in told["runs"][0]["values"]
    assert "connect-src 'self'" in page(folder)


def test_the_page_has_the_figures_colours():
    colours = re.search(r"const COLOURS = (\[.*?\]);", page(Path("runs")))[1]
    assert tuple(json.loads(colours)) == style.PALETTE


def test_the_page_of_the_folder_in_which_one_works_has_its_name(folder, monkeypatch):
    """It was called "."."""
    monkeypatch.chdir(folder)
    assert f"<h1>{folder.resolve()}</h1>" in page(Path())
    assert "<h1>runs</h1>" in page(Path("runs"))


def test_a_line_is_drawn_from_corner_to_corner():
    steps = np.array([0, 1])
    rows = drawn([(steps, np.array([0.0, 1.0]))], Axis(0, 1, False), Axis(0, 1, False), 4, 2)
    assert ["".join(sign for sign, _ in row) for row in rows] == ["  ⡠⠊", "⡠⠊  "]
    assert [place for row in rows for sign, place in row if sign != " "] == [0] * 4
    gap = drawn([(steps, np.array([UNMEASURED, 1.0]))], Axis(0, 1, False), Axis(0, 1, False), 4, 2)
    assert "".join(sign for sign, _ in gap[0]) == "   ⠈"


@pytest.mark.parametrize("log", [False, True])
def test_a_line_is_broken_where_there_was_no_number_and_goes_on_where_none_was_read(log):
    """It was joined across NaN too, which looked like a quantity that was there all along."""
    steps, flat = np.arange(9), np.ones(9)
    up = Axis(0.1, 10, True) if log else Axis(0, 2, False)

    def signs(**other):
        numbers = np.array([other.get(f"at{step}", one) for step, one in enumerate(flat)])
        rows = drawn([(steps, numbers)], Axis(0, 8, False), up, 9, 1)
        return "".join("-" if sign != " " else " " for sign, _ in rows[0])

    assert signs() == signs(at3=ABSENT, at4=ABSENT, at5=ABSENT) == "-" * 9
    assert signs(at3=UNMEASURED, at4=ABSENT, at5=UNMEASURED) == "---   ---"
    assert signs(at3=UNMEASURED, at5=-math.inf) == "--- - ---"
    assert signs(at8=UNMEASURED, at0=UNMEASURED) == " ------- "
    assert signs(at4=0.0) == ("---- ----" if log else "-" * 9)


def test_axes_are_logarithmic_where_most_of_it_is_at_one_end():
    for steps, early in (
        (np.geomspace(1, 1000, 20), True),
        (np.arange(0, 1000), False),
        (np.array([0, 1, 1000]), False),
    ):
        curves = Curves()
        for step in steps.astype(int).tolist():
            curves.add(step, {})
        assert curves.early == early
    assert axis_of_steps([np.array([0, 1, 9]), np.array([20])], early=True) == Axis(1, 20, True)
    assert axis_of_steps([np.array([0, 1, 9])], early=False) == Axis(0, 9, False)
    assert axis_of_values([np.array([1e-3, 1.0, UNMEASURED])]) == Axis(1e-3, 1, True)
    assert axis_of_values([np.array([0.0, 1.0, math.nan])]) == Axis(0, 1, False)
    assert axis_of_values([np.array([UNMEASURED, math.nan])]) is None


@pytest.mark.parametrize("width", [1, 9, 10, 20])
def test_a_terminal_of_any_width_is_drawn_in(tmp_path, width):
    (tmp_path / "a.jsonl").write_text("".join(line(step, loss=step) for step in range(9)))
    watched = Watched(tmp_path)
    watched.look()
    terminal = Terminal(width=width)
    with terminal.capture() as said:
        terminal.print(picture(watched, terminal, 24))
    assert all(len(row) <= width for row in said.get().splitlines())


def test_without_colours_a_mark_names_each_curve(tmp_path, monkeypatch):
    for run, slope in (("a", 1), ("b", -1)):
        (tmp_path / f"{run}.jsonl").write_text("".join(line(step, loss=slope * step) for step in range(9)))
    watched = Watched(tmp_path)
    watched.look()

    def rows(**look):
        terminal = Terminal(width=40, **look)
        with terminal.capture() as said:
            terminal.print(picture(watched, terminal, None))
        return [row.rstrip() for row in said.get().splitlines()]

    found = rows()
    assert [row[:6] for row in found[:2]] == ["a  a: ", "b  b: "]
    assert [row[-1] for row in (found[3], found[8])] == ["a", "b"]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not any(row.endswith(("a", "b")) for row in rows())
    monkeypatch.setenv("NO_COLOR", "1")
    assert sum(row.replace("\x1b[0m", "").rstrip().endswith(("a", "b")) for row in rows()) == 2


def test_a_run_is_one_row_and_its_axes_end_at_different_numbers(tmp_path):
    name = "a-run-with-a-long-name-weight-decay-0.1-seed0"
    numbers = {"low": -1.23e-5, "near": 0.99998, "nearer": 10001.25}
    readings = [line(0, low=0.0, near=0.9999, nearer=10001.75), line(1, **numbers)]
    (tmp_path / f"{name}.jsonl").write_text("".join(readings))
    watched = Watched(tmp_path)
    watched.look()
    terminal = Terminal(width=50)
    with terminal.capture() as said:
        terminal.print(picture(watched, terminal, None))
    rows = said.get().splitlines()
    assert rows[0].startswith("a  a-run-with")
    assert "-seed0: step 1, last" in rows[0]
    ends = [row.split()[0] for place, row in enumerate(rows[1:]) if place % 8 in (1, 6)]
    assert ends == ["0", "-1.23e-05", "0.99998", "0.9999", "10,001.75", "10,001.25"]
    assert max(map(len, rows)) == 50


def test_a_title_that_is_too_long_says_so_and_keeps_its_end(tmp_path):
    name = "transformer.encoder.layers.11.attention.self.query.weight/jacobian_norm"
    (tmp_path / "a.jsonl").write_text("".join(line(step, **{name: 10.0**step}) for step in range(5)))
    watched = Watched(tmp_path)
    watched.look()
    terminal = Terminal(width=60)
    with terminal.capture() as said:
        terminal.print(picture(watched, terminal, None))
    title = said.get().splitlines()[1].rstrip()
    assert title.startswith("transformer.")
    assert title.endswith("norm, logarithmic")
    assert (title.count("…"), len(title)) == (1, 59)


def test_a_chart_of_the_terminal_has_the_steps_of_its_curves_alone(tmp_path):
    """The longest of all runs made the curves of the others a vertical line; those without any were listed too."""
    (tmp_path / "solved.jsonl").write_text("".join(line(10**k, residual=1 / (1 + k)) for k in range(11)))
    (tmp_path / "trained.jsonl").write_text("".join(line(k, loss=2 - k / 50) for k in range(31)))
    terminal = Terminal(width=100)

    def said(*only):
        watched = Watched(tmp_path, only)
        watched.look()
        with terminal.capture() as printed:
            terminal.print(picture(watched, terminal, None))
        return printed.get().splitlines()

    assert said()[-1].split() == ["1", "10,000,000,000", "0", "30"]
    (legend, *_, below) = said("loss")
    assert legend.split()[1:4] == ["trained:", "step", "30,"]
    assert below.split() == ["0", "30"]
    assert not any("solved" in row for row in said("loss"))
    (tmp_path / "short.jsonl").write_text("".join(line(k, residual=1) for k in range(31)))
    assert said("residual")[-1].split() == ["1", "10,000,000,000"], "logarithmic, as the run that goes furthest"


def test_the_terminal_shows_what_fits_and_says_what_does_not(tmp_path):
    names = [f"{split}/{name}" for split in ("train", "test") for name in "abcd"]
    for run in range(9):
        text = "".join(line(step, **dict.fromkeys(names, step), **{"train/a.q25": 0}) for step in range(9))
        (tmp_path / f"run-{run}\x1b[2J.jsonl").write_text(text)
    watched = Watched(tmp_path)
    watched.look()
    terminal = Terminal(width=100)
    with terminal.capture() as said:
        terminal.print(picture(watched, terminal, 24))
    rows = said.get().splitlines()
    assert len(rows) < 24
    assert all(row.isprintable() and len(row) <= 100 for row in rows)
    assert [row.split()[1:4] for row in rows[:2]] == [
        ["run-0\\x1b[2J:", "step", "8,"],
        ["run-1\\x1b[2J:", "step", "8,"],
    ]
    assert rows[5] == "4 more"
    assert rows[6].split() == ["train/a", "test/a"]
    assert rows[-1] == "4 more: enlarge the window, or name some with --only"
    with terminal.capture() as said:
        terminal.print(picture(Watched(tmp_path), terminal, 24))
    assert said.get().replace("\n", "").endswith("no readings yet")


def test_page_and_terminal_name_what_cannot_be_read(tmp_path, monkeypatch):
    """A folder of somebody else; it was said to have no readings yet."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (tmp_path / "mine.jsonl").write_text(line(0, a=1.0))
    (tmp_path / "words.jsonl").write_text("words\n")

    def scandir(folder):
        if folder == theirs:
            raise PermissionError(13, "Permission denied", str(folder))
        return read(folder)

    read = os.scandir
    monkeypatch.setattr(os, "scandir", scandir)
    terminal = Terminal(width=200)
    last = {}
    for path in (tmp_path, theirs):
        (watched := Watched(path)).look()
        assert json.loads(answer(watched))["left_out"] == watched.left_out()
        assert watched.left_out()[-1] == f"{theirs} cannot be read: Permission denied"
        with terminal.capture() as said:
            terminal.print(picture(watched, terminal, 24))
        *_, last[path] = said.get().splitlines()
    assert last == {
        tmp_path: f"{tmp_path / 'words.jsonl'} holds no readings (and 1 more)",
        theirs: f"{theirs} cannot be read: Permission denied",
    }
