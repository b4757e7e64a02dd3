"""`gnomon verdict`: on a run with arms, on a history, with a picture, and on what it cannot read."""

import json

import pytest

from gnomon.errors import DataError, RangeError
from gnomon_lab.cli.verdict_command import main
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


@pytest.mark.bad_input
def test_what_cannot_be_told_says_why(tmp_path):
    path = write(tmp_path / "readings.jsonl", ["a", "b"])
    with pytest.raises(DataError, match=r"--picture\): expected one arm, got 2 of them. Add --arm 'a'"):
        main([str(path), "--picture", str(tmp_path / "runs.svg")])
    with pytest.raises(DataError, match="expected a file of readings"):
        main([str(tmp_path / "none.jsonl")])
    with pytest.raises(RangeError, match=r"accuracy, log_probability"):
        main([str(path), "--split", "held out"])
