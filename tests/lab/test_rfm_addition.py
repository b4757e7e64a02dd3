"""rfm-addition: what it says of its records, and a small one for real, stopped half way."""

import pytest

from gnomon_lab.papers.agop_grokking.rfm_addition import Config, claims, figures, hidden, run, summary, table
from tests.lab.resuming import resumed

TINY = Config(prime=7, fraction=0.6, rounds=3)


def made_up(test=(0.0, 0.0, 0.6, 1.0), deviation=(0.8, 0.3, 0.1, 0.02), train=1.0):
    """Records in which all holds that the paper says."""
    rounds = zip(test, deviation, strict=True)
    own = [
        {"step": step, "train": train, "test": known, "loss": 0.01, "deviation": off, "effective_rank": 9.0,
         "block": [[1.0, 0.5], [0.5, -1.0]]}
        for step, (known, off) in enumerate(rounds)
    ]  # fmt: skip
    return [{"arm": arm, **record} for arm in ("centred", "plain") for record in own]


def test_table_summary_and_figures():
    records = made_up()
    assert table(records)[1][0] == ("centred", "100.0%", "100.0%", "2", "0.020", "9.0")
    assert summary(records).startswith("Of the sums that it never saw, the machine with centred AGOP knows 100.0%")
    assert [figure.name for figure in figures(records)] == ["curves", "blocks"]
    later = figures([*records[:-1], records[-1] | {"train": 0.75}])[0]
    assert later.caption == "In every round at least 75.00% of the training sums are right."
    assert hidden(records) == pytest.approx(0.3 / 0.8)


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, []),
        ({"test": (0.0, 0.0, 0.6, 0.98)}, [0]),
        ({"test": (0.06, 0.06, 0.6, 1.0)}, [1, 2]),
        ({"train": 0.99}, [1]),
        ({"deviation": (0.8, 0.41, 0.1, 0.02)}, [2]),
    ],
)
def test_each_claim_fails_where_it_does_not_hold(change, failing):
    """In one of two seeds."""
    found = claims([made_up(), made_up(**change)])
    assert [place for place, claim in enumerate(found) if not claim.holds] == failing


@pytest.mark.parametrize(("arm", "holds"), [("centred", False), ("plain", True)])
def test_claims_are_about_the_machine_with_centred_agop(arm, holds):
    ignorant = made_up(test=(0.06, 0.06, 0.06, 0.06), deviation=(0.8,) * 4, train=0.9)
    records = [bad if bad["arm"] == arm else good for good, bad in zip(made_up(), ignorant, strict=True)]
    assert [claim.holds for claim in claims([records])] == [holds] * 3


def test_structure_counts_up_to_the_last_round_with_one_in_twenty():
    assert hidden(made_up(test=(0.0, 0.0, 0.05, 1.0))) == pytest.approx(0.1 / 0.8)
    assert hidden(made_up(test=(0.0, 0.0, 0.051, 1.0))) == pytest.approx(0.3 / 0.8)
    assert [claim.expected for claim in claims([made_up()])] == [
        "at least 99 %",
        "100 %, and at most 5 %",
        "at most 0.5",
    ]


def test_smallest_variant_resumes_exactly(tmp_path):
    records = resumed(run, TINY, tmp_path, step=2, arm="plain")
    assert [record["step"] for record in records] == [0, 1, 2, 3] * 2
    assert {record["train"] for record in records} == {1.0}
    assert [len(record["block"]) for record in records if "block" in record] == [7] * 6
