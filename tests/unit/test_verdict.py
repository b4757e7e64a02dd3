"""The verdict: what it says of readings, whose words follow from probabilities, and when it says nothing."""

import dataclasses
import math

import numpy as np
import pytest
import torch

import gnomon
from gnomon import History, Probe, plot, stop_when, verdict
from gnomon.errors import EmptyError, RangeError, ShapeError
from gnomon.history import TRAITS, Corpus, _verdict, corpus, traits
from gnomon_lab.report.worth import worth

STEPS = [0, *(round(8 * 2 ** (half / 2)) for half in range(12))]
NAMES = corpus().quantities
VALIDATION = ("validation_accuracy", "validation_log_probability")


def readings(**changes):
    """Of a network that has fitted its training data, and rests."""
    rest = {
        "accuracy": 1.0, "log_probability": -1e-3, "parameter_norm": 20.0, "jacobian_norm": 5.0,
        "jacobian_alignment": 0.3, "centroid_alignment": 0.1, "explained_variance_ratio": 0.4,
    }  # fmt: skip
    return {name: [float(value)] * len(STEPS) for name, value in (rest | changes).items()}


@pytest.fixture
def made_up(monkeypatch):
    """A corpus of two networks, and one tree: the odds go up where the alignment rises, and down where it falls."""
    names = [f"{name}, {form}" for name in NAMES for form in TRAITS[name][1]]
    change = names.index("jacobian_alignment, change")
    run = {"seed": 0, "steps": [8, 16, 32, 64, 128], "unseen": [0.1, 0.2, 0.2, 0.2, 0.9], "places": [2]}
    here = {
        "quantities": list(NAMES),
        "traits": names,
        "middle": [0.0] * len(names),
        "width": [1.0] * len(names),
        "start": -1.0,
        "trees": [
            {
                "trait": [change, 0, change, 0, 0],
                "threshold": [-0.1, 0.0, 0.1, 0.0, 0.0],
                "left": [1, 1, 3, 3, 4],
                "right": [2, 1, 4, 3, 4],
                "value": [0.0, -1.0, 0.0, 0.0, 2.0],
            }
        ],
        "calibration": [2.0, 0.0],
        "ranges": {"edges": [0.5], "low": [-0.01, 0.05], "high": [0.04, 0.6], "doublings": [None, 3.0]},
        "limit": 20.0,
        "stop": 0.05,
        "runs": [
            run | {"family": "near", "rises": [True], "traits": [[0.0] * len(names)]},
            run | {"family": "far", "rises": [False], "traits": [[9.0] * len(names)]},
        ],
    }
    # With a validation split, from which it takes nothing but the traits' names, the odds are others.
    beside = [f"{name}, {form}" for name in VALIDATION for form in TRAITS[name][1]]
    also = {"traits": [*names, *beside], "middle": [0.0] * (len(names) + len(beside)), "start": -3.0, "stop": 0.005}
    here["with_validation"] = here | also
    monkeypatch.setattr(_verdict, "corpus", lambda: Corpus(here))
    return here


def rising(to):
    """An alignment that rises in the last doubling."""
    return [0.1] * (len(STEPS) - 1) + [0.1 + to]


def test_traits_are_levels_and_changes_by_doublings():
    steps = np.array([1.0, 2, 4, 8, 16])
    found = traits(steps, {"parameter_norm": 3 * steps**0.5, "accuracy": steps / 16, "log_probability": -1 / steps**2})
    assert found == {
        "parameter_norm, change": pytest.approx(0.5),
        "parameter_norm, change before": pytest.approx(0.5),
        "accuracy, level": 1.0,
        "accuracy, change": 0.5,
        "log_probability, level": pytest.approx(-8),
        "log_probability, change": pytest.approx(-2),
        "log_probability, change before": pytest.approx(-2),
    }


def test_traits_in_between_lie_on_lines_over_the_logarithm():
    found = traits(2 ** np.array([0.0, 0.8, 1.6, 2.4]), {"accuracy": np.array([0.0, 0.2, 0.6, 1.0])})
    assert found["accuracy, change"] == pytest.approx(1 - (0.2 + 0.75 * 0.4))
    found = traits(2 ** np.array([0.0, 0.8, 1.6, 2.4]), {"parameter_norm": np.array([1.0, 2.0, 8.0, 64.0])})
    assert found["parameter_norm, change before"] == pytest.approx(1 + 0.75 * 2 - 0.5)


