"""The history of a probe: numbers by step, in memory and in a file that a killed process leaves whole."""

import copy
import gzip
import json
import math
import pickle
import random
import re
import stat
import warnings

import pandas
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import gnomon
from gnomon import History, Probe, Reading
from gnomon.errors import DataError, RangeError


def reading(step, **values):
    return Reading(step, {name: torch.tensor(value) for name, value in values.items()}, {"logits": 0.5})


def filled(path=None, **settings):
    history = History(path, **settings)
    for step in (0, 10, 20):
        history.append(reading(step, loss=step + 0.5, norm=[1.0, 2.0, 3.0, 10.0]))
    return history


def test_a_history_holds_mean_extremes_and_quartiles():
    history = filled()
    assert history.steps == [0, 10, 20]
    assert history.names == ["loss", "norm", "norm.min", "norm.max", "norm.q25", "norm.q75"]
    assert_close(history["loss"], torch.tensor([0.5, 10.5, 20.5]).double())
    for name, value in {"norm": 4.0, "norm.min": 1.0, "norm.max": 10.0, "norm.q25": 1.75, "norm.q75": 4.75}.items():
        assert_close(history[name], torch.full((3,), value).double())
    assert [row.step for row in history] == history.steps
    assert repr(history) == "History(3 readings, steps 0 to 20: loss, norm)"
    assert repr(History()) == "History(no readings)"


def test_a_probe_keeps_what_was_due():
    model, x = nn.Linear(3, 2), torch.ones(4, 3)
    probe = Probe(model, {"train": x, "test": 2 * x}, [gnomon.jacobian_norm], gnomon.every(2))
    read = [probe(step) for step in range(5)]
    probe.read(1)
    assert probe.history.steps == [0, 2, 4]
    for name in ("train/jacobian_norm", "test/jacobian_norm"):
        expected = [one.values[name].double().mean().item() for one in read if one]
        assert_close(probe.history[name], torch.tensor(expected).double())


def same(one, other):
    rows = ([(row.step, row.numbers, row.seconds) for row in each] for each in (one, other))
    assert_close(*rows, equal_nan=True)


def test_a_name_that_comes_again_takes_the_place_of_its_own_from_there_on(tmp_path):
    """As when training resumes from a checkpoint, in another process: there is nothing to warn of."""
    path = tmp_path / "history.jsonl"
    filled(path)
    history = History(path)
    history.append(reading(10, loss=7.0, norm=[2.0, 4.0]))
    assert history.steps == [0, 10]
    assert_close(history["loss"], torch.tensor([0.5, 7.0]).double())
    for again in (History(path), History.load(path)):
        same(again, history)


def test_what_has_no_value_takes_the_place_of_its_parts_and_they_of_it(tmp_path):
    path = tmp_path / "history.jsonl"
    whole = {"mse.total": 1.0, "mse.bias": 0.5, "norm": [1.0, 2.0], "of.mine": 1.0}
    for step in (0, 10, 20):
        History(path).append(reading(step, **whole))
    History(path).append(reading(10, mse=math.nan, norm=math.nan, **{"of.yours": 2.0}))
    history = History.load(path)
    assert [sorted(row.numbers) for row in history][1:] == [["mse", "norm", "of.mine", "of.yours"], ["of.mine"]]
    History(path).append(reading(10, **whole))
    same(History.load(path), History(path))
    assert "mse" not in History.load(path).names


