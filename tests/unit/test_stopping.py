"""Stopping rules: what the criterion is shown, what it may answer, and going on from a history."""

import json
import math
import re
from dataclasses import dataclass

import pandas
import pytest
import torch
from torch import nn

import gnomon
from gnomon import Probe, Reading, every, plateau, stop_when
from gnomon.data import digits, standardise
from gnomon.errors import CheckpointError, RangeError
from gnomon.models import mlp


@dataclass(frozen=True)
class Parts:
    half: torch.Tensor
    whole: torch.Tensor


def readings(steps=4):
    """`size` has two values, of mean 2 at step 1, 4 at step 2; `parts.half` is half of that."""
    for step in range(1, steps + 1):
        size = torch.tensor([1.0, 3.0]) * step
        yield Reading(step, {"size": size, "parts": Parts(size.mean() / 2, size)}, {})


def test_the_criterion_is_asked_about_all_readings_so_far():
    asked = []

    def criterion(steps, size, half, *, level=0.5, least, name="unused"):
        asked.append((steps, size, half, level, least, name))
        return size[-1] >= least

    stop = stop_when(criterion, half="parts.half", least=6)
    assert stop.verdict is None
    assert [stop(reading) for reading in readings()] == [False, False, True, True]
    assert asked[:2] == [([1], [2.0], [1.0], 0.5, 6, "unused"), ([1, 2], [2.0, 4.0], [1.0, 2.0], 0.5, 6, "unused")]
    assert stop.verdict is True
    assert (stop.steps, stop.histories) == (
        [1, 2, 3, 4],
        {"size": [2.0, 4.0, 6.0, 8.0], "parts.half": [1.0, 2.0, 3.0, 4.0]},
    )


@pytest.mark.parametrize("spoiled", [math.nan, math.inf])
def test_a_reading_without_a_finite_value_is_left_out(spoiled):
    stop = stop_when(lambda steps, size: len(steps) == 2)
    first, second, third, _ = readings()
    second.values["size"] = torch.tensor(spoiled)
    assert [stop(reading) for reading in (first, second, third)] == [False, False, True]
    assert stop.steps == [1, 3]


def test_a_criterion_cannot_change_the_history():
    stop = stop_when(lambda steps, size: bool(steps.clear() or size.clear()))
    assert [stop(reading) for reading in readings()] == [False] * 4
    assert stop.histories == {"size": [2.0, 4.0, 6.0, 8.0]}


@pytest.mark.parametrize("answer", [True, torch.tensor(True), 1, Reading, torch.ones(1).numpy()[0] > 0])
def test_answers(answer):
    if answer is Reading:

        class Verdict:
            reached = True

        answer = Verdict()
    stop = stop_when(lambda size: answer)
    assert stop(next(readings())) is True
    assert stop.verdict is answer


def test_keywords_of_any_name_reach_a_criterion_that_takes_them():
    stop = stop_when(lambda **series: len(series["ends"]) == series["least"], ends="size.max", least=2)
    assert [stop(reading) for reading in readings(2)] == [False, True]
    assert stop.histories == {"size.max": [3.0, 6.0]}


