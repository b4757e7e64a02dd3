"""corpus: what is drawn, what comes of it, what it says of its records, and its smallest variant, stopped half way."""

import math

import pytest
import torch

import gnomon
from gnomon.data import Samples
from gnomon.errors import ConvergenceError
from gnomon_lab.papers.own._outcome import outcome
from gnomon_lab.papers.own._reading import read_at
from gnomon_lab.papers.own._samples import split
from gnomon_lab.papers.own.corpus.drawn import Dice, draw
from gnomon_lab.papers.own.corpus.families import FAMILIES
from gnomon_lab.papers.own.corpus.page import claims, figures, summary, table
from gnomon_lab.papers.own.corpus.run import Config, run, shuffled, train_arm
from gnomon_lab.papers.own.corpus.spread import decides
from gnomon_lab.runs import Run
from tests.lab.resuming import resumed

SEEDS = 400


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def made_up(train=(0.3, 1.0, 1.0), test=(0.1, 0.2, 0.9), samples=100, **settings):
    """The records of one seed with two families."""
    drawn = {"samples": samples, "shuffled": 0.0, "optimizer": "AdamW", "loss": "mse", "grokalign": 0.0} | settings
    known = enumerate(zip(train, test, strict=True))
    own = [{"step": 8 * place, "train/accuracy": seen, "test/accuracy": unseen} for place, (seen, unseen) in known]
    own[0]["settings"] = drawn
    return [{"arm": arm, **record} for arm in ("digits", "xor") for record in own]


def test_what_is_drawn_has_the_shares_that_the_protocol_says():
    spans = FAMILIES["parity"].spans
    drawn = [draw(spans, generator(seed)) for seed in range(SEEDS)]
    for share, holds in (
        (0.15, lambda each: each.shuffled == 1),
        (0.15, lambda each: 0 < each.shuffled <= 0.5),
        (0.25, lambda each: each.grokalign > 0),
        (0.25, lambda each: each.optimizer == "SGD"),
        (0.2, lambda each: each.weight_decay == 0),
        (0.5, lambda each: each.loss == "mse"),
    ):
        found = sum(map(holds, drawn)) / SEEDS
        assert abs(found - share) < 4 * math.sqrt(share * (1 - share) / SEEDS), share
    widths = [each.width for each in drawn]
    assert spans.widths[0] <= min(widths) <= max(widths) <= spans.widths[1]
    middle = sorted(widths)[SEEDS // 2]
    assert abs(math.log(middle / math.sqrt(math.prod(spans.widths)))) < 0.15, "not the same chance for each factor"


def test_draws_are_those_of_their_generator():
    assert draw(FAMILIES["digits"].spans, generator(3)) == draw(FAMILIES["digits"].spans, generator(3))
    assert Dice(generator()).between((2.0, 2.0)) == 2.0


def test_shuffling_keeps_each_class_as_large():
    samples = Samples(torch.arange(200.0)[:, None], torch.arange(200) % 10)
    mixed = shuffled(samples, 0.5, generator())
    assert mixed.labels.bincount().tolist() == [20] * 10
    changed = int((mixed.labels != samples.labels).sum())
    assert 75 <= changed <= 100
    assert shuffled(samples, 0.0, generator()).labels.equal(samples.labels)


def test_the_validation_split_is_a_tenth_and_not_trained_on():
    train, validation = split(Samples(torch.arange(110.0)[:, None], torch.zeros(110, dtype=torch.int64)))
    assert (len(train.x), len(validation.x)) == (100, 10)
    assert not set(train.x.flatten().tolist()) & set(validation.x.flatten().tolist())


def test_readings_are_two_in_a_doubling_and_four_times_each_is_one():
    steps = [step for step in range(1025) if read_at(step)]
    assert steps[:8] == [0, 8, 11, 16, 23, 32, 45, 64]
    assert len(steps) == 1 + 2 * 7 + 1
    assert all(later / step == pytest.approx(4, rel=0.05) for step, later in zip(steps[1:], steps[5:], strict=False))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "generalised late"),
        ({"test": (0.1, 0.2, 0.29)}, "stayed"),
        ({"test": (0.1, 0.5, 0.39)}, "lost"),
        ({"train": (0.3, 0.9, 0.98)}, "did not fit"),
    ],
)
def test_outcome(change, words):
    records = [record for record in made_up(**change) if record["arm"] == "xor"]
    assert outcome(records).in_words == words
    assert outcome([*records, {"arm": "xor", "step": 20, "diverged": "why"}]).in_words == "diverged"


def test_an_outcome_is_of_what_was_read():
    """From the first reading at which the data are fitted, or the start, to the last with an accuracy."""
    records = [record for record in made_up() if record["arm"] == "xor"]
    found = outcome(records)
    assert (found.fits, found.then, found.end, found.diverged) == (8, 0.2, 0.9, False)
    unread = outcome([*records, {"arm": "xor", "step": 32, "train/accuracy": None, "test/accuracy": None}])
    assert (unread.fits, unread.end, unread.diverged) == (8, 0.9, True)
    assert outcome([*records, records[-1] | {"diverged": "why"}, records[-1]]).diverged
    never = outcome([record | {"train/accuracy": None if record["step"] else 0.5} for record in records])
    assert (never.fits, never.then) == (None, 0.1)