def test_seconds_that_are_no_numbers_are_the_latter(tmp_path):
    path = tmp_path / "history.jsonl"
    lines = [
        {"step": 0, "a": 1, "seconds": {"a": "x", "b": 1, "c": 1}},
        {"step": 0, "d": 2, "seconds": {"a": 2, "b": {}, "c": 2}},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert next(iter(History.load(path))).seconds == {"a": 2, "b": {}, "c": 3}


def test_probes_of_other_quantities_keep_each_others_readings(tmp_path):
    """One after the other, with steps that count something else, and those of the same step in one row."""
    path = tmp_path / "history.jsonl"
    history = History(path, samples=True)
    for step in (0, 10, 20):
        history.append(reading(step, loss=step + 0.5))
    for step in (0, 5, 20, 30):
        history.append(Reading(step, {"norm": torch.tensor([1.0, 3.0])}, {"logits": 0.25, "norm": 1.0}))
    for one in (history, History(path), History.load(path)):
        assert one.steps == [0, 5, 10, 20, 30]
        assert (one.steps_of("loss"), one.steps_of("norm")) == ([0, 10, 20], [0, 5, 20, 30])
        assert_close(one["loss"][[0, 2, 3]], torch.tensor([0.5, 10.5, 20.5]).double())
        assert len(one.samples("norm")) == 4
        assert next(iter(one)).seconds == {"logits": 0.75, "norm": 1.0}
        same(one, history)


def test_of_probes_with_a_name_in_common_the_rest_stays_and_a_warning_says_so(tmp_path):
    path, warned = (
        tmp_path / "history.jsonl",
        r"^History: loss comes again at step 0, which replaces what was read of it",
    )
    history = History(path)
    history.append(reading(0, loss=1.0, norm=[1.0, 2.0]))
    with pytest.warns(UserWarning, match=warned + r".* there on\. If that was another probe, give"):
        history.append(reading(0, loss=2.0))
    for step in (10, 20):
        history.append(reading(step, loss=1.0, norm=[1.0, 2.0]))
        history.append(reading(step, loss=2.0))  # once is enough
    assert history["loss"].tolist() == [2.0] * 3
    assert history["norm"].tolist() == [1.5] * 3
    same(History.load(path), history)
    again = filled()
    with pytest.warns(UserWarning, match=warned + r".* So does norm\. "):
        again.append(reading(0, loss=2.0, norm=[0.0, 1.0]))
    assert again.steps == [0]


@pytest.mark.parametrize("seed", range(20))
def test_by_any_order_of_readings_file_and_memory_are_what_a_loop_finds(tmp_path, seed):
    """The definition, as plainly as it can be: by name and step, until the name comes again there or before."""
    path, draw = tmp_path / "history.jsonl", random.Random(seed)
    history, kept = History(path), {}
    with warnings.catch_warnings(action="ignore"):
        for number in range(40):
            step, names = draw.randrange(12), draw.sample("abcd", draw.randint(1, 3))
            history.append(reading(step, **dict.fromkeys(names, float(number))))
            kept = {(name, at): value for (name, at), value in kept.items() if name not in names or at < step}
            kept |= {(name, step): float(number) for name in names}
    for one in (history, History.load(path)):
        assert {(name, row.step): value for row in one for name, value in row.numbers.items()} == kept
        assert one.steps == sorted({step for _, step in kept})


def test_a_quantity_has_steps_of_its_own_be_it_nan():
    history = History()
    for step in (0, 10, 20):
        history.append(reading(step, loss=1.0))
        if step:
            history.append(reading(step, rare=math.nan))
    assert (history.steps_of("loss"), history.steps_of("rare")) == ([0, 10, 20], [10, 20])
    with pytest.raises(RangeError, match=r"^History\(name\): expected one of loss, rare, got 'other'"):
        history.steps_of("other")


def test_what_joins_a_row_joins_it_in_one_history_only():
    one, other = History(), History()
    rows = [*filled()]
    one._extend(rows)
    other._extend(rows)
    one.append(reading(20, more=1.0))
    assert "more" not in other.names


def test_a_file_goes_on_behind_a_line_that_somebody_was_killed_in(tmp_path):
    path = tmp_path / "history.jsonl"
    filled(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    assert History.load(path).steps == [0, 10]
    with path.open("ab") as file:
        file.write(b"")
    history = History(path)
    history.append(reading(30, loss=1.0))
    with pytest.warns(UserWarning, match=r"history\.jsonl has no reading in line 3, as a killed process leaves"):
        assert History(path).steps == [0, 10, 30]


def test_an_empty_line_of_processes_that_write_at_once_is_nothing(tmp_path):
    """Of a line that another process is writing, one may see a part, and begin a new line behind it."""
    path = tmp_path / "history.jsonl"
    filled(path)
    before = History.load(path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\n\n"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert History.load(path).steps == History(path).steps == before.steps
    path.write_bytes(b"\nno reading\n")
    with pytest.raises(DataError, match="expected one reading per line, got b'no reading' in line 2"):
        History.load(path)


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "content",
    [gzip.compress(b'{"step":1,"loss":1}\n', mtime=0), b"no reading", bytes(9)],
    ids=["gzip", "text", "zeros"],
)
def test_one_line_of_something_else_is_no_reading_under_way(tmp_path, content):
    """To which a history would add its own."""
    path = tmp_path / "history.jsonl"
    path.write_bytes(content)
    message = rf"expected one reading per line, got {re.escape(repr(content[:40]))} in line 1"
    with pytest.raises(DataError, match=message):
        History.load(path)
    with pytest.raises(DataError, match=message):
        History(path)


def test_lines_of_another_writer_do_no_harm(tmp_path):
    """An arm that is no name, which is no reading, and a number beyond the range of floating-point numbers."""
    path = tmp_path / "history.jsonl"
    path.write_text('{"step":1,"loss":%s}\n{"step":2,"loss":1,"arm":[1]}\n' % ("9" * 400))
    with pytest.warns(UserWarning, match="no reading in line 2"):
        history = History.load(path)
    assert_close(history["loss"], torch.tensor([math.inf]).double())


def test_nan_is_null_in_the_file(tmp_path):
    path = tmp_path / "history.jsonl"
    History(path).append(reading(1, loss=math.nan, norm=[1.0, math.inf]))
    line = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(name))
    assert line["loss"] is None
    assert line["norm.max"] is None
    assert History.load(path)["loss"].isnan().all()


def test_values_of_all_samples_are_kept_where_asked_for(tmp_path):
    path = tmp_path / "history.jsonl"
    filled(path, samples=True)
    for history in (filled(samples=True), History.load(path)):
        (first, *_) = history.samples("norm")
        assert len(history.samples("norm")) == 3
        assert_close(first, torch.tensor([1.0, 2.0, 3.0, 10.0]).double())
    with pytest.raises(
        RangeError,
        match=r"History\(name\): expected one whose samples were kept, got 'norm'\. .*History\(samples=True\)",
    ):
        filled().samples("norm")
    with pytest.raises(RangeError, match=r"kept, got 'loss'\. It has no value per sample, or was read before"):
        filled(samples=True).samples("loss")
    with pytest.raises(
        RangeError, match=r"History\(name\): expected what has been read, which is nothing yet, got 'no'"
    ):
        filled().samples("no")


def test_kept_samples_are_not_the_quantitys_own():
    """In float64 they were a view, and earlier readings changed with it."""
    total = torch.zeros(3, dtype=torch.float64)
    history = History(samples=True)
    for step in range(3):
        history.append(Reading(step, {"total": total.add_(1)}, {}))
    assert_close(torch.stack(history.samples("total")).mean(1), history["total"])


def test_a_last_line_without_its_end_is_a_reading(tmp_path):
    """As an editor leaves it: once more lines followed it, it was one."""
    path = tmp_path / "history.jsonl"
    filled(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    history = History(path)
    assert history.steps == filled().steps
    history.append(reading(99, loss=1.0))
    assert History(path).steps == history.steps
    assert path.read_bytes().startswith(whole)


def test_saved_and_loaded_it_is_the_same(tmp_path):
    history = filled()
    history.save(tmp_path / "saved.jsonl")
    again = History.load(tmp_path / "saved.jsonl")
    assert [(row.step, row.numbers, row.seconds) for row in again] == [
        (row.step, row.numbers, row.seconds) for row in history
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["saved.jsonl"]


def test_a_saved_file_keeps_its_permissions_and_a_link_its_target(tmp_path):
    target, link = tmp_path / "target.jsonl", tmp_path / "link.jsonl"
    target.touch()
    target.chmod(0o640)
    link.symlink_to(target)
    filled().save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert History.load(target).steps == filled().steps


@pytest.mark.parametrize("file", [None, "history.jsonl"])
def test_training_resumes_with_the_history_in_a_checkpoint(tmp_path, file):
    """As it was when the checkpoint was written, with what its file holds from after that taken back."""
    path = None if file is None else tmp_path / file
    history = filled(path, samples=True)
    history.append(Reading(30, {"mine": torch.tensor([math.inf, 2.0])}, {}, docstrings={"mine": "Of my own."}))
    torch.save({"history": history}, tmp_path / "checkpoint.pt")
    history.append(reading(40, loss=0.0, norm=[0.0]))
    resumed = torch.load(tmp_path / "checkpoint.pt", weights_only=True)["history"]
    same(resumed, [*history][:4])
    assert (resumed.path, resumed.about("mine").sentence) == (path, "Of my own.")
    assert_close(resumed.samples("norm"), history.samples("norm")[:3])
    resumed.append(reading(20, loss=7.0, norm=[1.0, 5.0]))  # without a warning
    assert resumed.steps == [0, 10, 20, 30]
    assert_close(resumed["loss"], torch.tensor([0.5, 10.5, 7.0, math.nan]).double(), equal_nan=True)
    assert_close(resumed.samples("norm")[-1], torch.tensor([1.0, 5.0]).double())
    assert history.steps == [0, 10, 20, 30, 40]
    if path is not None:
        assert History.load(path).steps == resumed.steps


class Named(History):
    """A history with something of its own."""

    def __init__(self, path=None, name="run"):
        super().__init__(path)
        self.name = name


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda history: pickle.loads(pickle.dumps(history))])
def test_copies_of_a_history_keep_what_else_it_has(tmp_path, copied):
    one = Named(tmp_path / "history.jsonl", "first")
    one.append(reading(0, loss=1.0))
    other = copied(one)
    assert (other.name, other.path, other.steps) == ("first", one.path, [0])


def test_a_copy_has_rows_of_its_own():
    history = filled()
    for copied in (copy.copy(history), copy.deepcopy(history)):
        copied.append(reading(30, loss=1.0))
        assert (copied.steps, history.steps) == ([0, 10, 20, 30], [0, 10, 20])


def test_saving_leaves_other_files_alone(tmp_path):
    beside, folder = tmp_path / "saved.jsonl.part", tmp_path / "folder"
    beside.write_text("mine")
    folder.mkdir()
    filled().save(tmp_path / "saved.jsonl")
    with pytest.raises(DataError, match=r"History\.save\(path\): expected a file that can be written, got .*folder"):
        filled().save(folder)
    assert beside.read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "saved.jsonl", "saved.jsonl.part"}