def test_traits_are_those_of_all_multiples_of_the_steps():
    steps = np.array([0.0, 1, 2, 4, 8, 16])
    values = {"parameter_norm": 3 * (1 + steps) ** 0.5, "accuracy": steps / 16}
    for unit in (1e-3, 1 / 16, 100.0):
        assert traits(unit * steps, values) == pytest.approx(traits(steps, values))


def test_a_moment_that_rounding_puts_just_before_its_reading_is_at_it():
    """A quarter of the last of these steps is a reading: no doubling is between two readings that are far apart."""
    steps = np.array([1.0, 5, 10, 20])
    for unit in range(1, 500):
        assert traits(unit * steps, {"accuracy": steps / 20}) == {"accuracy, level": 1.0, "accuracy, change": 0.5}


def test_at_its_reading_a_moment_does_not_look_at_the_next():
    """Rounding puts some of these moments just behind their reading, and the next one has no value."""
    for unit in range(1, 100):
        found = traits(unit * np.array([1.0, 2, 4, 7, 8]), {"accuracy": np.array([0.0, 0.2, 0.5, math.nan, 0.75])})
        assert found == {"accuracy, level": 0.75, "accuracy, change": 0.25}


def test_two_doublings_that_are_almost_there_begin_at_the_first_reading():
    """2 doublings less a twentieth are enough; 39 / 4 is before the first reading, which then stands for it."""
    steps = np.array([10.0, 19.5, 39.0])
    assert traits(steps, {"parameter_norm": np.array([2.0, 8.0, 64.0])}) == {
        "parameter_norm, change": 3.0,
        "parameter_norm, change before": 2.0,
    }


@pytest.mark.parametrize(
    "steps", [[0, 1], [0, 1, 2], [1, 2, 3], [4, 8, 12], [1, 2, 3, 64], [1, 8, 64, 70], [10, 19, 38], [10, 21, 42]]
)
def test_traits_need_readings_of_two_doublings(steps):
    assert traits(np.array(steps, float), {"accuracy": np.ones(len(steps))}) is None


@pytest.mark.parametrize(
    ("changes", "says", "probability", "reached"),
    [
        ({"accuracy": 0.98}, "still fitting", 0.1192, False),
        ({}, "fits its training data and is still changing", 0.1192, False),
        ({"jacobian_alignment": rising(0.5)}, "generalising", 0.8808, False),
        ({"jacobian_alignment": rising(-0.5)}, "fits and is at rest", 0.0180, True),
    ],
)
def test_words_follow_from_the_probability(made_up, changes, says, probability, reached):
    lists = {name: value for name, value in changes.items() if isinstance(value, list)}
    values = readings(**{name: value for name, value in changes.items() if name not in lists}) | lists
    found = verdict(STEPS, **values)
    assert (found.says, found.reached) == (says, reached)
    assert found.probability == pytest.approx(probability, abs=1e-4)
    likely = probability > 0.5
    assert found.rise == ((0.05, 0.6) if likely else (-0.01, 0.04))
    assert found.expected_step == (8 * STEPS[-1] if likely else None)
    assert found.message.startswith(f"{says[0].upper()}{says[1:]}: with four times the steps unseen accuracy rises")
    before = (
        " Before training data are fitted that is right on average in the corpus, "
        "and hardly tried in ordinary training."
    )
    end = f"by step {8 * STEPS[-1]:,}." if likely else "points)."
    assert found.message.endswith(end + before * (says == "still fitting"))


def test_a_validation_split_says_why_it_rests_and_agrees_or_not(made_up):
    low = readings() | {"jacobian_alignment": rising(-0.5)}
    at = [0.5] * len(STEPS)
    assert verdict(STEPS, **low, validation_accuracy=at).says == "fits and is stuck"
    assert verdict(STEPS, **low, validation_accuracy=[0.95] * len(STEPS)).says == "settled"
    fell = verdict(STEPS, **low, validation_accuracy=[0.2, 0.6, 0.6, *at[3:]])
    assert fell.says == "fits and is stuck"
    best = f" Validation accuracy 60.0% at step {STEPS[2]} (its best) → 50.0% at step {STEPS[-1]}."
    assert fell.evidence.endswith(
        f"(the probability is not their share).{best} A validation split points the same way."
    )
    assert verdict(STEPS, **low, validation_accuracy=at).agrees is True
    other = verdict(STEPS, **low, validation_accuracy=[*at[:-1], 0.6])
    assert other.agrees is False
    assert other.evidence.endswith(
        f"(the probability is not their share). Validation accuracy 60.0% at step {STEPS[-1]} (its best). "
        "A validation split points the other way."
    )
    assert verdict(STEPS, **low).agrees is None


