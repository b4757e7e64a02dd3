"""mse-vs-ce: what it says of its records, and its smallest variant, stopped in the second loss and resumed."""

import pytest

from gnomon_lab.papers.mse_collapse.mse_vs_ce import (
    EXPERIMENT,
    PAPER,
    SMALL,
    SUBSET,
    claims,
    figures,
    pairs,
    run,
    summary,
    table,
)
from tests.lab.resuming import resumed
from tests.lab.test_mse_collapse import TINY, made  # noqa: F401

CASE = "mnist-resnet18"
SIGNS = ("equinorm.means", "equiangularity.means", "maximal_equiangularity.means", "self_duality", "disagreement")


def made_up(
    mse=0.1,
    entropy=0.2,
    *,
    robust=0.3,
    unseen=1.0,
    first=3,
    others=0.6,
    accuracy=0.795,
    zero=4,
    rate="0.1",
    level=(),
):
    """Records of both losses, readings at epochs 0 to 9; cross-entropy has no training error from epoch `zero` on.

    Signs stay as they are on training images, and rise at the end on test images, but for those that are `level`.
    """
    records = []
    for loss, nc1, robustness, start in (("mse", mse, robust, 2), ("cross-entropy", entropy, 0.2, zero)):
        for epoch in range(10):
            signs = dict.fromkeys(SIGNS, 0.5) | {"nc1": nc1, "accuracy": 1.0 if epoch >= start else 0.5}
            values = {f"{split}/{name}": value for split in ("train", "test") for name, value in signs.items()}
            values |= {"test/nc1": unseen} | {f"test/{name}": others for name in SIGNS}
            if epoch < 9:
                values |= {
                    f"test/{name}": values[f"test/{name}"] / (1 if name in level else 1.2) for name in (*SIGNS, "nc1")
                }
            values |= {"test/nc1": first * unseen} if epoch == 1 else {}
            values |= {"test/accuracy": accuracy} if loss == "mse" else {"test/accuracy": 0.8}
            values |= {"robustness.mean": robustness} if epoch in (0, 9) else {}
            records.append({"arm": f"{CASE} {loss} {rate}", "step": 8 * epoch, "epoch": epoch, **values})
    return records


def test_table_and_summary_compare_both_losses():
    columns, rows = table(made_up())
    assert len(columns) == len(rows[0])
    assert rows[1] == (f"{CASE} cross-entropy 0.1", "4", "0.2", "0.5", "0.5", "80.00%", "0.2000")
    assert table(made_up(zero=10))[1][1][1] == "never"
    assert "NC1 is 0.1 under the squared error and 0.2 under cross-entropy; robustness is 0.3000 and" in summary(
        made_up()
    )


def test_losses_are_paired_by_case():
    assert pairs(made_up()) == {CASE: {loss: f"{CASE} {loss} 0.1" for loss in ("mse", "cross-entropy")}}


def test_figure_has_a_colour_for_each_loss_and_marks_both_zero_errors():
    (figure,) = figures(made_up())
    assert len(figure.panels) == 8
    lines = figure.panels[0].lines
    assert [(line.label, line.colour, line.dashed) for line in lines] == [
        ("squared error, training images", 0, False), ("squared error, test images", 0, True),
        ("cross-entropy, training images", 1, False), ("cross-entropy, test images", 1, True),
    ]  # fmt: skip
    assert [(mark.x, mark.colour) for mark in figure.panels[0].marks] == [(2.0, 0), (4.0, 1)]


def test_claims_are_medians_over_all_seeds_and_can_fail():
    def failing(**changed):
        return [place for place, claim in enumerate(claims([made_up(), made_up(**changed)])) if not claim.holds]

    assert failing() == []
    assert failing(mse=0.5) == [0, 1]
    assert failing(robust=0.02) == [2]
    assert failing(level=("nc1",)) == [3], "as much is left as on training images"
    for name in SIGNS:
        assert failing(level=(name,)) == [4]
    assert failing(unseen=0.15) == [5]
    assert failing(others=0.5) == [6], "equal is no larger"
    assert failing(first=1) == [7]
    assert failing(accuracy=0.78) == [8]
    assert failing(zero=10) == [0, 3, 4]
    assert claims([made_up()])[3].measured == "1.2 to 1.2 over 2 runs, median 1.2"
    assert claims([made_up(zero=10)])[4].measured == "1.2, no zero training error in 1 of 2"
    assert claims([made_up(), made_up(zero=10)])[0].measured == "100%, no zero training error in 1 of 2"


def test_epochs_count_at_which_both_have_no_training_error():
    records = made_up()
    for record in records[2:8]:
        record["train/nc1"] = 0.3
    # Of the epochs 4 to 9 the last two are left.
    assert claims([records])[0].measured == "33%"
    records[9]["train/accuracy"] = 0.99  # with errors again, at the last epoch
    assert claims([records])[0].measured == "20%"


def test_settings_are_the_paper_s():
    assert {SMALL, PAPER, SUBSET} <= {*EXPERIMENT.settings}
    assert len(EXPERIMENT.settings) == 2 + 3 * 16
    assert SMALL.epochs == 60


@pytest.mark.usefixtures("made")
def test_smallest_variant_resumes_exactly(tmp_path):
    records = resumed(run, TINY, tmp_path, step=12, arm=f"{CASE} cross-entropy 0.1")
    starts = [record for record in records if record["epoch"] == 0]
    assert len(starts) == 2
    assert starts[0]["train/nc1"] == starts[1]["train/nc1"], "both losses start from the same weights"
    ends = [record for record in records if record["epoch"] == 6]
    assert ends[0]["train/nc1"] != ends[1]["train/nc1"]
    assert "train/loss.total" in ends[0]
    assert "train/loss.total" not in ends[1]
    assert len(figures(records)) == 1
    assert len(claims([records])) == 9