def test_records_of_a_run_are_histories_by_their_arm(tmp_path):
    path = tmp_path / "records.jsonl"
    lines = [{"arm": arm, "step": step, "loss": step, "note": "x", "list": [1]} for arm in "ab" for step in (0, 5)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    history = History.load(path, arm="b")
    assert (history.steps, history.names) == ([0, 5], ["loss"])
    with pytest.raises(DataError, match=r"History\.load\(path\): expected readings of one arm, got those of a, b"):
        History.load(path)
    with pytest.raises(DataError, match=r"\(arm\): expected one of a, b, got 'c'"):
        History.load(path, arm="c")


def test_a_file_with_an_arm_is_loaded_and_not_continued(tmp_path):
    """What would be appended has no arm, and the file could no longer be read."""
    path = tmp_path / "records.jsonl"
    path.write_text('{"arm":"a","step":0,"loss":1.0}\n')
    says = r"History\(path\): expected readings without an arm, to which more can be added, got those of a\. .*load"
    with pytest.raises(DataError, match=says):
        History(path)
    assert History.load(path).steps == [0]


def test_a_data_frame_has_a_row_a_step():
    frame = filled().to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert (frame.index.name, [*frame.index]) == ("step", [0, 10, 20])
    assert frame["norm.max"].tolist() == [10.0] * 3


def test_a_data_frame_of_several_histories_has_a_row_a_run_and_step():
    other = History()
    for step, loss in ((10, 12.5), (30, math.nan)):
        other.append(reading(step, loss=loss, mine=1.0))
    frame = gnomon.compare(first=filled(), none=History(), other=other).to_pandas()
    assert [*frame.index.names] == ["run", "step"]
    assert [*frame.index] == [("first", 0), ("first", 10), ("first", 20), ("other", 10), ("other", 30)]
    assert [*frame.columns] == [*filled().names, "mine"]
    pandas.testing.assert_frame_equal(frame.loc["first"].drop(columns="mine"), filled().to_pandas())
    assert frame["norm.max"].isna().tolist() == [False] * 3 + [True] * 2
    assert frame.groupby("step")["loss"].agg(["mean", "std"]).loc[10].tolist() == [11.5, 2**0.5]


def test_what_is_no_history_is_said(tmp_path):
    with pytest.raises(DataError, match=r"History\.load\(path\): expected a file of readings, got .*No such file"):
        History.load(tmp_path / "none.jsonl")
    (tmp_path / "text").write_text("hello\n")
    with pytest.raises(DataError, match=r"expected one reading per line, got b'hello' in line 1"):
        History(tmp_path / "text")
    with pytest.raises(RangeError, match=r"History\(name\): expected one of loss, norm, .*, got 'accuracy'"):
        filled()["accuracy"]
    with pytest.raises(DataError, match=r"expected names other than arm, samples, seconds, step, got \['seconds'\]"):
        History().append(reading(0, seconds=1.0))
    with pytest.raises(DataError, match=r"History\(path\): expected a file in a folder that exists, got .*x"):
        History(tmp_path / "no folder" / "x")
    for call, where in ((History, r"History"), (History.load, r"History\.load"), (History().save, r"History\.save")):
        with pytest.raises(TypeError, match=where + r"\(path\): expected a name or a path, got int\."):
            call(3)
    for name, method in (("run.csv", "csv"), ("run.parquet", "parquet"), ("run.pkl", "pickle")):
        with pytest.raises(DataError, match=rf"got .*{name}'\. Use to_pandas\(\), whose result has .* to_{method}\."):
            filled().save(tmp_path / name)
        assert not (tmp_path / name).exists()
    for path in ("", "."):
        with pytest.raises(DataError, match=r"History\.save\(path\): expected a file that can be written, got .*empty"):
            filled().save(path)


@pytest.mark.bad_input
def test_only_a_reading_is_appended():
    history = filled()
    with pytest.raises(TypeError, match=r"History\(reading\): expected a Reading, got dict"):
        history.append({"loss": 1.0})
    assert history.steps == filled().steps