def test_the_probability_is_from_a_validation_split_too_where_it_has_what_is_needed(made_up):
    """Its log-probability as well, at the last two doublings of the steps."""
    accuracy, likely = [0.5] * len(STEPS), [-2.0] * len(STEPS)
    beside = {"validation_accuracy": accuracy, "validation_log_probability": likely}
    both = verdict(STEPS, **readings(), **beside)
    assert both.probability == pytest.approx(1 / (1 + math.exp(6)))
    assert (both.says, both.reached) == ("fits and is stuck", True)
    assert both.evidence.endswith("(its best). The probability is from the validation split too.")
    assert both.agrees is None, "the split is not asked twice"
    assert both.similar == verdict(STEPS, **readings()).similar
    alone = verdict(STEPS, **readings(), validation_accuracy=accuracy)
    assert alone.probability == pytest.approx(1 / (1 + math.exp(2)))
    assert "too" not in alone.evidence
    for kept in (slice(6), slice(-1), slice(-1, None)):
        seldom = np.full(len(STEPS), math.nan)
        seldom[kept] = -2.0
        assert verdict(STEPS, **readings(), **beside | {"validation_log_probability": seldom.tolist()}) == alone
    fewer = {name: values[::2] for name, values in beside.items()}
    assert verdict(STEPS, **readings(), **fewer, validation_steps=STEPS[::2]) == both


def test_limits_belong_to_what_is_judged_and_still_changes(made_up):
    """A distance at the limit is judged; at the probability below which training may end, it may not end."""
    found = verdict(STEPS, **readings())
    made_up["limit"], made_up["stop"] = found.distance, found.probability
    at = verdict(STEPS, **readings())
    assert (at.says, at.reached) == ("fits its training data and is still changing", False)


def test_a_probability_is_calibrated_and_half_is_likely(made_up):
    made_up["calibration"] = [2.0, 0.5]
    assert verdict(STEPS, **readings()).probability == pytest.approx(1 / (1 + math.exp(2 - 0.5)))
    made_up["calibration"], made_up["ranges"]["doublings"] = [2.0, 0.0], [2.0, 3.0]
    found = verdict(STEPS, **readings())
    assert found.expected_step == 4 * STEPS[-1]
    assert "Half of those" not in found.message
    made_up["calibration"] = [0.0, 0.0]
    found = verdict(STEPS, **readings(), validation_accuracy=[0.5] * (len(STEPS) - 1) + [0.6])
    assert (found.probability, found.says, found.agrees) == (0.5, "generalising", True)
    assert "Half of those" in found.message


def test_what_counts_is_the_last_accuracy(made_up):
    """Fitted at the last reading alone; a validation split ten points and a half below it is not settled."""
    fits = readings() | {"accuracy": [0.5] * (len(STEPS) - 1) + [1.0], "jacobian_alignment": rising(-0.5)}
    for last, says, reached in ((0.99, "fits and is at rest", True), (0.98, "still fitting", False)):
        found = verdict(STEPS, **fits | {"accuracy": [0.5] * (len(STEPS) - 1) + [last]})
        assert (found.says, found.reached) == (says, reached)
    held_out = [0.5] * (len(STEPS) - 1)
    assert verdict(STEPS, **fits, validation_accuracy=[*held_out, 0.9]).says == "settled"
    assert verdict(STEPS, **fits, validation_accuracy=[*held_out, 0.895]).says == "fits and is stuck"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("best", "last"), [(0.95, 0.9), (0.9, 0.85), (0.6, 0.55)])
