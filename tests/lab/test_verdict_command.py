"""`gnomon verdict`: on a run with arms, on a history, with a picture, and on what it cannot read."""

import json
import os
import re
from pathlib import Path

import pytest
import torch

from gnomon import History
from gnomon.errors import CheckpointError, DataError
from gnomon.models import mlp
from gnomon_lab.cli.measure_command import main as measure
from gnomon_lab.cli.verdict_command import main
from gnomon_lab.papers.own.grok_digits import Config
from gnomon_lab.runs import open_run
from tests.lab.measuring import network
from tests.unit.test_verdict import STEPS, readings


def write(path, arms):
    """Readings of arms, or of none."""
    values = readings()
    lines = [
        {**({"arm": arm} if arm else {}), "step": step, **{f"train/{name}": own[place] for name, own in values.items()}}
        for arm in arms
        for place, step in enumerate(STEPS)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_each_arm_is_told_apart(tmp_path, capsys):
    write(tmp_path / "records.jsonl", ["slow", "fast"])
    main([str(tmp_path)])
    said = capsys.readouterr().out
    assert [line.partition(":")[0] for line in said.splitlines() if not line.startswith(" ")] == ["slow", "fast"]
    main([str(tmp_path), "--arm", "fast"])
    assert capsys.readouterr().out.startswith("fast: ")


def test_a_line_that_is_missing_is_said_in_one_line(tmp_path, capsys):
    path = write(tmp_path / "history.jsonl", [None])
    first, *others = path.read_text().splitlines(keepends=True)
    path.write_text("".join([first, '{"step": 1\n', *others]))
    main([str(path)])
    assert re.fullmatch(r"History: \S+ has no reading in line \d+, .*\n", capsys.readouterr().err)


@pytest.mark.parametrize("written", ["", '{"step": 0, "train/acc'])
def test_before_the_first_reading_there_is_no_verdict(tmp_path, capsys, written):
    path = tmp_path / "history.jsonl"
    path.write_text(written)
    assert main([str(path)]) == 1
    assert capsys.readouterr().out == "No verdict: there are no readings yet.\n"


def test_an_arm_that_was_read_otherwise_says_what_it_lacks(tmp_path, capsys):
    path = write(tmp_path / "records.jsonl", ["whole"])
    lines = [json.dumps({"arm": "part", "step": step, "train/accuracy": 1.0}) + "\n" for step in STEPS]
    path.write_text(path.read_text() + "".join(lines))
    main([str(path)])
    out = capsys.readouterr().out
    assert out.startswith("whole: ")
    assert "\npart: No verdict: the readings lack train/log_probability, train/parameter_norm, " in out
    assert main([str(path), "--split", "held out"]) == 1
    assert capsys.readouterr().out.startswith("No verdict: the readings lack held out/accuracy, "), "once for both"


def test_a_validation_split_that_was_not_read_is_refused(tmp_path, capsys):
    """It was not used, as if there were none."""
    path = write(tmp_path / "readings.jsonl", [""])
    with pytest.raises(DataError, match=r"--validation\): expected a split of the readings with accuracy, got 'val'"):
        main([str(path), "--validation", "val"])
    lines = [{**json.loads(line), "val/accuracy": 0.5} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    main([str(path), "--validation", "val"])
    assert "A validation split points" in capsys.readouterr().out


def test_values_that_a_quantity_cannot_have_are_named(tmp_path, capsys):
    path = write(tmp_path / "readings.jsonl", [""])
    path.write_text(re.sub(r'"train/accuracy": \S+,', '"train/accuracy": 99.5,', path.read_text()))
    assert main([str(path)]) == 1
    assert capsys.readouterr().out == (
        "No verdict: accuracy needs numbers in [0, 1], and has 99.5 at index (0,). "
        "Look at what produced accuracy; shares are not per cent.\n"
    )


def test_a_history_has_no_arms_and_gets_a_picture(tmp_path, capsys):
    path = write(tmp_path / "readings.jsonl", [""])
    main([str(path), "--picture", str(tmp_path / "runs.svg")])
    said = capsys.readouterr().out
    assert said.rstrip().endswith(f"written: {tmp_path / 'runs.svg'}")
    assert (tmp_path / "runs.svg").read_text().startswith("<?xml")


def test_a_value_that_reads_arm_is_no_arm(tmp_path, capsys):
    path = write(tmp_path / "readings.jsonl", [""])
    main([str(path)])
    said = capsys.readouterr().out
    path.write_text(path.read_text().replace('{"step"', '{"note": "arm", "step"'))
    main([str(path)])
    assert capsys.readouterr().out == said


def test_checkpoints_are_measured_first(folder, capsys):
    for step in (1, 2, 4, 8):
        weights = {name: tensor * (1 + step / 10) for name, tensor in network().state_dict().items()}
        torch.save(weights, f"ckpt-{step}.pt")
    assert main(["ckpt-*.pt", "--data", "some.npz", "--model", "nets:small"]) in (0, 1)
    said = capsys.readouterr()
    assert "4 checkpoints, steps 1 to 8" in said.err
    assert said.out.partition(":")[0].partition(".")[0] in ("Cannot tell", "Still fitting")
    measure(["ckpt-*.pt", "--data", "some.npz", "--model", "nets:small"])
    _, _, told = capsys.readouterr().out.partition("is more training worth it? ")
    assert told == said.out


def test_one_damaged_checkpoint_is_named_below_the_verdict_on_the_others(folder, capsys):
    for step in (1, 2, 4, 8):
        weights = {name: tensor * (1 + step / 10) for name, tensor in network().state_dict().items()}
        torch.save(weights, f"ckpt-{step}.pt")
    asked = ["ckpt-*.pt", "--data", "some.npz", "--model", "nets:small"]
    main(asked)
    whole = capsys.readouterr().out
    Path("ckpt-9.pt").write_bytes(Path("ckpt-8.pt").read_bytes()[:900])
    with pytest.raises(CheckpointError, match=r"in ckpt-9\.pt\. .* Measured: 4 checkpoints\."):
        main(asked)
    assert capsys.readouterr().out == whole
    with pytest.raises(CheckpointError, match=r"in ckpt-9\.pt"):
        main(["ckpt-9.pt", *asked[1:]])


@pytest.mark.bad_input
def test_checkpoints_without_steps_are_advised_what_a_verdict_can_use(folder):
    """Not --steps, which is an option of `gnomon measure`."""
    for name, by in {"a.pt": 1, "b.pt": 2}.items():
        torch.save({key: by * tensor for key, tensor in network().state_dict().items()}, name)
    asked = ["--data", "some.npz", "--model", "nets:small"]
    with pytest.raises(CheckpointError) as several:
        main(["a.pt", "b.pt", *asked])
    assert str(several.value).endswith(
        "none in a.pt, b.pt. Name others, or put the step into the names such as ckpt-500.pt."
    )
    with pytest.raises(CheckpointError) as one:
        main(["a.pt", *asked])
    assert str(one.value).endswith(
        "none in a.pt. Name checkpoints over two doublings of the steps, at least one in each: a verdict needs them."
    )


def test_a_history_of_measure_says_whether_it_may_be_judged(folder, capsys):
    """As the command that made it: by training samples, over steps of training."""
    for step in (1, 2, 4, 8):
        weights = {name: tensor * (1 + step / 10) for name, tensor in network().state_dict().items()}
        torch.save(weights, f"ckpt-{step}.pt")
    said = {}
    for name, more in {"train": [], "order": ["--steps", "order"]}.items():
        measure(["ckpt-*.pt", "--data", "some.npz", "--model", "nets:small", "--history", f"{name}.jsonl", *more])
        told = capsys.readouterr().out.partition("is more training worth it? ")[2].splitlines()[0]
        code = main([f"{name}.jsonl"])
        said[name] = capsys.readouterr().out.splitlines()[0]
        assert told == said[name]
    assert (code, said["order"][:50]) == (1, "No verdict: it uses changes over doublings of the ")
    lines = Path("train.jsonl").read_text()
    Path("train.jsonl").write_text(lines.replace('"split":null', '"split":"test"'))
    assert main(["train.jsonl"]) == 1
    assert capsys.readouterr().out == "No verdict: it uses training samples, and these are of another split.\n"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--split", "test"], "A verdict uses training samples, and these are of another split."),
        (["--split", "train"], None),
        (["--steps", "order"], "A verdict uses changes over doublings of the training steps, and these are not such"),
    ],
)
def test_a_history_of_measure_is_judged_alike_when_it_is_loaded(folder, capsys, options, why):
    """It took test samples for training samples, though the file says of which split they are."""
    for step in (1, 2, 4, 8):
        made = mlp((64, 8, 10), generator=torch.Generator().manual_seed(1), scale=float(step))
        torch.save(made.state_dict(), f"ckpt-{step}.pt")
    Path("pixels.py").write_text("from gnomon.models import mlp\n\ndef build():\n    return mlp((64, 8, 10))\n")
    asked = ["--data", "digits", "--samples", "40", "--model", "pixels:build", "--history", "h.jsonl"]
    measure(["ckpt-*.pt", *asked, *options])
    told = capsys.readouterr().out
    history = History.load("h.jsonl")
    found = history.verdict()
    if why is None:
        assert "these are" not in found.message
        return
    assert (found.says, found.probability, found.reached) == ("cannot tell", None, False)
    assert found.message.startswith(f"Cannot tell. {why}")
    assert f"No verdict: it {why.removeprefix('A verdict ')}"[:60] in " ".join(told.split())
    history.save("again.jsonl")
    assert History.load("again.jsonl").verdict() == found


