"""rank: what it says of its records, and its smallest variant on real digits, stopped half way."""

import pytest

from gnomon.errors import RangeError
from gnomon_lab.papers.grokalign.rank import Config, claims, figures, run, summary, table
from tests.lab.resuming import resumed

PC1 = {
    "mse weight decay": (0.3, 0.5, 0.91, 0.93),
    "mse GrokAlign": (0.3, 0.92, 0.94, 0.95),
    "cross-entropy weight decay": (0.2, 0.3, 0.4, 0.5),
    "cross-entropy GrokAlign": (0.2, 0.91, 0.6, 0.92),
}
"""At the steps 0, 10, 100 and 1000."""


def made_up(pc1=PC1, ranks=None):
    """Records of four arms; of the weights' stable rank in each arm too, if these are given."""
    others = {"train/jacobian_norm": 2.0, "train/accuracy": 1.0, "test/accuracy": 0.8, "seconds": {"trained": 5.0}}
    return [
        {"arm": arm, "step": step, "train/explained_variance_ratio": value, **others}
        | ({} if ranks is None else {"train/layer_spectra.stable_rank": ranks[arm][place]})
        for arm, values in pc1.items()
        for place, (step, value) in enumerate(zip((0, 10, 100, 1000), values, strict=True))
    ]  # fmt: skip


def test_half_way_is_where_pc1_comes_to_stay():
    columns, rows = table(made_up())
    assert len(columns) == len(rows[0]) == 8
    assert rows[0] == ("mse, weight decay", "0.300", "0.930", "step 100", "2", "100.0%", "80.0%", "5")
    assert [row[3] for row in rows] == ["step 100", "step 10", "not reached", "step 1,000"]
    assert summary(made_up()).startswith("With mse PC1 ends at 0.93 under weight decay, and at 0.95 with GrokAlign.")
    mse, entropy = figures(made_up())
    assert [mark.label for mark in mse.panels[0].marks] == [
        "weight decay half way, step 100",
        "GrokAlign half way, step 10",
    ]
    assert [mark.label for mark in entropy.panels[0].marks] == ["GrokAlign half way, step 1,000"]


def test_what_holds_from_the_start_is_marked_at_step_0():
    mse, _ = figures(made_up(PC1 | {"mse GrokAlign": (1.0, 1.0, 1.0, 1.0)}))
    assert [mark.label for mark in mse.panels[0].marks][1] == "GrokAlign half way, step 0"


def test_claims_hold_in_every_seed_or_not_at_all():
    found = claims([made_up()])
    assert [claim.holds for claim in found] == [True, True, False, True, True, True]
    assert found[2].measured == "0.500"
    assert [claim.measured for claim in found[4:]] == ["10 / 100", "1,000 / never"]
    later = made_up(PC1 | {"mse GrokAlign": (0.3, 0.5, 0.5, 0.95), "cross-entropy GrokAlign": (0.2, 0.2, 0.2, 0.2)})
    both = claims([made_up(), later])
    assert [claim.holds for claim in both] == [True, True, False, False, False, False]
    assert both[4].measured == "10 to 1,000 over 2 seeds / 100 in each of 2 seeds"
    assert both[5].measured.startswith("1,000 to never over 2 seeds")


def test_what_the_paper_does_not_say_is_not_put_down_to_it():
    found = claims([made_up()])
    assert ["sooner" in claim.message for claim in found] == [False] * 4 + [True] * 2
    paper, ours = "Walker et al., arXiv:2506.12284, figure 2", "question of this project"
    assert [claim.source for claim in found] == [paper] * 4 + [ours] * 2


def test_the_weights_rank_is_judged_from_start_to_end_where_it_was_read():
    ranks = dict.fromkeys(PC1, (8.0, 9.0, 3.0, 2.0)) | {"mse GrokAlign": (8.0, 2.0, 3.0, 8.0)}
    read, unread = made_up(ranks=ranks), made_up()
    found = claims([read, unread])[4:8]
    assert all("low rank" in claim.message and claim.source.endswith("section 2") for claim in found)
    assert [(claim.measured, claim.holds) for claim in found[:2]] == [("0.25", True), ("1.00", False)]
    assert not any("low rank" in claim.message for claim in claims([unread]))
    assert [len(curves.panels) for curves in (*figures(read), *figures(unread))] == [4, 4, 3, 3]


def test_half_its_way_is_from_the_arm_s_own_start_and_the_limit_itself_is_near_one():
    own = PC1 | {"mse GrokAlign": (0.6, 0.7, 0.79, 0.9)}  # half way at 0.8, from 0.3 it would be at 0.65
    found = claims([made_up(own)])
    assert [claim.holds for claim in found] == [True, True, False, True, False, True]
    assert found[4].measured == "1,000 / 100"


def test_settings_are_checked_together():
    with pytest.raises(
        RangeError, match=r"losses one or more among .* got \(\); coefficient finite and at least 0, got -1"
    ):
        Config(losses=(), coefficient=-1)


@pytest.mark.data
def test_smallest_variant_resumes_exactly(tmp_path):
    """Both arms with both losses; stopped in the middle of one, the run ends as an unbroken one."""
    config = Config(coefficient=0.1, samples=300, width=8, steps=4, dtype="mixed")

    records = resumed(run, config, tmp_path, step=2, arm="mse GrokAlign")
    ends = {record["train/jacobian_norm"] for record in records if record["step"] == 4}
    assert len(ends) == 4, "two arms did the same"
