"""`gnomon verdict`: on a run with arms, on a history, with a picture, and on what it cannot read."""

import json

import pytest
import torch

from gnomon.errors import DataError, RangeError
from gnomon.history import corpus
from gnomon_lab.cli.measure_command import main as measure
from gnomon_lab.cli.verdict_command import main
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


def test_a_history_has_no_arms_and_gets_a_picture(tmp_path, capsys):
    path = write(tmp_path / "readings.jsonl", [""])
    main([str(path), "--picture", str(tmp_path / "runs.svg")])
    said = capsys.readouterr().out
    assert said.rstrip().endswith(f"written: {tmp_path / 'runs.svg'}")
    assert (tmp_path / "runs.svg").read_text().startswith("<?xml")


def test_checkpoints_are_measured_first(folder, capsys):
    for step in (1, 2, 4, 8):
        weights = {name: tensor * (1 + step / 10) for name, tensor in network().state_dict().items()}
        torch.save(weights, f"ckpt-{step}.pt")
    assert main(["ckpt-*.pt", "--data", "some.npz", "--model", "nets:small"]) in (0, 1)
    said = capsys.readouterr()
    assert "4 checkpoints, steps 1 to 8" in said.err
    assert said.out.partition(":")[0].partition(".")[0] in ("Cannot tell", "Still fitting")
    measure(["ckpt-*.pt", "--data", "some.npz", "--model", "nets:small", "--quantities", *corpus().quantities])
    (told,) = (line for line in capsys.readouterr().err.splitlines() if "is more training worth it?" in line)
    assert told.partition("? ")[2] == said.out.splitlines()[0]


@pytest.mark.bad_input
def test_what_cannot_be_told_says_why(tmp_path):
    path = write(tmp_path / "readings.jsonl", ["a", "b"])
    with pytest.raises(DataError, match=r"--picture\): expected one arm, got 2 of them. Add --arm 'a'"):
        main([str(path), "--picture", str(tmp_path / "runs.svg")])
    with pytest.raises(DataError, match=r"got '.*none.jsonl'. Of checkpoints say what they were trained on: --data"):
        main([str(tmp_path / "none.jsonl")])
    with pytest.raises(DataError, match=r"got 2 paths. Of checkpoints say"):
        main(["a.pt", "b.pt"])
    with pytest.raises(RangeError, match=r"accuracy, log_probability"):
        main([str(path), "--split", "held out"])
