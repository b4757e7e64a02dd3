"""who-knows-first: its numbers against scikit-learn's and SciPy's, and made-up predictors."""

import math

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from gnomon.errors import DataError
from gnomon_lab.papers.own._board import ByFamily, areas, beyond, in_time, judged, resamples
from gnomon_lab.papers.own._judged import (
    AHEAD,
    Predictions,
    alarm,
    auroc,
    lead,
    predictions_when_fitted,
    rank_correlation,
    resampled_auroc,
    will_generalise,
)
from gnomon_lab.papers.own._outcome import rises
from gnomon_lab.papers.own._watched import changes, read_corpus, watched
from gnomon_lab.papers.own.who_knows_first.page import claims, figures, summary, table
from gnomon_lab.papers.own.who_knows_first.run import Config, run
from gnomon_lab.runs import Run

STEPS = np.round(8 * 2 ** (np.arange(13) / 2)).astype(int)
FITTED = 4
NAMES = ("train/oracle", "train/nothing", "train/turned", "train/accuracy")


def columns(seeds=20, families=("a", "b", "c")):
    """Networks of which every second one rises at reading 10: an oracle, noise, and what changes sign in family c.

    The noise of one that rises is that of one that does not.
    """
    random = np.random.default_rng(0)
    noise = random.standard_normal((seeds, len(families), len(STEPS) + 1))
    rows = []
    for seed in range(seeds):
        for which, family in enumerate(families):
            rises = seed % 2 == 0
            for place, step in enumerate([0, *STEPS]):
                risen = rises and place > 10
                outcome = place >= FITTED and rises
                rows.append({
                    "seed": seed, "arm": family, "step": step, "diverged": None,
                    "test/accuracy": 0.2 + 0.7 * risen + 0.001 * random.random(),
                    "train/accuracy": float(place > FITTED),
                    "train/oracle": outcome + 0.1 * random.random(),
                    "train/nothing": noise[seed // 2, which, place],
                    "train/turned": (1 if family != "c" else -1) * outcome + 0.1 * random.random(),
                })  # fmt: skip
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@pytest.fixture(scope="module")
def networks():
    names, found = watched(columns())
    return names, {family: [each for each in found if each.family == family] for family in "abc"}


def of(networks, name, form="levels"):
    names, by_family = networks
    place = names.index(name)
    return {family: [getattr(each, form)[:, place] for each in those] for family, those in by_family.items()}


def test_networks_are_read_without_what_is_unseen(networks):
    names, by_family = networks
    assert names == ["step", "train/accuracy", "train/nothing", "train/oracle", "train/turned"]
    first = by_family["a"][0]
    assert (first.steps.tolist(), first.fits, first.diverged) == (STEPS.tolist(), FITTED, False)
    assert will_generalise(first, FITTED)
    assert not will_generalise(by_family["a"][1], FITTED)
    np.testing.assert_allclose(first.levels[:, 0], STEPS)


def test_a_network_that_diverged_does_not_generalise():
    table = columns(seeds=1, families=("a",))
    table["diverged"] = np.array([None] * 13 + ["why"], dtype=object)
    _, (network,) = watched(table)
    assert network.diverged
    assert not will_generalise(network, FITTED)


def test_a_corpus_that_is_not_there_is_named_with_what_makes_it(tmp_path):
    with pytest.raises(DataError, match=r"no file '.*none\.parquet'. Call `gnomon run corpus --seeds 0-49`"):
        read_corpus(tmp_path / "none.parquet")
    (tmp_path / "words.parquet").write_text("no table")
    with pytest.raises(DataError, match=r"--corpus\): expected a table .* got '.*words\.parquet', which is no Parquet"):
        read_corpus(tmp_path / "words.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"step": [1], "seed": [0]}), tmp_path / "other.parquet")
    with pytest.raises(DataError, match=r"got '.*other\.parquet', without arm, test/accuracy, train/accuracy\. Call"):
        read_corpus(tmp_path / "other.parquet")


def test_auroc_is_that_of_scikit_learn():
    random = np.random.default_rng(1)
    scores, outcomes = random.integers(0, 6, 40).astype(float), random.random(40) < 0.4
    found = Predictions(np.arange(40), scores, outcomes)
    np.testing.assert_allclose(auroc(found), roc_auc_score(outcomes, scores))
    draws = random.multinomial(40, np.full(40, 1 / 40), 5).astype(float)
    expected = [roc_auc_score(outcomes, scores, sample_weight=weights) for weights in draws]
    np.testing.assert_allclose(resampled_auroc(found, draws), expected)
    assert math.isnan(auroc(Predictions(np.arange(2), np.ones(2), np.ones(2, bool))))


def test_rank_correlation_is_that_of_scipy(networks):
    _, by_family = networks
    scores, those = of(networks, "train/nothing")["a"], by_family["a"]
    value, drawn = rank_correlation(those, scores, np.ones((1, len(those))))
    known = np.concatenate([score[:-AHEAD] for score in scores])
    rises = np.concatenate([each.unseen[AHEAD:] - each.unseen[:-AHEAD] for each in those])
    np.testing.assert_allclose([value, drawn[0]], spearmanr(known, rises).statistic, rtol=1e-12)


def test_an_oracle_is_known_and_leads_by_the_doublings_in_between(networks):
    _, by_family = networks
    found = alarm(by_family["a"], of(networks, "train/oracle")["a"])
    assert found.false <= 0.1
    assert found.leads == (pytest.approx(math.log2(STEPS[10] / STEPS[FITTED])),) * 10


def test_an_alarm_is_false_wherever_one_would_be_in_time(networks):
    _, by_family = networks
    steps = of(networks, "step")["a"]
    found = alarm(by_family["a"], steps)
    assert found.threshold == STEPS[-1], "those that do not generalise get as far as the others"
    assert set(found.leads) == {-math.inf}


def test_a_rise_of_ten_points_is_one_to_the_last_digit():
    exact = [np.float32(count + 200) / np.float32(2000) - np.float32(count) / np.float32(2000) for count in range(1801)]
    assert not all(rise >= 0.1 for rise in exact)
    assert all(rises(float(rise)) for rise in exact)
    assert not rises(199 / 2000)


def test_networks_are_found_in_any_order_of_their_rows():
    table = columns(seeds=2)
    table["diverged"] = np.array([None] * len(table["seed"]), dtype=object)
    order = np.random.default_rng(0).permutation(len(table["seed"]))
    mixed = {name: column[order] for name, column in table.items()}
    _, there = watched(table)
    found = {(each.seed, each.family): each for each in watched(mixed)[1]}
    assert len(found) == len(there) == 6
    for each in there:
        other = found[each.seed, each.family]
        np.testing.assert_array_equal(each.levels, other.levels)
        np.testing.assert_array_equal(each.changes, other.changes)
        assert (each.fits, each.diverged) == (other.fits, other.diverged)


def test_a_line_that_says_that_a_network_diverged_is_no_reading():
    table = columns(seeds=1, families=("a",))
    extended = {name: np.append(column, [column[-1]]) for name, column in table.items()}
    extended["test/accuracy"][-1], extended["train/accuracy"][-1] = np.nan, np.nan
    extended["diverged"] = np.array([None] * 14 + ["why"], dtype=object)
    _, (network,) = watched(extended)
    assert network.steps.tolist() == STEPS.tolist()
    assert network.diverged
    extended["diverged"] = np.array([None] * 15, dtype=object)
    assert watched(extended)[1][0].diverged, "the last reading has no value"


def test_a_rival_is_asked_of_the_same_networks(networks):
    _, by_family = networks
    draws = resamples(by_family, 20, np.random.default_rng(0))
    oracle, nothing = of(networks, "train/oracle"), of(networks, "train/nothing")
    rival = {"a": oracle["a"], "b": nothing["b"], "c": nothing["c"]}
    some = {name: [np.full(13, np.nan)] * 20 if name != "a" else each for name, each in rival.items()}
    both = {name: some[name] if name == "c" else rival[name] for name in rival}
    none = {"value": 0.0, "low": 0.0, "high": 0.0}
    assert beyond(by_family, both, rival, draws) == none
    assert beyond(by_family, rival, both, draws) == none


def test_an_alarm_that_never_rings_leads_by_minus_infinity(networks):
    _, by_family = networks
    assert lead(by_family["a"][0], np.zeros(13), 1.0) == -math.inf
    assert in_time([-math.inf, -math.inf, 1.0]) == {"in_time": 1 / 3, "median": None, "networks": 3}
    assert in_time([]) == {"in_time": None, "median": None, "networks": 0}


def test_what_is_asked_later_is_asked_of_those_that_are_read_there(networks):
    _, by_family = networks
    scores = of(networks, "train/oracle")["a"]
    last = 13 - AHEAD - 1 - FITTED
    assert len(predictions_when_fitted(by_family["a"], scores, last).outcomes) == 20
    assert len(predictions_when_fitted(by_family["a"], scores, last + 1).outcomes) == 0


def test_changes_are_of_the_last_doubling():
    levels = np.array([[1.0, -1.0], [2.0, 0.0], [4.0, 3.0], [2.0, 1.0]])
    found = changes(levels, np.array([True, False]))
    np.testing.assert_array_equal(found[:2], np.nan)
    np.testing.assert_allclose(found[2:], [[2.0, 4.0], [0.0, 1.0]])


def test_the_board_knows_an_oracle_from_noise_and_from_what_points_elsewhere_in_one_family(networks):
    _, by_family = networks
    draws = resamples(by_family, 200, np.random.default_rng(0))
    oracle, nothing, turned = (
        judged(by_family, of(networks, f"train/{name}"), draws) for name in ("oracle", "nothing", "turned")
    )
    assert oracle["left_out"]["value"] == oracle["all"]["value"] == 1
    assert oracle["own"] == oracle["high"]
    assert oracle["own"]["in_time"] == oracle["elsewhere"]["in_time"] == 1
    assert oracle["elsewhere"]["false"] == pytest.approx(0.1, abs=0.1), "the others' threshold is not the family's own"
    assert oracle["families"]["a"] | {"correlation": None} == {
        "value": 1.0, "low": 1.0, "high": 1.0, "correlation": None, "networks": 20, "asked": 20, "generalise": 10
    }  # fmt: skip
    assert nothing["left_out"]["low"] < 0.5 < nothing["left_out"]["high"]
    # Of family c the others say the contrary of what holds there.
    assert turned["left_out"]["value"] == pytest.approx(2 / 3)
    assert turned["families"]["c"]["value"] == 0
    assert turned["all"]["value"] == pytest.approx(2 / 3)
    assert oracle["later"][0] == {key: oracle["left_out"][key] for key in ("value", "low", "high")}


def test_directions_are_those_of_the_other_families(networks):
    _, by_family = networks
    draws = resamples(by_family, 10, np.random.default_rng(0))
    found = areas(by_family, of(networks, "train/turned"), draws)
    np.testing.assert_array_equal(found.signs(found.values), [1, 1, 1])
    alone = ByFamily(np.array([0.1, 0.9, 0.2]), np.zeros((1, 3)), 0.5)
    np.testing.assert_array_equal(alone.signs(alone.values), [1, -1, 1])
    only = ByFamily(np.array([0.9, np.nan, np.nan]), np.zeros((1, 3)), 0.5)
    np.testing.assert_array_equal(only.signs(only.values), [np.nan, 1, 1])


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """The board of the made-up networks, in which the numbers go by the names of those that papers speak of."""
    table = columns()
    named = {"oracle": "some/centroid_alignment", "nothing": "train/nc1", "turned": "validation/accuracy"}
    table = {named.get(name.removeprefix("train/"), name): column for name, column in table.items()}
    folder = tmp_path_factory.mktemp("board")
    pyarrow.parquet.write_table(pyarrow.table(table), folder / "corpus.parquet")
    board = Run(folder, 0)
    run(Config(resamples=50, corpus=str(folder / "corpus.parquet")), board)
    return board.records()


def test_the_best_stand_first_and_papers_and_baselines_are_shown(records):
    assert [record["form"] for record in records] == ["level"] * 5 + ["change"] * 4
    shown = table(records)[1]
    assert shown[0][:2] == ("some/centroid_alignment, level", "1.00 (1.00 to 1.00)")
    assert {"train/nc1, level", "validation/accuracy, change", "step, level"} <= {row[0] for row in shown}
    assert summary(records).startswith(
        "Of 9 predictors some/centroid_alignment, level tells most of families left out: AUROC 1.00"
    )


def test_the_picture_has_a_row_a_predictor(records):
    figure, over_time = figures(records)
    (panel,) = figure.panels
    assert panel.rows[0] == "some/centroid_alignment, level"
    assert [points.label for points in panel.points] == ["families left out", "a", "b", "c"]
    best, named = over_time.panels
    assert best.lines[0].label == "some/centroid_alignment, level"
    assert best.lines[0].y[0] == 1
    assert [line.label for line in named.lines] == ["some/centroid_alignment, level", "train/nc1, level"]


def test_claims_are_judged_in_the_direction_that_the_paper_says(records):
    found = claims([records])
    assert [claim.message.partition(",")[0].partition(" leads")[0].partition(" tells")[0] for claim in found] == (
        ["centroid alignment"] * 3
        + ["NC1"] * 3
        + ["weight norm", "local learning coefficient", "heavy-tail exponent"]  # which nobody read
    )
    assert [claim.holds for claim in found] == [True] * 3 + [False] * 6
    assert found[1].measured == "for 100% of 30; median 3.0 doublings"


def told(areas, alarms=0.51, change=(0.05, 0.01, 0.1), predictor="train/nc1", way="low"):
    """The one predictor that is read: its AUROC, its alarms in one direction, and its lead on one form of the split."""
    numbers = ("value", "low", "high")
    beyond = {"level": (0.2, 0.1, 0.3), "change": change}
    ring = {"in_time": alarms, "median": None, "networks": 9}
    return {
        "predictor": predictor, "form": "level", "all": dict(zip(numbers, areas, strict=True)),
        "high": ring | {"in_time": 1 - alarms}, "low": ring | {"in_time": 1 - alarms}, way: ring,
        "beyond_validation": {name: dict(zip(numbers, each, strict=True)) for name, each in beyond.items()},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("areas", "change", "holds"),
    [
        ((0.3, 0.2, 0.49), {}, [True, True, True]),
        ((0.3, 0.2, 0.5), {}, [False, True, True]),
        ((0.7, 0.6, 0.8), {}, [False, True, True]),
        ((0.3, 0.2, 0.49), {"alarms": 0.5}, [True, False, True]),
        ((0.3, 0.2, 0.49), {"change": (0.05, 0.0, 0.1)}, [True, True, False]),
        ((0.3, 0.2, 0.49), {"change": (None, None, None)}, [True, True, True]),
        ((0.3, 0.2, 0.49), {"change": (0.3, -0.1, 0.7)}, [True, True, True]),
    ],
)
def test_a_predictor_is_judged_the_way_it_is_claimed_and_beside_the_better_form_of_the_split(areas, change, holds):
    assert [claim.holds for claim in claims([[told(areas, **change)]])[1:4]] == holds
    mirrored = told([1 - areas[0], 1 - areas[2], 1 - areas[1]], **change,
                    predictor="some/centroid_alignment", way="high")  # fmt: skip
    assert [claim.holds for claim in claims([[mirrored]])[:3]] == holds
    other_form = told(areas, **change) | {"form": "change"}
    assert not any(claim.holds for claim in claims([[other_form], [told(areas)]])), "the level of the first seed counts"


def test_what_is_measured_is_turned_the_claimed_way():
    _, tells, leads, more, *_ = claims([[told((0.3, 0.2, 0.49))]])
    assert tells.measured == "0.70 (0.51 to 0.80)"
    assert leads.measured == "for 51% of 9; most never ring"
    assert more.measured == "+0.05 (+0.01 to +0.10)"
    upwards, *_ = claims([[told((0.7, 0.51, 0.8), predictor="some/centroid_alignment", way="high")]])
    assert upwards.measured == "0.70 (0.51 to 0.80)"


def test_weight_norm_coefficient_and_exponent_are_said_to_be_low():
    names = ("train/parameter_norm", "some/local_learning_coefficient", "train/heavy_tails.alpha")
    found = claims([[told((0.3, 0.2, 0.49), predictor=name) for name in names]])
    assert [claim.holds for claim in found] == [False] * 2 + [True] * 9


def test_what_has_no_value_is_a_claim_that_fails(records):
    without = [dict(record) for record in records]
    for record in without:
        record["all"] = {"value": None, "low": None, "high": None}
    found = claims([without])
    assert [claim.measured for claim in found] == ["has no value where both outcomes are known"] * 5
    assert not any(claim.holds for claim in found)


def test_a_corpus_of_one_outcome_is_refused_before_it_is_judged(tmp_path):
    table = columns(seeds=4)
    table["test/accuracy"] = np.full_like(table["test/accuracy"], 0.5)
    pyarrow.parquet.write_table(pyarrow.table(table), tmp_path / "same.parquet")
    refused = r"two families with .* others that do not, got 0 such families of 3 in .*same\.parquet. Call `gnomon"
    with pytest.raises(DataError, match=refused):
        run(Config(resamples=5, corpus=str(tmp_path / "same.parquet")), Run(tmp_path, 0))
