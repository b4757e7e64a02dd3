"""nfa: what it says of its records, and its smallest variant, stopped and resumed."""

import pytest

from gnomon_lab.papers.agop_collapse import layer_denoising
from gnomon_lab.papers.agop_collapse.nfa import claims, figures, mean, run, summary, table
from gnomon_lab.runs import Run
from tests.lab.resuming import resumed
from tests.lab.test_layer_denoising import TINY, made  # noqa: F401


def made_up(start=0.7, end=0.8, nc1=0.1, arm="mlp mnist"):
    """Records before training, half way and at the end; layers differ by a tenth."""
    records = []
    for epoch, value, ratio in ((0, start, 9.0), (50, 0.4, 4.0), (100, end, nc1)):
        layers = [value + 0.1 * (layer - 2) for layer in range(5)]
        values = {"pearson_root": layers, "cosine_root": [0.5] * 5, "cosine": [0.4] * 5}
        records.append({"arm": arm, "step": epoch, "loss": 0.01, "nc1": ratio, **values})
    return records


def test_table_and_summary_show_the_value_before_training():
    columns, rows = table(made_up())
    assert len(rows) == 6
    assert len(columns) == len(rows[0])
    assert rows[0] == ("layer 1", "0.500", "0.600", "0.500", "0.500")
    assert rows[5] == ("mean", "0.700", "0.800", "0.500", "0.500")
    assert "is 0.70 before training, 0.40 at its lowest (epoch 50) and 0.80 at the end" in summary(made_up())


def test_figures_show_the_correlations_from_before_training_on():
    development, ends = figures(made_up())
    variances, pearson, _, losses = development.panels
    assert [line.y[0] for line in variances.lines] == pytest.approx([0.9, 0.1])
    assert pearson.lines[4].y == pytest.approx([0.9, 0.6, 1.0])
    assert pearson.lines[4].x == (0, 50, 100)
    assert (losses.log_y, losses.lines[0].y) == (True, (0.01,) * 3)
    before, after = ends.panels[0].lines
    assert (before.dashed, after.dashed) == (True, False)
    assert before.x == (1, 2, 3, 4, 5)
    assert after.y == pytest.approx([0.6, 0.7, 0.8, 0.9, 1.0])


def test_claims_are_over_all_seeds_and_can_fail():
    def holds(**changed):
        return [claim.holds for claim in claims([made_up(), made_up(**changed)])]

    assert holds() == [True] * 3
    assert holds(end=0.95) == [False, True, True], "their mean is 0.875, and 0.87 is the most"
    assert holds(end=0.93) == [True, True, True]
    assert holds(start=0.85) == [True, False, True]
    assert holds(start=0.8) == [True, False, True], "no gain"
    assert holds(nc1=9.0) == [True, True, False]
    first = claims([made_up(), made_up()])[0]
    assert (first.expected, first.measured) == ("0.74 ± 0.13", "0.800 ± 0.149")
    assert claims([made_up(arm="resnet cifar10")])[0].expected == "0.74 ± 0.17"
    assert len(claims([made_up(arm="vgg mnist")])) == 2, "the paper prints none for it"


def test_a_correlation_too_low_is_not_the_paper_s_either():
    found = claims([made_up(start=0.5, end=0.6)])
    assert [claim.holds for claim in found] == [False, True, True]
    assert [claim.measured for claim in found[1:]] == ["+0.100, from 0.500", "0.0111"]


@pytest.mark.usefixtures("made")
def test_smallest_variant_resumes_exactly_and_is_layer_denoising_s_training(tmp_path):
    records = resumed(run, TINY, tmp_path, step=4)
    assert [record["step"] for record in records] == [0, 4, 6]
    assert all(len(record["pearson_root"]) == 5 for record in records)
    assert mean(records[0]) > 0.5, "high before training"
    assert len(figures(records)) == 2
    assert len(claims([records])) == 3
    (tmp_path / "other").mkdir()
    layer_denoising.run(TINY, Run(tmp_path / "other", 0))
    for ours, other in zip(records, Run(tmp_path / "other", 0).records(), strict=True):
        assert ours["loss"] == other["loss"]
        assert ours["nc1"] == pytest.approx(other["nc1_after"][4], rel=1e-4)