def test_five_points_and_ten_are_so_in_spite_of_rounding(made_up, best, last, dtype):
    def judged(alignment, *accuracy):
        held_out = torch.tensor(accuracy, dtype=dtype)
        return verdict(STEPS, **readings() | {"jacobian_alignment": alignment}, validation_accuracy=held_out)

    rest = len(STEPS) - 1
    assert judged(rising(0.5), *[last] * rest, best).agrees is True
    assert judged(rising(-0.5), *[0.9] * len(STEPS)).says == "settled"


def test_a_network_that_fitted_and_falls_apart_is_not_still_fitting(made_up):
    falling = [0.5] * 6 + [0.99] + [0.9] * 4 + [0.6, 0.3]
    found = verdict(STEPS, **readings() | {"accuracy": falling, "jacobian_alignment": rising(-0.5)})
    assert (found.says, found.reached) == ("no longer fits its training data", False)
    assert found.message.startswith("No longer fits its training data: with four times the steps unseen accuracy rises")
    assert found.message.endswith(" points). The corpus has hardly any such networks.")
    assert "training accuracy 90.0% → 30.0%, log-probability" in found.evidence
    for best, last in ((0.992, 0.943), (0.992, 0.942)):  # a few samples, and five points
        dipped = verdict(STEPS, **readings() | {"accuracy": [0.5] * 6 + [best] * 6 + [last]})
        assert dipped.says == ("still fitting" if last == 0.943 else "no longer fits its training data")
    never = verdict(STEPS, **readings() | {"accuracy": [0.1] * len(STEPS)})
    assert never.says == "still fitting"
    assert "training accuracy 10.0% → 10.0%, log-probability" in never.evidence


def test_the_evidence_can_be_checked(made_up):
    """Also where the norm is gone, and where half of the last step lies between two readings."""
    norm, near = [20.0] * (len(STEPS) - 3) + [20.0, 15.0, 10.0], [-1.517] * (len(STEPS) - 2) + [-1.5, -1.483]
    changed = {"jacobian_norm": norm, "jacobian_alignment": rising(0.2), "log_probability": near}
    found = verdict(STEPS, **readings() | changed)
    assert found.evidence == (
        f"In the last doubling of the steps, up to step {STEPS[-1]}: training accuracy 100.0% → 100.0%, "
        "log-probability -1.52 → -1.48, weight norm 20 → 20, Jacobian norm 20 → 10, Jacobian alignment 0.1 → 0.3; "
        "1 of the 2 most similar runs rose by five points or more (the probability is not their share)."
    )
    gone = verdict(STEPS, **readings() | {"jacobian_norm": [5.0] * (len(STEPS) - 1) + [0.0]})
    assert "Jacobian norm 5 → 0," in gone.evidence
    five = {name: values[:5] for name, values in readings().items()}
    apart = verdict([1, 2, 4, 6, 9], **five | {"accuracy": [1.0, 1.0, 0.0, 1.0, 1.0]})
    assert f"training accuracy {math.log2(4.5 / 4) / math.log2(6 / 4):.1%} → 100.0%" in apart.evidence
    assert found.counterfactual == (
        "Most depends on the change of the Jacobian alignment in the last doubling: with the corpus's mean in its "
        "place the 88% would be 12%."
    )
    near, far = found.similar
    assert (near.family, near.step, near.rises, far.family) == ("near", 32, True, "far")


def test_distances_are_in_spreads_of_the_traits_and_so_is_what_is_unusual(made_up):
    """Means of 1 and spreads of 2, those of the log-probability 100: its 40 is less than the accuracy's -3."""
    names = made_up["traits"]
    made_up["middle"] = [1.0] * len(names)
    made_up["width"] = [100.0 if name.startswith("log_probability") else 2.0 for name in names]
    at = {"accuracy, level": -3.0, "log_probability, level": 40.0, "explained_variance_ratio, level": 4.6}
    row = np.array([at.get(name, 1.5) for name in names])
    spreads = (row - 1) / made_up["width"]
    found = Corpus(made_up).similar(row)
    assert [run.distance for run in found] == pytest.approx([math.sqrt(np.mean((spreads - at) ** 2)) for at in (0, 9)])
    assert Corpus(made_up).most_unusual(row) == "accuracy, level"


