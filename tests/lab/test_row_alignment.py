"""row-alignment: what it says of its records, and its smallest variant on real digits."""

import math

import pytest
import torch

from gnomon_lab.papers.grokalign._optimum import OPTIMUM, to_optimum
from gnomon_lab.papers.grokalign.row_alignment import (
    METHODS,
    PAPER,
    PRINTED,
    Config,
    claims,
    figures,
    run,
    summary,
    table,
)
from gnomon_lab.runs import Run
from tests.drawn import normal


def made_up(cosines=PRINTED):
    """Records that end at the printed cosines, or at others."""
    return [
        {"arm": f"{loss} {method}", "step": step, "test/accuracy": accuracy,
         "train/row_alignment.min": low, "train/row_alignment.max": high}
        for (loss, method), (accuracy, low, high) in cosines.items() for step in (0, 4000)
    ]  # fmt: skip


def test_table_stands_beside_the_papers():
    columns, rows = table(made_up())
    assert len(columns) == len(rows[0]) == 6
    assert rows[1] == (
        "cross-entropy, GrokAlign", "4,000", "91.8%", "-0.509 / 0.478", "91.8%", "-0.509 / 0.478"
    )  # fmt: skip
    said = "With cross-entropy the cosines span: baseline 0.54, GrokAlign 0.99, input noise 0.53."
    assert summary(made_up()).startswith(said)
    for curves in figures(made_up()):
        assert [(line.label, line.dashed, line.colour) for line in curves.panels[0].lines[1:4]] == [
            ("GrokAlign", False, 1), ("input noise", False, 2), ("baseline, smallest", True, 0)
        ]  # fmt: skip


def test_a_method_that_the_paper_does_not_print_stands_without_its_numbers():
    records = made_up({("mse", "baseline"): (0.868, -0.170, 0.272), ("mse", "Grokfast"): (0.86, -0.2, 0.3)})
    assert table(records)[1][1] == ("mse, Grokfast", "4,000", "86.0%", "-0.200 / 0.300", "", "")
    assert summary(records) == "With mse the cosines span: baseline 0.44, Grokfast 0.50."
    assert len(figures(records)[0].panels[0].lines) == 4


def test_the_papers_own_numbers_meet_the_claims():
    found = claims([made_up()])
    assert [claim.holds for claim in found] == [True] * 8
    assert [claim.measured for claim in found[1::4]] == ["1.84 x", "3.05 x"]


def test_each_claim_fails_on_its_own_and_in_every_seed():
    one_way = PRINTED | {("cross-entropy", "GrokAlign"): (0.918, -0.2, 0.9)}
    weaker = PRINTED | {("cross-entropy", "GrokAlign"): (0.918, -0.30, 0.33)}
    aligned = PRINTED | {("cross-entropy", "input noise"): (0.88, -0.4, 0.5)}
    less = PRINTED | {("cross-entropy", "input noise"): (0.918, -0.253, 0.274)}
    for place, cosines in enumerate((one_way, weaker, aligned, less)):
        assert [claim.holds for claim in claims([made_up(cosines)])] == [i != place for i in range(8)]
    assert claims([made_up(), made_up(less)])[3].measured == "88.9%, 91.8%, 88.0%; 88.9%, 91.8%, 91.8%"
    mixed = claims([made_up(), made_up(one_way)])
    assert [claim.holds for claim in mixed[:3]] == [False, True, True]
    assert mixed[0].measured == "-0.254 / 0.283 to -0.509 / 0.478; -0.254 / 0.283 to -0.200 / 0.900"


def test_the_nearness_to_theorem_2_s_optimum_is_a_cosine_with_the_proof_s_a_and_b():
    x, labels, classes = normal(3, 2, 4), torch.tensor([0, 2, 4]), 5
    jacobian = normal(3, 5, 2, 4, seed=1)
    for loss, on, off in (("cross-entropy", math.sqrt(4 / 5), -1 / math.sqrt(20)), ("mse", 1.0, 0.0)):
        expected = []
        for one, sample, label in zip(jacobian, x, labels, strict=True):
            best = torch.stack([(on if c == label else off) * sample / sample.norm() for c in range(classes)])
            expected.append((one * best).sum() / one.norm() / best.norm())
        found = to_optimum(loss)(jacobian, x, labels)
        torch.testing.assert_close(found, torch.stack(expected))


def with_optimum(**ends):
    """The paper's records with the nearness, 0 but for the methods that are given."""
    return [record | {OPTIMUM: ends.get(record["arm"].split(" ", 1)[1], 0.0)} for record in made_up()]


def test_the_optimum_is_shown_and_judged_where_it_was_read():
    near, far = with_optimum(GrokAlign=0.9), with_optimum(GrokAlign=0.5, baseline=0.5)
    found = claims([near])
    assert [claim.holds for claim in found] == [True] * 10
    assert [claim.measured for claim in found[8:]] == ["0.900", "0.900 / 0.000"]
    assert [claim.holds for claim in claims([near, far])[8:]] == [False, False]
    assert [panel.title for panel in figures(near)[0].panels][1] == "Nearness to theorem 2's optimum"
    assert len(claims([near, made_up()])) == 8, "one of the runs lacks it"
    assert len(claims([[record for record in near if record["arm"].startswith("mse")]])) == 4, "not the only optimum"


@pytest.mark.data
def test_smallest_variant(tmp_path):
    """Its training is accelerate's, whose test resumes it; here its records are read."""
    config = Config(losses=PAPER.losses, methods=METHODS, samples=300, width=8, steps=3, goal=0.99)
    records = Run(tmp_path, 0)
    run(config, records)
    _, rows = table(records.records())
    assert [row[0] for row in rows] == [f"{loss}, {method}" for loss in config.losses for method in METHODS]
    assert len(claims([records.records()])) == 10
    assert len(figures(records.records())) == 2
