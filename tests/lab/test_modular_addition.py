"""modular-addition: what it says of its records, and its smallest variant, stopped half way."""

import pytest

from gnomon.errors import RangeError
from gnomon_lab.papers._shared import arms
from gnomon_lab.papers.grokalign.modular_addition.run import Config, claims, figures, run, summary, table
from tests.lab.resuming import resumed

GROKKED = {
    ("learned", "weight decay"): 100,
    ("learned", "GrokAlign"): 1000,
    ("fixed", "weight decay"): 1000,
    ("fixed", "GrokAlign"): 100,
}


def made_up(grokked=GROKKED, risen=0.2, follows=0.5):
    """Four readings of each arm, which memorises at step 10 and groks at its step."""
    records = []
    for (embeddings, method), at in grokked.items():
        for step in (1, 10, 100, 1000):
            known = {"train/accuracy": 1.0 if step >= 10 else 0.1, "test/accuracy": 0.9 if at and step >= at else 0.0}
            cosine = 0.1 + follows * (known["test/accuracy"] > 0) if embeddings == "learned" else 0.1
            numbers = {"train/centroid_alignment": cosine, "some/jacobian_norm": 2.0}
            numbers |= {"train/centroid_alignment.min": -0.2, "train/centroid_alignment.max": 0.3}
            end = 0.1 + (risen if method == "GrokAlign" else 0.5) * (step == 1000)
            numbers |= {"train/gini_embedding": end, "train/gini_logits": end}
            arm = {"arm": f"{embeddings} {method}", "step": step, "seconds": {"trained": 5.0}}
            records.append(arm | known | numbers)
    return records


def test_table_summary_and_figures_name_the_moments():
    columns, rows = table(made_up())
    assert len(columns) == len(rows[0])
    assert rows[3] == ("fixed, GrokAlign", "10", "100", "90.0%", "0.10", "0.30", "0.30", "2")
    assert table(made_up(GROKKED | {("fixed", "weight decay"): None}))[1][2][2] == "no"
    assert arms(made_up()) == list(GROKKED)
    assert summary(made_up()) == (
        "With learned embeddings weight decay alone groks at step 100, GrokAlign at step 1,000. "
        "With fixed embeddings weight decay alone groks at step 1,000, GrokAlign at step 100."
    )
    learned, fixed = figures(made_up())
    assert (learned.name, fixed.name) == ("learned", "fixed")
    assert [mark.label for mark in fixed.panels[0].marks] == [
        "weight decay grokked, step 1,000",
        "GrokAlign grokked, step 100",
    ]


def test_lines_of_one_figure_look_different():
    for figure in figures(made_up()):
        lines = [line for panel in figure.panels for line in panel.lines]
        named = {(line.label, line.colour, line.dashed) for line in lines}
        assert len({(colour, dashed) for _, colour, dashed in named}) == len(named)


def test_a_cosine_that_rounds_to_zero_has_no_sign():
    rows = table([record | {"train/centroid_alignment": -1e-3} for record in made_up()])[1]
    assert {row[4] for row in rows} == {"0.00"}


def test_claims_are_those_of_the_figures():
    held = claims([made_up(), made_up()])
    assert [claim.holds for claim in held] == [True] * 6
    assert [claim.measured for claim in held] == [
        "2 of 2 seeds",
        "0.10 in each of 2 seeds; median 0.10",
        "+0.20 in each of 2 seeds; with weight decay +0.50 in each of 2 seeds",
        "+0.20 in each of 2 seeds; with weight decay +0.50 in each of 2 seeds",
        "1.00 in each of 2 seeds; 1.00 in each of 2 seeds",
        "10.00 in each of 2 seeds; median 10.00",
    ]
    swapped = dict(zip(GROKKED, (1000, 100, 100, 1000), strict=True))
    failed = claims([made_up(swapped, risen=0.3)])
    assert [claim.holds for claim in failed] == [True, False, False, False, True, False]


@pytest.mark.parametrize("follows", [0.0, -0.5])
def test_alignment_that_stays_or_goes_the_other_way_is_in_no_accordance(follows):
    claim = claims([made_up(), made_up(follows=follows)])[4]
    assert not claim.holds
    assert claim.measured.startswith(f"{-1.0 if follows else 0.0:.2f} to 1.00 over 2 seeds; ")


def test_a_network_that_never_groks():
    never = made_up(GROKKED | {("learned", "weight decay"): None, ("fixed", "GrokAlign"): None})
    # Of two seeds each claim is about the one that speaks against it.
    assert [claim.holds for claim in claims([never, made_up()])] == [False, False, True, True, False, False]
    assert [claim.holds for claim in claims([never])][1:] == [False, True, True, False, False]
    assert claims([never])[1].measured == "weight decay never groks in 1 of 1"
    faster = made_up(GROKKED | {("fixed", "GrokAlign"): 10})
    assert claims([faster, made_up()])[-1].measured == "10.00 to 100.00 over 2 seeds; median 10.00"
    measured = [claims([never, made_up()])[place].measured for place in (1, -1)]
    assert measured == [
        "0.10; weight decay never groks in 1 of 2; median inf",
        "10.00; GrokAlign never groks in 1 of 2; median 0.00",
    ], "what is judged"
    alone = made_up(GROKKED | {("fixed", "weight decay"): None})
    assert not claims([alone, never, never])[-1].holds, "one seed's infinite acceleration is no mean of three"
    only = [record for record in made_up() if record["arm"].startswith("fixed")]
    assert len(claims([only])) == 1


def test_settings_are_checked_together():
    with pytest.raises(RangeError, match=r"fraction in \(0, 1\), got 1.5; heads a divisor of the width, got 5"):
        Config(fraction=1.5, heads=5)


def test_smallest_variant_resumes_exactly(tmp_path):
    """All four arms; stopped in the middle of one, the run ends as an unbroken one."""
    config = Config(prime=5, width=8, heads=2, hidden=8, steps=12, jacobians=4)

    whole = resumed(run, config, tmp_path, step=6, arm="fixed GrokAlign")
    ends = {record["arm"]: record for record in whole if record["step"] == 12}
    assert len({record["some/jacobian_norm"] for record in ends.values()}) == 4, "two arms did the same"
    start = whole[0]["train/gini_embedding"]
    moved = [arm for arm, record in ends.items() if record["train/gini_embedding"] != start]
    assert moved == ["learned weight decay", "learned GrokAlign"]
    figures(whole), claims([whole])