def test_what_is_unlike_the_corpus_is_not_judged(made_up):
    made_up["limit"] = 1.0
    found = verdict(STEPS, **readings())
    assert (found.says, found.probability, found.reached) == ("cannot tell", None, False)
    assert "unlike the runs that gnomon knows: distance" in found.message
    assert found.message.endswith("above 1.00; what is most unusual is the log-probability.")
    assert "similar" not in repr(found)
    assert len(found.similar) == 2


def test_steps_may_be_epochs_and_parts_of_them(made_up):
    steps = [step / 640 for step in STEPS]
    found = verdict(steps, **readings() | {"jacobian_alignment": rising(0.5)})
    assert found.evidence.startswith(f"In the last doubling of the steps, up to step {steps[-1]:,.12g}: ")
    assert found.message.endswith(f"by step {8 * steps[-1]:.3g}.")


def test_too_few_readings_are_not_judged():
    found = verdict([1, 2], **{name: values[:2] for name, values in readings().items()})
    assert found.message == (
        "Cannot tell. Too few readings: two doublings of the steps are needed, and no two readings in them further "
        "apart than one doubling."
    )


def test_the_units_of_steps_and_norms_do_not_matter():
    norms = {"parameter_norm": [20 - 0.3 * at for at in range(13)], "jacobian_norm": [5 + 0.2 * at for at in range(13)]}
    one = verdict(STEPS, **readings() | norms)
    scaled = {name: [7 * value for value in values] for name, values in norms.items()}
    other = verdict([3 * step for step in STEPS], **readings() | scaled)
    assert one.probability is not None
    assert one.probability != verdict(STEPS, **readings()).probability
    assert one.distance == pytest.approx(other.distance)
    assert (one.says, one.probability) == (other.says, pytest.approx(other.probability))


@pytest.mark.bad_input
def test_bad_readings_are_refused():
    with pytest.raises(RangeError, match=r"verdict\(jacobian_norm\): expected finite"):
        verdict(STEPS, **readings() | {"jacobian_norm": [math.nan] * len(STEPS)})
    with pytest.raises(ShapeError, match=r"verdict\(accuracy\): expected 13 readings as in steps"):
        verdict(STEPS, **readings() | {"accuracy": [1.0]})
    with pytest.raises(ShapeError, match=r"verdict\(validation_accuracy\): expected shape \(13,\) as steps has"):
        verdict(STEPS, **readings(), validation_accuracy=[0.5])
    with pytest.raises(
        ShapeError, match=r"\(validation_accuracy\): expected .* as steps has, got \(13, 1\)\. Pass one"
    ):
        verdict(STEPS, **readings(), validation_accuracy=[[0.5]] * 13)
    with pytest.raises(
        RangeError, match=r"verdict\(validation_accuracy\): expected a number at the last step, got NaN"
    ):
        verdict(STEPS, **readings(), validation_accuracy=[0.5] * 12 + [math.nan])
    with pytest.raises(RangeError, match=r"verdict\(validation_log_probability\): expected a validation_accuracy with"):
        verdict(STEPS, **readings(), validation_log_probability=[-0.5] * 13)
    with pytest.raises(ShapeError, match=r"\(validation_log_probability\): expected shape \(13,\) as steps has"):
        verdict(STEPS, **readings(), validation_accuracy=[0.5] * 13, validation_log_probability=[-0.5])
    with pytest.raises(RangeError, match=r"\(validation_log_probability\): expected numbers in \[-inf, 0\], got 0.5"):
        verdict(STEPS, **readings(), validation_accuracy=[0.5] * 13, validation_log_probability=[0.5] * 13)
    with pytest.raises(TypeError, match=r"verdict\(accuracy\): expected numbers, .* not NoneType\. Leave out what"):
        verdict(STEPS, **readings() | {"accuracy": [1.0] * 12 + [None]})
    with pytest.raises(RangeError, match=r"verdict\(steps\): expected numbers from 0 up, got -5.0"):
        verdict([-5, *STEPS[1:]], **readings())
    with pytest.raises(ShapeError, match=r"verdict\(steps\): expected one axis, got shape \(13, 1\)\. Flatten"):
        verdict([[step] for step in STEPS], **readings())
    with pytest.raises(EmptyError, match=r"verdict\(steps\): expected at least 1 readings"):
        verdict([], **{name: [] for name in NAMES})


