"""inhibit: what it says of its records, and its smallest variant on real digits, stopped half way."""

import pytest

from gnomon.errors import RangeError
from gnomon_lab.papers.grokalign.inhibit import Config, claims, figures, run, summary, table
from tests.lab.resuming import resumed

MINIMISED = {
    "train/accuracy": 1.0,
    "test/accuracy": 0.87,
    "train/jacobian_norm": 0.1,
    "train/centroid_norm": 0.2,
    "train/centroid_alignment": 0.6,
}
HELD = {
    "train/accuracy": 1.0,
    "test/accuracy": 0.4,
    "train/jacobian_norm": 5.2,
    "train/centroid_norm": 9.0,
    "train/centroid_alignment": 0.05,
}


def made_up(minimise=MINIMISED, hold=HELD):
    others = {"train/explained_variance_ratio": 0.5, "seconds": {"trained": 12.0}}
    return [
        {"arm": arm, "step": step, **end, **others, "test/accuracy": end["test/accuracy"] if step else 0.1}
        for arm, end in (("minimise", minimise), ("hold", hold)) for step in (0, 100)
    ]  # fmt: skip


def test_both_networks_stand_in_the_table_and_the_figure():
    columns, rows = table(made_up())
    assert len(columns) == len(rows[0]) == 8
    assert rows[1] == ("hold", "100.0%", "40.0%", "5.2", "9", "0.050", "0.500", "12")
    said = "Where the Jacobian norm is minimised it ends at 0.1, and 87% of unseen digits are recognised. Where "
    assert summary(made_up()).startswith(said)
    (curves,) = figures(made_up())
    assert [mark.label for mark in curves.panels[0].marks] == ["minimise generalised, step 100"]


def test_each_claim_fails_on_its_own():
    assert [claim.holds for claim in claims([made_up()])] == [True] * 6
    worse = [
        made_up(hold=HELD | {"train/jacobian_norm": 4.4}),
        made_up(hold=HELD | {"train/accuracy": 0.9}),
        made_up(minimise=MINIMISED | {"test/accuracy": 0.84}),
        made_up(hold=HELD | {"test/accuracy": 0.86}),
        made_up(hold=HELD | {"train/centroid_norm": 0.1}),
        made_up(hold=HELD | {"train/centroid_alignment": 0.7}),
    ]
    for place, records in enumerate(worse):
        assert [claim.holds for claim in claims([made_up(), records])] == [i != place for i in range(6)]
    assert claims([made_up(), worse[5]])[5].measured == "0.05 to 0.7 over 2 seeds against 0.6 in each of 2 seeds"


def test_where_the_bounds_are_drawn():
    def held(**change):
        return [claim.holds for claim in claims([made_up(hold=HELD | change)])]

    assert [held(**{"train/jacobian_norm": norm})[0] for norm in (4.5, 6.72, 6.73)] == [True, True, False]
    assert claims([made_up()])[0].expected == "4.50 to 6.72"
    assert claims([made_up(minimise=MINIMISED | {"test/accuracy": 0.85})])[2].holds
    assert not held(**{"test/accuracy": 0.85})[3]
    assert [held(**{"train/accuracy": known})[1] for known in (0.99, 0.989)] == [True, False]


def test_a_held_norm_that_left_and_came_back_is_not_said_to_have_stayed():
    records = made_up()
    records.insert(3, records[-1] | {"step": 50, "train/jacobian_norm": 1.7})
    held = claims([records])[0]
    assert (held.message, held.measured, held.holds) == ("held, the norm ends at 5", "5.20", True)


def test_settings_are_checked_together():
    with pytest.raises(RangeError, match=r"coefficient finite and above 0, got 0; steps at least 1, got 0"):
        Config(coefficient=0, steps=0)


@pytest.mark.data
def test_smallest_variant_resumes_exactly(tmp_path):
    """Stopped in the middle of the second arm, whose batches are drawn again, the run ends as an unbroken one."""
    # From small weights: above the level both penalties pull alike.
    config = Config(coefficient=0.1, init_scale=1.0, samples=300, width=8, steps=6)

    records = resumed(run, config, tmp_path, step=3, arm="hold")
    starts, ends = ([r["train/jacobian_norm"] for r in records if r["step"] == step] for step in (0, 6))
    assert starts[0] == starts[1]
    assert ends[0] != ends[1]
