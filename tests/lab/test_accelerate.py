"""accelerate: what it says of its records, and its smallest variant on real digits, killed half way."""

import pytest
import torch

from gnomon.errors import RangeError
from gnomon_lab.papers._shared import arms, loss_in
from gnomon_lab.papers.grokalign.accelerate import METHODS, START, Config, claims, figures, run, summary, table
from tests.lab.resuming import resumed

ENDS = {"baseline": (7000, 70.0), "GrokAlign": (1000, 12.0), "Grokfast": (7000, 70.0), "input noise": (5000, 140.0)}


def made_up(ends=ENDS, reached=True, loss="cross-entropy"):
    """Records of all methods, three each: 20 % of the unseen digits are passed at half of the time."""
    numbers = {"train/centroid_alignment": 0.1, "train/jacobian_norm": 2.0, "train/explained_variance_ratio": 0.3}
    numbers |= {
        "train/row_alignment.min": -0.2,
        "train/row_alignment.max": 0.3,
        "train/accuracy": 1.0,
    }
    return [
        {"arm": f"{loss} {method}", "step": round(share * step), **numbers, "reached": reached and share == 1,
         "test/accuracy": known, "seconds": {"trained": share * seconds}}
        for method, (step, seconds) in ends.items() for share, known in ((0, 0.1), (0.5, 0.3), (1, 0.86))
    ]  # fmt: skip


def test_ratios_are_of_steps_and_seconds_to_the_goal():
    columns, rows = table(made_up())
    assert len(columns) == len(rows[0]) == 8
    ratios = ("7.00 x", "5.83 x", "5.83 x")
    assert rows[1] == ("cross-entropy, GrokAlign", "1,000", "12", *ratios, "86.0%", "-0.200 / 0.300")
    assert summary(made_up()).startswith(
        "With cross-entropy the baseline reaches the goal at step 7,000, GrokAlign at step 1,000 (7.00 times as soon), "
    )
    assert arms(made_up()) == [("cross-entropy", method) for method in METHODS]
    (curves,) = figures(made_up())
    assert [mark.label for mark in curves.panels[0].marks][:2] == ["baseline, step 7,000", "GrokAlign, step 1,000"]


@pytest.mark.parametrize(
    ("ends", "never", "sentence"),
    [
        ({"baseline"}, "", "the baseline reaches the goal at step 7,000."),
        ({"baseline", "input noise"}, "",
         "the baseline reaches the goal at step 7,000, input noise at step 5,000 (1.40 times as soon)."),
        ({"baseline", "GrokAlign"}, "GrokAlign", "the baseline reaches the goal at step 7,000, GrokAlign never."),
        ({"baseline", "GrokAlign"}, "baseline", "the baseline never reaches the goal, GrokAlign at step 1,000."),
    ],
)  # fmt: skip
def test_each_choice_of_methods_has_a_page(ends, never, sentence):
    """A run of hours must not end in an error because a method was left out, or never arrived."""
    records = made_up({method: at for method, at in ENDS.items() if method in ends})
    records = [record | {"reached": record["reached"] and never not in record["arm"].split()} for record in records]
    assert summary(records) == f"With cross-entropy {sentence}"
    assert len(table(records)[1]) == len(figures(records)[0].panels[0].lines) == len(ends)
    assert len(claims([records])) == 2 * len(ends & {"GrokAlign", "input noise"})


def test_claims_hold_within_the_papers_spread():
    slower = made_up(ENDS | {"GrokAlign": (1100, 20.0)})
    by_name = {claim.message.split(" takes")[0] + claim.message[-24:]: claim for claim in claims([made_up()])}
    assert len(by_name) == 5
    assert [claim.holds for claim in claims([made_up()])] == [True, True, True, True, True]
    # What takes longer is compared as the paper prints it, each cell with its own deviation.
    assert [(claim.expected, claim.measured) for claim in claims([made_up()])[1:5:3]] == [
        ("1.01 x ± 0.04", "1.00 x over 1 seed"), ("1.92 x ± 0.29", "2.00 x over 1 seed")
    ]  # fmt: skip
    assert not claims([made_up(ENDS | {"Grokfast": (7500, 70.0)})])[1].holds
    assert claims([made_up(), slower])[0].measured == "6.68 x ± 0.45 over 2 seeds"
    assert not claims([made_up(), slower])[0].holds
    assert claims([made_up(reached=False)])[0].measured == "goal not reached"
    assert not claims([made_up(reached=False)])[0].holds