@pytest.mark.parametrize(
    ("name", "value", "bounds"),
    [
        ("accuracy", 100.0, r"\[0, 1\], got 100"),
        ("accuracy", -0.5, r"\[0, 1\], got -0.5"),
        ("log_probability", 3.0, r"\[-inf, 0\], got 3"),
        ("parameter_norm", -1.0, r"\[0, inf\], got -1"),
        ("jacobian_norm", -5.0, r"\[0, inf\], got -5"),
        ("jacobian_alignment", 1.1, r"\[-1, 1\], got 1.1"),
        ("centroid_alignment", -1.1, r"\[-1, 1\], got -1.1"),
        ("explained_variance_ratio", 3.0, r"\[0, 1\], got 3"),
        ("validation_accuracy", 50.0, r"\[0, 1\], got 50"),
        ("validation_accuracy", math.inf, r"\[0, 1\], got inf"),
    ],
)
def test_what_no_quantity_can_be_is_not_judged(name, value, bounds):
    values = readings() | {name: [0.0] * (len(STEPS) - 1) + [value]}
    with pytest.raises(RangeError, match=rf"verdict\({name}\): expected numbers in {bounds} at index \(12,\)\. "):
        verdict(STEPS, **values)


def test_rounding_beyond_a_bound_is_judged():
    above = readings(accuracy=1 + 1e-7, log_probability=1e-7, explained_variance_ratio=1.0078)
    assert verdict(STEPS, **above, validation_accuracy=[1.0000001] * len(STEPS)).message


def history(**changes):
    """Of a probe with two splits."""
    found = History()
    values = readings(**changes)
    rows = [
        {"step": step} | {f"train/{name}": value[place] for name, value in values.items()}
        for place, step in enumerate(STEPS)
    ]
    for row in rows:
        row["validation/accuracy"] = 0.5
    found._extend(gnomon.probe._history.Row(row.pop("step"), row) for row in rows)
    return found


def test_a_history_is_asked_by_its_names(made_up):
    found = history().verdict()
    assert dataclasses.replace(found, similar=()) == dataclasses.replace(
        verdict(STEPS, **readings(), validation_accuracy=[0.5] * len(STEPS)), similar=()
    )
    assert history().verdict(validation=None).agrees is None
    also = history()
    for row in also:
        row.numbers["validation/log_probability"] = -2.0
    assert also.verdict().probability == pytest.approx(1 / (1 + math.exp(6)))
    assert also.verdict(validation=None).evidence == history().verdict(validation=None).evidence
    del [*also][3].numbers["validation/accuracy"]
    assert also.verdict().probability == pytest.approx(1 / (1 + math.exp(6)))


@pytest.mark.bad_input
def test_a_split_is_not_looked_for_under_plain_names(made_up):
    """They are the training data's by default alone: what is named has to be there."""
    plain = History()
    values = readings()
    plain._extend(
        gnomon.probe._history.Row(step, {name: value[place] for name, value in values.items()})
        for place, step in enumerate(STEPS)
    )
    assert plain.verdict().evidence == history().verdict(validation=None).evidence
    with pytest.raises(RangeError, match=r"History\(split\): expected test/accuracy, .*, got accuracy, "):
        plain.verdict("test")


@pytest.mark.bad_input
def test_a_split_that_is_not_there_is_named(made_up):
    with pytest.raises(
        RangeError, match=r"History\(validation\): expected a split of the readings with accuracy, got 'val'"
    ):
        history().verdict(validation="val")
    renamed = History()
    renamed._extend(
        gnomon.probe._history.Row(
            row.step, {name.replace("train/", "seen/"): value for name, value in row.numbers.items()}
        )
        for row in history()
    )
    with pytest.raises(RangeError, match=r"expected train/accuracy, .* The split 'seen' has them: name it\.$"):
        renamed.verdict()
    assert worth(renamed).endswith("train/explained_variance_ratio. The split 'seen' has them: name it.")
    assert renamed.verdict("seen").evidence == history().verdict().evidence
    with pytest.raises(RangeError, match=r"expected train/accuracy, .*, got no readings\. Measure them too\.$"):
        History().verdict()