def test_table_summary_and_figures():
    records = made_up()
    assert table(records)[1][0] == (
        "digits", "100", "0%", "AdamW, mse", "8", "20.0%", "90.0%", "generalised late"
    )  # fmt: skip
    assert summary(records) == "Of 2 networks 2 generalised late."
    assert [figure.name for figure in figures(records)] == ["accuracies"]


def test_claims_want_outcomes_that_are_spread_and_that_no_setting_decides():
    late, stayed = (0.1, 0.2, 0.9), (0.1, 0.2, 0.2)
    mixed = [made_up(test=late if seed % 3 else stayed, samples=100 + seed % 2) for seed in range(12)]
    assert [claim.holds for claim in claims(mixed)] == [True] * 4
    assert [claim.holds for claim in claims([made_up(test=late)] * 10)] == [False, True] * 2
    decided = [made_up(test=late if seed % 2 else stayed, samples=100 + seed % 2) for seed in range(12)]
    assert [claim.measured for claim in claims(decided)][1] == "1.00 (samples)"
    assert not claims([*mixed[:9], made_up(train=(0.1, 0.1, 0.1))]), "too few to judge"


@pytest.mark.parametrize(("late", "holds"), [(0, False), (1, True), (9, True), (10, False)])
def test_a_tenth_has_to_generalise_late_and_a_tenth_has_not(late, holds):
    found = claims([made_up(test=(0.1, 0.2, 0.3 if seed < late else 0.29)) for seed in range(10)])
    assert [claim.holds for claim in found] == [holds, True] * 2
    assert (found[0].measured, found[0].expected) == (f"{late / 10:.0%} of 10", "10% to 90%")
    assert found[1].expected == "AUROC at most 0.9"


def test_the_setting_that_decides_may_point_either_way():
    assert decides([{"a": 2.0, "b": "SGD"}, {"a": 1.0, "b": "SGD"}], [False, True]) == ("a", 1.0)
    both = [{"a": a, "b": b} for a, b in zip((2.0, 4.0, 1.0, 3.0), (1.0, 2.0, 3.0, 4.0), strict=True)]
    assert decides(both, [False, False, True, True]) == ("b", 1.0)


def test_the_second_digit_of_a_variant_may_decide_by_itself():
    drawn = [{"variant": variant} for variant in (0.3, 0.11, 0.52, 0.73)]
    assert decides(drawn, [False, True, False, True]) == ("the variant's second digit", 1.0)


def test_a_seed_without_a_family_says_nothing_of_it():
    seeds = [made_up(test=(0.1, 0.2, 0.3 if seed % 2 else 0.2)) for seed in range(10)]
    alone = [record for record in made_up() if record["arm"] == "digits"]
    assert [claim.measured for claim in claims([*seeds, alone])][::2] == ["55% of 11", "50% of 10"]


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=[pytest.mark.data] if "images" in name else []) for name in FAMILIES]
)
def test_each_family_makes_its_data_and_network(family, tmp_path):
    own = FAMILIES[family]
    drawn = draw(own.spans, generator(1))
    seen, unseen = own.data(drawn, Run(tmp_path, 0), generator(1))
    model = own.network(drawn, tuple(seen.x.shape[1:]), int(seen.labels.max()) + 1, generator(1))
    assert model(seen.x[:3]).shape == (3, int(seen.labels.max()) + 1)
    again = own.network(drawn, tuple(seen.x.shape[1:]), int(seen.labels.max()) + 1, generator(1))
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert unseen.x.shape[1:] == seen.x.shape[1:]


@pytest.fixture
def short_chains(monkeypatch):
    """Of the local learning coefficient, which takes a third of the time of all quantities."""
    found, few = gnomon.local_learning_coefficient, {"draws": 4, "burn_in": 0}
    monkeypatch.setattr(gnomon, "local_learning_coefficient", lambda *given, **asked: found(*given, **asked | few))


@pytest.mark.usefixtures("short_chains")
def test_smallest_variant_resumes_exactly(tmp_path):
    records = resumed(run, Config(families=("parity",), doublings=4), tmp_path, step=11)
    assert [record["step"] for record in records] == [0, 8, 11, 16]
    assert not any(name.endswith((".min", ".max")) for record in records for name in record)
    assert all(record["some/centroid_alignment"] is not None for record in records)


def diverging(*arguments, **settings):
    raise ConvergenceError("objective", "a finite objective", "nan")
    yield


@pytest.mark.usefixtures("short_chains")
def test_a_network_that_diverges_is_kept_and_marked(tmp_path, monkeypatch):
    def wild(drawn, model):
        return torch.optim.SGD(model.parameters(), 1e30)

    monkeypatch.setattr("gnomon_lab.papers.own.corpus.run.optimizer_of", wild)
    folder = tmp_path / "run"
    folder.mkdir()
    run(Config(families=("parity", "xor"), doublings=4), Run(folder, 0))
    last = {record["arm"]: record for record in Run(folder, 0).records()}
    assert all("expected a finite objective" in record["diverged"] for record in last.values())
    # Resumed behind its last reading, as here where training yields none, it has the step of that all the same.
    monkeypatch.setattr("gnomon_lab.papers.own.corpus.run.fit", diverging)
    with monkeypatch.context() as patch:
        patch.setattr(Run, "records", lambda self: [{"arm": "parity", "step": 8}])
        patch.setattr(Run, "record", lambda self, step, **values: last.update(again=step))
        train_arm(Config(), Run(folder, 0), "parity")
    assert last["again"] == 8