def test_the_plateau_of_a_training():
    """As in the documentation: a network that has nothing left to learn, and what says so."""
    train, _ = standardise(*digits(40, generator=torch.Generator().manual_seed(0)))
    model = mlp((64, 16, 10), generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    quantities = {"alignment": gnomon.centroid_alignment, "pc1": gnomon.explained_variance_ratio}
    probe = Probe(model, train, quantities, every(5))
    stop = stop_when(plateau, high=-1.0, rank_one=0.0)
    stop.load_state_dict({"steps": [0], "histories": {"alignment": [-1.0], "pc1": [1.0]}})
    for step in range(1, 1000):
        if (reading := probe(step)) and stop(reading):
            break
        optimizer.step()
    # The first with three readings in (T / 4, T / 2].
    assert step == next(
        last for last in range(0, 1000, 5) if sum(last / 4 < t <= last / 2 for t in range(0, last, 5)) == 3
    )
    assert stop.verdict.message.startswith("More training is unlikely to help: PC1 is 0.")
    assert stop.verdict == plateau(stop.steps, *stop.histories.values(), high=-1.0, rank_one=0.0)


def test_a_history_goes_through_a_checkpoint():
    def stopping():
        return stop_when(lambda steps, size: sum(size) > 11 and steps[0] == 1)

    unbroken, before, after = stopping(), stopping(), stopping()
    first, second, third, _ = readings()
    assert not any(stop(reading) for stop in (unbroken, before) for reading in (first, second))
    state = before.state_dict()
    before(third)
    after.load_state_dict(json.loads(json.dumps(state)))
    assert unbroken(third)
    assert after(third)
    assert after.state_dict() == unbroken.state_dict()
    assert state == {"steps": [1, 2], "histories": {"size": [2.0, 4.0]}}


def test_what_is_wrong_is_named():
    first, second, *_ = readings()
    with pytest.raises(RangeError, match=r"stop_when\(hihg\): expected one of steps, alignment, .*mean high\?"):
        stop_when(plateau, hihg=0.3)
    with pytest.raises(RangeError, match=r"stop_when\(x\): expected one of size, got x\. Leave it out"):
        stop_when(lambda size: True, x=1)
    with pytest.raises(
        RangeError, match=r"expected length, width in the reading, got size, .*Measure length, width too"
    ):
        stop_when(lambda length, size, width: True)(first)
    half = stop_when(lambda half: True)
    with pytest.raises(
        RangeError, match=r"got size, parts.half, parts.whole. Did you mean stop_when\(<lambda>, half='parts.half'\)\?"
    ):
        half(first)
    assert half.steps == []
    again = stop_when(lambda size: False)
    again(second)
    for reading in (second, first):
        with pytest.raises(RangeError, match=rf"expected a reading after step 2, got step {reading.step}\. Make a new"):
            again(reading)
    with pytest.raises(RangeError, match=r"expected the history of size, got half\. Ask for the same"):
        again.load_state_dict({"steps": [1], "histories": {"half": [1.0]}})


@pytest.mark.parametrize(
    ("measured", "keywords", "hint"),
    [
        (("jacobian_alignment", "explained_variance_ratio"), {}, r"alignment='jacobian_alignment', {pc1}\)\?$"),
        (
            ("centroid_alignment", "explained_variance_ratio"),
            {"high": 0.3, "alignment": "centroid_alignment"},
            r"high=0\.3, alignment='centroid_alignment', {pc1}\)\?$",
        ),
        (("jacobian_alignment",), {}, r"{pc1}\)\? Measure explained_variance_ratio too\.$"),
        (
            ("train/jacobian_alignment", "train/explained_variance_ratio"),
            {"split": "train", "alignment": "train/jacobian_alignment"},
            r"split='train', alignment='train/jacobian_alignment', pc1='train/explained_variance_ratio'\)\?$",
        ),
    ],
)
def test_the_hint_names_all_that_plateau_needs_and_keeps_what_was_given(measured, keywords, hint):
    """There is no quantity `pc1`."""
    reading = Reading(0, dict.fromkeys(measured, torch.tensor(0.5)), {})
    message = r"Did you mean stop_when\(plateau, .*" + hint.format(pc1="pc1='explained_variance_ratio'")
    with pytest.raises(RangeError, match=message):
        stop_when(plateau, **keywords)(reading)


@pytest.mark.parametrize(
    ("measured", "keywords", "hint"),
    [
        # Another quantity, or another split than the one asked for, would be taken without a word, and be wrong.
        ({"jacobian_alignment", "parameter_norm"}, {}, "Measure accuracy, jacobian_norm too."),
        (
            {"test/accuracy", "test/jacobian_norm"},
            {"split": "train"},
            "Measure train/accuracy, train/jacobian_norm too.",
        ),
        ({"mse_decomposition.accuracy", "accuracies_of_all"}, {}, "Measure accuracy, jacobian_norm too."),
        # The same quantity at a layer, on the split if none was asked for, or misspelt.
        (
            {"test/2/jacobian_norm", "train/2/jacobian_norm", "train/accuracy"},
            {"split": "train"},
            "Did you mean stop_when(both, split='train', jacobian_norm='train/2/jacobian_norm')?",
        ),
        (
            {"all/accuracy", "test/accuracy", "test/jacobian_norm"},
            {},
            "Did you mean stop_when(both, split='test')?",
        ),
        (
            {"accuracy", "jacobian_nrom"},
            {},
            "Did you mean stop_when(both, jacobian_norm='jacobian_nrom')?",
        ),
        (
            {"test/accuracy", "test/jacobian_norm", "train/jacobian_norm"},
            {"accuracy": "test/acuracy", "jacobian_norm": "train/jacobian_nrom"},
            "Did you mean stop_when(both, accuracy='test/accuracy', jacobian_norm='train/jacobian_norm')?",
        ),
    ],
)
def test_the_hint_names_the_same_quantity_or_none(measured, keywords, hint):
    def both(accuracy, jacobian_norm):
        return True

    reading = Reading(0, dict.fromkeys(sorted(measured), torch.tensor(0.5)), {})
    with pytest.raises(RangeError, match=rf"\. {re.escape(hint)}$"):
        stop_when(both, **keywords)(reading)


@pytest.mark.parametrize("split", [None, "train"])
def test_plateau_without_an_alignment_is_told_which_there_are(split):
    prefix = "" if split is None else "train/"
    reading = Reading(0, {f"{prefix}rank_me": torch.tensor(0.5)}, {})
    given = "" if split is None else "split='train', "
    hint = (
        f"Did you mean stop_when(plateau, {given}alignment='{prefix}jacobian_alignment', "
        f"pc1='{prefix}explained_variance_ratio')? Measure {prefix}jacobian_alignment or {prefix}centroid_alignment, "
        f"{prefix}explained_variance_ratio too."
    )
    with pytest.raises(RangeError, match=rf"\. {re.escape(hint)}$"):
        stop_when(plateau, split=split)(reading)


@pytest.mark.parametrize("answer", [None, 0.5, "yes", nn.Identity()])
def test_an_answer_that_is_no_verdict_is_an_error(answer):
    """A result without `reached` is true, and would stop each training at its first reading."""
    with pytest.raises(
        RangeError, match=r"stop_when\(<lambda>\): expected True, False or a result with `reached`, got"
    ):
        stop_when(lambda size: answer)(next(readings()))


@pytest.mark.bad_input
@pytest.mark.parametrize(
    ("state", "got"),
    [
        ({}, "one with steps and their histories, got one with nothing"),
        (None, "one with steps and their histories, got none"),
        ({"steps": [1], "histories": 3}, "one with steps and their histories, got one with steps, histories"),
        ({"steps": 3, "histories": {"size": [3]}}, "one with steps and their histories, got one with steps, histories"),
        ({"steps": [3], "histories": {"size": 3}}, "one with steps and their histories, got one with steps, histories"),
        ({"steps": [1, 2], "histories": {"size": [0.1]}}, "a value of each quantity for each of its 2 steps, got 1 of"),
    ],
)
def test_what_is_no_history_is_named(state, got):
    with pytest.raises(CheckpointError, match=rf"stop_when\(state_dict\): expected {got}"):
        stop_when(lambda size: True).load_state_dict(state)


def test_a_rule_about_steps_alone_has_no_histories():
    rule = stop_when(lambda steps: True)
    rule.load_state_dict({"steps": [1, 2], "histories": {}})
    assert rule.steps == [1, 2]


@pytest.mark.bad_input
@pytest.mark.parametrize("criterion", [3, None, max])
def test_what_has_no_named_arguments_is_no_criterion(criterion):
    message = (
        r"stop_when\(criterion\): expected a function whose arguments have names, got .*\. Pass one, such as gnomon"
    )
    with pytest.raises(TypeError, match=message):
        stop_when(criterion)


@pytest.mark.bad_input
def test_a_data_frame_of_a_history_is_looked_at_by_position():
    steps = [10, 20, 40, 80, 160, 320, 640]
    high = [0.1, 0.4, 0.9, 0.9, 0.9, 0.9, 0.9]
    frame = pandas.DataFrame({"alignment": high, "pc1": high}, index=steps)
    assert plateau(frame.index, frame["alignment"], frame["pc1"]) == plateau(steps, high, high)
