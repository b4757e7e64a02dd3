"""A range stands in a field's type; all mistakes are told together, and the help says what is meant."""

import math
from dataclasses import dataclass
from typing import Annotated

import pytest

from gnomon.errors import RangeError
from gnomon_lab.cli.run_command import main
from gnomon_lab.settings import (
    Count,
    NonNegative,
    Positive,
    Range,
    Settings,
    Share,
    above,
    among,
    at_least,
    between,
    inside,
    ranges,
)


@dataclass(frozen=True)
class Config(Settings):
    """One field of each kind."""

    steps: Count = 3
    rate: Positive | None = None
    decay: NonNegative = 0.0
    goal: Share = 0.5
    arms: tuple[Annotated[str, among("a", "b")], ...] = ("a",)
    first: Annotated[int, Range("at most steps", lambda first, config: first <= config.steps)] = 1
    free: str = "anything"


@pytest.mark.parametrize(
    ("wanted", "inside_it", "outside"),
    [
        (above(0), (1e-300, 5), (0, -1, math.inf, math.nan)),
        (at_least(1), (1, 2**70), (0, -3)),
        (at_least(0.0), (0, 1e9), (-1e-9, math.inf, math.nan)),
        (between(2, 4), (2, 3, 4), (1, 5)),
        (inside(0, 1), (0.1, 0.9), (0, 1, math.nan)),
        (among("a", 3), ("a", 3), ("b", 4)),
    ],
    ids=lambda value: value.words if isinstance(value, Range) else "",
)
def test_ranges_hold_where_they_say(wanted, inside_it, outside):
    assert all(wanted.holds(value, None) for value in inside_it)
    assert not any(wanted.holds(value, None) for value in outside)


def test_what_is_right_is_taken():
    assert Config(steps=5, rate=0.1, arms=("b", "a"), first=5, threads=2).rate == 0.1
    assert Config().rate is None


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"threads": 0}, "threads from 1 to 1024, got 0"),
        ({"rate": 0.0}, "rate finite and above 0, got 0.0"),
        ({"decay": -1.0}, "decay finite and at least 0, got -1.0"),
        ({"arms": ()}, r"arms one or more among \('a', 'b'\), got \(\)"),
        ({"arms": ("a", "c")}, r"arms one or more among \('a', 'b'\), got \('a', 'c'\)"),
        ({"first": 4}, "first at most steps, got 4"),
        ({"steps": 2**63}, "steps below 2⁶³"),
        ({"steps": 0, "goal": 1.0, "first": 0}, r"steps at least 1, got 0; goal in \(0, 1\), got 1.0. Change these"),
    ],
)
def test_what_is_wrong_is_told_together(wrong, words):
    with pytest.raises(RangeError, match=rf"Config: expected {words}"):
        Config(**wrong)


def test_fields_without_a_range_are_left_alone():
    assert "free" not in ranges(Config)
    assert set(ranges(Config)) == {"threads", "steps", "rate", "decay", "goal", "arms", "first"}


def test_the_help_says_range_and_default(capsys):
    with pytest.raises(SystemExit):
        main(["rank", "--help"])
    said = " ".join(word for word in capsys.readouterr().out.split() if word != "│")
    assert "Width of the three hidden layers. (at least 1; default: 64)" in said
    assert "Losses, among cross-entropy and mse. (one or more among ('cross-entropy', 'mse'); default: mse)" in said