def test_a_first_line_that_is_not_complete_is_no_reading(tmp_path, capsys):
    (tmp_path / "r.jsonl").write_text('{"arm":"a","step":0')
    assert main([str(tmp_path / "r.jsonl")]) == 1
    assert capsys.readouterr().out.startswith("No verdict: ")


@pytest.mark.bad_input
def test_what_cannot_be_told_says_why(tmp_path):
    path = write(tmp_path / "readings.jsonl", ["a", "b"])
    with pytest.raises(DataError, match=r"--picture\): expected one arm, got 2 of them. Add --arm 'a'"):
        main([str(path), "--picture", str(tmp_path / "runs.svg")])
    with pytest.raises(DataError, match=r"--arm\): expected one of a, b, got 'c'\. Correct it\."):
        main([str(path), "--arm", "c"])
    without = write(tmp_path / "without.jsonl", [""])
    with pytest.raises(DataError, match=r"--arm\): expected none for readings without arms, got 'a'\. Leave it out\."):
        main([str(without), "--arm", "a"])
    with pytest.raises(DataError, match=r"got '.*none.jsonl', no file. Correct it."):
        main([str(tmp_path / "none.jsonl")])
    with pytest.raises(DataError, match=r"got '.*', a folder without records.jsonl. Correct it."):
        main([str(tmp_path)])
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "step-1.pt").touch()
    with pytest.raises(DataError, match=r"a folder without records.jsonl. Of checkpoints say what they were trained"):
        main([str(tmp_path / "checkpoints")])
    with pytest.raises(DataError, match=r"expected a run's folder, or a file of readings, got none. Name it."):
        main([])
    with pytest.raises(DataError, match=r"expected one run, or one file of readings, got 2 paths. Name one."):
        main([str(path), str(path)])
    with pytest.raises(DataError, match=r"got 'a.pt'. Of checkpoints say what they were trained on: --data"):
        main(["a.pt", "b.pt"])
    with pytest.raises(DataError, match=r"--picture\): expected a verdict to draw, got none"):
        main([str(path), "--arm", "a", "--split", "held out", "--picture", str(tmp_path / "runs.svg")])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--data", "some.npz", "--split", "test"], "--split): expected none beside --data, got 'test'"),
        (["--data", "some.npz", "--validation", "v"], "--validation): expected none beside --data, got 'v'"),
        (["--data", "some.npz", "--arm", "a"], "--arm): expected none beside --data, got 'a'"),
        (["--model", "nets:small"], "--model): expected none without --data, got 'nets:small'"),
        (["--picture", "a.foo"], r"--picture): expected a name that ends in .png or .svg, got 'a.foo'. Rename it."),
    ],
)
def test_options_that_would_be_ignored_are_refused(tmp_path, arguments, words):
    path = write(tmp_path / "readings.jsonl", [""])
    with pytest.raises(DataError, match=re.escape(words)):
        main([str(path), *arguments])