def test_of_a_regression_it_is_said_that_there_is_none():
    of_a_regression = History()
    of_a_regression._extend([gnomon.probe._history.Row(1, {"train/jacobian_norm": 1.0})])
    with pytest.raises(
        RangeError, match=r"Measure them too, by these names; a verdict is of networks that classify\.$"
    ):
        of_a_regression.verdict()
    assert worth(of_a_regression).endswith(
        "train/explained_variance_ratio. Measure them too, by these names; a verdict is of networks that classify."
    )


@pytest.mark.parametrize("spoiled", [math.nan, math.inf])
def test_a_history_that_diverged_is_not_judged_by_an_earlier_step(made_up, spoiled):
    diverged, last = history(), STEPS[-1]
    [*diverged][-1].numbers["train/jacobian_norm"] = spoiled
    says = rf"expected finite values at step {last}, got NaN or infinity in train/jacobian_norm\. "
    with pytest.raises(RangeError, match=says):
        diverged.verdict()
    assert worth(diverged) == (
        f"No verdict: the readings lack finite values at step {last}, and have NaN or infinity in train/jacobian_norm. "
        "Judge the training before it diverged, from a history that ends there."
    )
    since = history()  # and of one quantity alone after the last complete reading
    since._extend([gnomon.probe._history.Row(last + 1, {"train/jacobian_norm": spoiled})])
    with pytest.raises(RangeError, match=rf"expected finite values at step {last + 1}, got NaN or infinity in train/"):
        since.verdict()
    recovered = history()
    [*recovered][3].numbers["train/jacobian_norm"] = spoiled
    left_out = f" Step {STEPS[3]} is left out: NaN or infinity in train/jacobian_norm."
    assert recovered.verdict().evidence == history().verdict().evidence + left_out
    assert recovered.verdict().message == history().verdict().message


def test_readings_that_are_left_out_are_named_where_that_leaves_too_few(made_up):
    """Of one reading per doubling, the one before the last is NaN; and then the one before it too, in another."""
    few = History()
    few._extend(gnomon.probe._history.Row(row.step, row.numbers) for row in [*history()][1::2])
    rows, too_few = [*few], verdict([1, 2], **{name: values[:2] for name, values in readings().items()}).evidence
    rows[-2].numbers["train/log_probability"] = math.nan
    why = f"{too_few} Step {rows[-2].step} is left out: NaN or infinity in train/log_probability."
    assert (few.verdict().evidence, few.verdict().message) == (why, f"Cannot tell. {why}")
    rows[-3].numbers["train/accuracy"] = math.inf
    assert few.verdict().message.endswith(
        f" 2 steps, {rows[-3].step} the first, {rows[-2].step} the last, are left out: NaN or infinity in "
        "train/accuracy, train/log_probability."
    )


@pytest.mark.parametrize("spoiled", [math.nan, math.inf, None])
def test_a_validation_split_that_the_last_step_lacks_is_left_out(made_up, spoiled):
    without = history()
    numbers = [*without][-1].numbers
    del numbers["validation/accuracy"]
    if spoiled is not None:
        numbers["validation/accuracy"] = spoiled
    assert without.verdict().agrees is None
    assert without.verdict().evidence.startswith(f"In the last doubling of the steps, up to step {STEPS[-1]}: ")


def test_a_validation_split_that_is_read_seldom_hides_no_reading(made_up):
    """It is judged by its own readings: the last alone, and then one per doubling."""
    seldom = history()
    for row in [*seldom][:-1]:
        del row.numbers["validation/accuracy"]
    assert seldom.verdict().says == "fits its training data and is still changing"
    assert seldom.verdict().agrees is None
    for kept in ([2, 4, 6, 8, 10, 12], [1, 3, 5, 7, 9, 11, 12]):
        also = history()
        for place, row in enumerate(also):
            row.numbers["validation/accuracy"] = 0.5 + 0.02 * place
            if place not in kept:
                del row.numbers["validation/accuracy"]
        assert also.verdict().agrees is True
        assert also.verdict().evidence.endswith("A validation split points the same way.")
    far = verdict(STEPS, **readings(), validation_accuracy=[0.6] + [math.nan] * 11 + [0.5])
    assert far.evidence.endswith(
        f" Validation accuracy 60.0% at step {STEPS[0]} (its best) → 50.0% at step {STEPS[-1]}."
    )