def test_the_grokking_phase_is_from_20_per_cent_on():
    """The last column of table 1, which is of the squared error."""
    later = [
        record | {"seconds": {"trained": record["seconds"]["trained"] - 20.0}}
        if record["arm"] == "mse baseline" and record["test/accuracy"] == 0.3 else record
        for record in made_up(loss="mse")
    ]  # fmt: skip
    *_, ours, grokfast, noise = claims([later])
    assert [claim.expected for claim in (ours, grokfast, noise)] == ["1.77 x ± 0.53", "1.05 x ± 0.27", "2.02 x ± 0.37"]
    assert ours.message == (
        "mse: GrokAlign takes 1.77 times fewer seconds from 20% of unseen digits on than the baseline"
    )
    # (70 - 15) / 6, (70 - 15) / 35 and 70 / (70 - 15) seconds
    assert [claim.measured for claim in (ours, grokfast, noise)] == [
        "9.17 x over 1 seed", "1.57 x over 1 seed", "1.27 x over 1 seed"
    ]  # fmt: skip
    at_once = [record for record in made_up(loss="mse") if record["test/accuracy"] != 0.3]
    assert claims([at_once])[-1].measured == "goal not reached", "a phase without length has no ratio"
    assert table(at_once)[1][1][5] == ""


def test_settings_are_checked_together():
    with pytest.raises(
        RangeError, match=r"methods among .* got \('GrokAlign',\); dtype among \('float32', 'mixed', .*'\), got 'int'"
    ):
        Config(methods=("GrokAlign",), dtype="int")


def test_mixed_keeps_what_float32_rounds_to_zero():
    """A sample that is known by 20 pulls at its label's logit with e^-20, less than the last digit of a probability."""

    def pull(precision, dtype):
        logits = torch.tensor([[20.0, 0.0]], dtype=dtype, requires_grad=True)
        loss_in(precision, "cross-entropy")(logits, torch.tensor([0])).backward()
        assert logits.grad.dtype == dtype
        return logits.grad[0, 0].double()

    assert pull("float32", torch.float32) == 0
    wanted = -torch.tensor(-20.0, dtype=torch.float64).sigmoid()
    torch.testing.assert_close(pull("float64", torch.float64), wanted)
    torch.testing.assert_close(pull("mixed", torch.float32), wanted, rtol=1e-6, atol=0)


@pytest.mark.data
def test_smallest_variant_resumes_exactly(tmp_path):
    """Every method with both losses; stopped in the middle of one, the run ends as an unbroken one."""
    config = Config(losses=("cross-entropy", "mse"), methods=METHODS, samples=40, width=8, steps=12, goal=0.99)

    records = resumed(run, config, tmp_path, step=6, arm="cross-entropy Grokfast")
    ends = {record["train/jacobian_norm"] for record in records if record["step"] == 12}
    assert len(ends) == 8, "two methods did the same"


@pytest.mark.data
def test_the_begin_of_the_phase_is_read_once(tmp_path, monkeypatch):
    """At the first tenth step above 20 %, also in a run that is stopped after it."""
    monkeypatch.setattr("gnomon_lab.papers.grokalign._tables.log_spaced", lambda _: lambda step: step in (0, 40))
    config = Config(samples=40, width=32, steps=60, goal=0.99, init_scale=1.0, methods=("baseline",))
    records = resumed(run, config, tmp_path, step=40, arm="cross-entropy baseline")
    begun = [record for record in records if record["test/accuracy"] > START]
    assert [record["step"] for record in records] == [0, begun[0]["step"], 40, 60]
    assert begun[0]["step"] in (10, 20, 30)