def test_a_picture_is_written_completely_or_not_at_all(tmp_path, monkeypatch):
    path, picture = write(tmp_path / "readings.jsonl", [""]), tmp_path / "runs.png"
    main([str(path), "--picture", str(picture)])
    before = picture.read_bytes()
    assert before.startswith(b"\x89PNG")

    def fail(figure, file, **options):
        Path(file).write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    with pytest.raises(OSError, match="no space left"):
        main([str(path), "--picture", str(picture)])
    assert picture.read_bytes() == before


@pytest.mark.parametrize("folder", [True, False])
def test_damaged_records_of_a_run_are_no_history(tmp_path, folder):
    path = write(tmp_path / "records.jsonl", ["a"])
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:3], "{broken\n", *lines[3:]]))
    with pytest.raises(DataError, match=r"records.jsonl\): expected a record with arm and step in line 4, got"):
        main([str(tmp_path if folder else path)])
    with pytest.raises(DataError, match=r"records.jsonl\): expected a record with arm and step in line 4, got"):
        main([str(tmp_path if folder else path), "--arm", "a"])


@pytest.mark.parametrize("name", ["", "records.jsonl", "link.jsonl"])
def test_altered_records_of_a_run_are_not_judged_by_any_name(tmp_path, name):
    found = open_run(tmp_path / "runs", "grok-digits", Config(), 0)
    path = write(found.folder / "records.jsonl", ["a"])
    found.finish()
    (found.folder / "link.jsonl").symlink_to(path)
    main([str(found.folder / name)])
    path.write_text(re.sub(r'"train/accuracy": [^,]+', '"train/accuracy": 0.5', path.read_text(), count=1))
    with pytest.raises(DataError, match=r"records\.jsonl\): expected what the run finished with, got another file"):
        main([str(found.folder / name)])


@pytest.mark.parametrize("name", ["", "records.jsonl"])
def test_a_history_may_stand_beside_a_configuration_of_ones_own(tmp_path, capsys, name):
    write(tmp_path / "records.jsonl", [None])
    (tmp_path / "config.json").write_text('{"experiment": "mine", "seed": 0}')
    assert main([str(tmp_path / name)]) == 0
    assert "with a probability of" in " ".join(capsys.readouterr().out.split())


@pytest.mark.bad_input
def test_a_pipe_or_a_device_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "records.jsonl")
    for path, kind in ((tmp_path / "records.jsonl", "a pipe"), (tmp_path, "a pipe"), (Path("/dev/zero"), "a device")):
        with pytest.raises(DataError, match=rf"\(PATH\): expected .* a file of readings, got .*, which is {kind}\. Co"):
            main([str(path)])