def test_a_validation_split_may_be_read_at_other_steps(made_up):
    """Its best may lie between two readings of the training data."""
    rest = readings() | {"jacobian_alignment": rising(-0.5)}
    at, held_out = [STEPS[0], STEPS[4] + 0.5, STEPS[-1]], [0.5, 0.9, 0.7]
    found = verdict(STEPS, **rest, validation_accuracy=held_out, validation_steps=at)
    assert f" Validation accuracy 90.0% at step {at[1]} (its best) → 70.0% at step {STEPS[-1]}." in found.evidence
    rows = [
        (step, {f"train/{name}": values[place] for name, values in rest.items()}) for place, step in enumerate(STEPS)
    ]
    rows[-1][1]["validation/accuracy"] = 0.7
    rows.insert(-1, (STEPS[-1] - 1, {"validation/accuracy": 0.9}))
    apart = History()
    apart._extend(gnomon.probe._history.Row(*row) for row in rows)
    assert f" Validation accuracy 90.0% at step {STEPS[-1] - 1} (its best) → 70.0% " in apart.verdict().evidence
    assert verdict(STEPS, **rest, validation_accuracy=[0.5] * 12 + [0.7]).says == "fits and is stuck"
    for wrong in ([1, 3], [STEPS[-1], STEPS[-1]], [math.nan, STEPS[-1]], [], [[1, STEPS[-1]]]):
        with pytest.raises(
            RangeError, match=rf"verdict\(validation_steps\): expected steps that increase up to {STEPS[-1]:,}, got"
        ):
            verdict(STEPS, **rest, validation_accuracy=[0.5, 0.7], validation_steps=wrong)
    with pytest.raises(ShapeError, match=r"\(validation_accuracy\): expected shape \(1,\)"):
        verdict(STEPS, **rest, validation_accuracy=[0.5, 0.7], validation_steps=[STEPS[-1]])


def test_a_reading_of_other_quantities_is_passed_over(made_up):
    also = history()
    also._extend([gnomon.probe._history.Row(2 * STEPS[-1], {"test/accuracy": math.nan})])
    assert also.verdict().evidence == history().verdict().evidence


@pytest.mark.bad_input
def test_a_history_without_what_is_looked_at_says_so():
    probe = Probe(torch.nn.Linear(2, 2), torch.ones(3, 2), [gnomon.jacobian_norm])
    probe.read(0)
    read = History()
    read.append(probe.read(0))
    with pytest.raises(RangeError, match=r"expected accuracy, log_probability, parameter_norm, .* got jacobian_norm"):
        read.verdict()


def test_a_training_is_stopped_by_it(made_up):
    model = torch.nn.Linear(4, 3)
    x, labels = torch.randn(12, 4, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3
    probe = Probe(model, (x, labels), [getattr(gnomon, name) for name in NAMES])
    stop = stop_when(verdict)
    assert not any(stop(probe.read(step)) for step in (1, 2, 4))
    assert stop.verdict.says == "still fitting"
    splits = Probe(model, {"train": (x, labels), "validation": (x, labels)}, [getattr(gnomon, name) for name in NAMES])
    of_train = stop_when(verdict, split="train", validation_accuracy="validation/accuracy")
    assert not any(of_train(splits.read(step)) for step in (1, 2, 4))
    assert dataclasses.replace(of_train.verdict, agrees=None, evidence="") == dataclasses.replace(
        stop.verdict, evidence=""
    )
    assert of_train.verdict.agrees is not None
    with pytest.raises(RangeError, match=r"Did you mean stop_when\(verdict, split='train'\)\?"):
        stop_when(verdict)(splits.read(1))


def test_the_picture_shows_each_similar_run(made_up):
    _, axes = plot.similar_runs(verdict(STEPS, **readings()))
    lines = [line for line in axes.lines if len(line.get_xdata()) == 5]
    np.testing.assert_allclose(lines[0].get_xdata(), [-2, -1, 0, 1, 2])
    assert axes.get_xlim() == (-4, 2)  # up to the last reading
    told = {text.get_text() for text in axes.get_legend().get_texts()}
    assert told == {"rose by less than five points: 1", "rose by five points or more: 1"}
    with pytest.raises(EmptyError, match="expected one with similar runs"):
        plot.similar_runs(verdict([1, 2], **{name: values[:2] for name, values in readings().items()}))
