"""linear-rfm: what it says of its records, and its smallest variant for real, stopped half way."""

import math

import pytest
import torch

from gnomon.errors import RangeError
from gnomon_lab.papers.agop_collapse.linear_rfm.page import (
    arms,
    claims,
    closed_form,
    figures,
    observed,
    printed,
    ridged,
    summary,
    table,
    within,
)
from gnomon_lab.papers.agop_collapse.linear_rfm.run import PAPER, SMALL, Config, run
from gnomon_lab.runs import Run
from tests.lab.resuming import resumed

TINY = Config(classes=3, samples=8, kernel_ridges=(0.0, 0.001, 0.002, 0.02, 2.0), feature_ridges=(1.0, 2.0), depth=120)


def recursion(scaling, kernel, features, remains, factor=1.0, rate=0.0):
    """Records of one recursion of 20 classes' samples that shrinks by `rate` a layer, to a distance that remains."""
    ridges = {"kernel_ridge": kernel, "feature_ridge": features, "samples": 20, "scaling": scaling}
    solved = {"share": 40 * kernel * (1 + 1 / features) / features, "rate": rate, "limit": factor, "factor": factor}
    shrinking = [20 * 0.2 * rate ** (layer - 2) for layer in range(2, 30)]
    return [
        {"arm": f"{scaling} {features:g} {kernel:g}", "step": layer, "to_limit": value,
         "distance": value + 20 * remains, **solved, **ridges}
        for layer, value in enumerate(shrinking, 2)
    ]  # fmt: skip


def made_up(power=1, seen=1.0, still=0.0, first=0.0, slow=1.0):
    """Records of both factors in which all holds that the theory says, with a remainder of some power of λ_k."""
    records = []
    for features in (1.0, 2.0):
        for scaling in ("exact", "printed"):
            collapsed, *_ = recursion(scaling, 0.0, features, 0.0)
            records.append(collapsed | {"distance": 20 * first, "to_limit": 20 * first})
            for kernel in (0.001, 0.002, 0.004):
                rate = kernel * 50 / features
                remains = (kernel / features) ** power if scaling == "printed" else still
                made = recursion(scaling, kernel, features, remains, rate=rate * (slow if features == 2 else 1))
                factor = closed_form(made[0]) if scaling == "printed" else 1.0
                records += [record | {"factor": factor, "rate": rate * seen} for record in made]
    return records


def test_the_condition_of_the_theorem_is_its_bound_with_its_epsilon():
    record = {"kernel_ridge": 0.004, "share": 0.004 * 2 * (1 + 1 / 1.0) * 50 / 1.0}
    assert within(record)
    assert not within(record | {"share": 0.91})
    assert not within(record | {"share": 0.0})
    assert printed(0.05, 1.0) == pytest.approx(0.8)


def test_the_closed_form_is_a_fixed_point():
    record = {"kernel_ridge": 0.05, "feature_ridge": 1.0, "samples": 50}
    g = closed_form(record)
    assert g == pytest.approx(1.248, abs=5e-4)
    assert ((50 * g + 1) / (50 * g + 1.05)) ** 2 / 0.8 == pytest.approx(g, rel=1e-12)


def test_table_summary_and_figures():
    records = made_up()
    columns, rows = table(records)
    assert len(columns) == len(rows[0]) == 8
    assert rows[0] == ("1", "0.001", "0.08", "11", "x 0.05", "1e-36", "0.001", "1.0e-06")
    assert "shrinks with the power 1.00 of λ_k" in summary(records)
    exact, printed, left = figures(records)
    assert [panel.title for panel in exact.panels] == ["λ_Φ = 1", "λ_Φ = 2"]
    assert [line.label for line in printed.panels[0].lines] == ["λ_k = 0.001", "λ_k = 0.002", "λ_k = 0.004"]
    assert exact.panels[0].lines[0].y[:2] == (0.2, pytest.approx(0.01))
    assert len(exact.panels[0].lines[0].x) < len(printed.panels[0].lines[0].x) == 28
    assert left.panels[0].lines[0].y == pytest.approx((1e-3, 2e-3, 4e-3))
    assert left.panels[0].lines[3].y == pytest.approx((2.5e-7, 1e-6, 4e-6))


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({"power": 2}, []),
        ({"power": 1}, [1, 2]),
        ({"power": 2, "first": 1e-11}, [0]),
        ({"power": 2, "slow": 3.0}, [3, 5, 7]),
        ({"power": 2, "still": 1e-11}, [4, 5]),
        ({"power": 2, "seen": 0.98}, [7]),
    ],
    ids=str,
)
def test_each_claim_fails_where_it_does_not_hold(change, failing):
    """In one of two seeds."""
    found = claims([made_up(power=2), made_up(**change)])
    assert [place for place, claim in enumerate(found) if not claim.holds] == failing


def test_layers_that_are_slow_and_a_limit_that_is_not_the_closed_form_fail():
    def changed(**change):
        return [record | change if record["kernel_ridge"] == 0.004 else record for record in made_up(power=2)]

    assert [place for place, claim in enumerate(claims([changed(share=0.15)])) if not claim.holds] == [5]
    assert [place for place, claim in enumerate(claims([changed(factor=1.01)])) if not claim.holds] == [6]


@pytest.mark.parametrize("scaling", ["exact", "printed"])
def test_what_is_said_of_both_factors_is_asked_of_each(scaling):
    def failing(ridge, **change):
        records = [
            record | {name: times * record[name] + plus for name, (times, plus) in change.items()}
            if record["scaling"] == scaling and (record["kernel_ridge"] > 0) is ridge else record
            for record in made_up(power=2)
        ]  # fmt: skip
        return [place for place, claim in enumerate(claims([records])) if not claim.holds]

    assert failing(ridge=False, distance=(1, 1e-9)) == [0]
    assert failing(ridge=True, rate=(0.98, 0)) == [7]


def test_what_rounding_leaves_shrinks_no_more():
    records = [
        record | {name: max(record[name], 1e-14) for name in ("distance", "to_limit")} for record in made_up(power=2)
    ]
    assert all(claim.holds for claim in claims([records]))


@pytest.mark.parametrize("config", [SMALL, PAPER], ids=["small", "paper"])
def test_settings_have_ridges_under_the_theorem_s_condition(config):
    """Of each λ_Φ three or more, so that a power can be read; and all reach the end."""
    for features in config.feature_ridges:
        bound = features / (2 * (1 + 1 / features) * config.samples)
        assert sum(0 < kernel <= 0.9 * bound for kernel in config.kernel_ridges) >= 3


@pytest.mark.parametrize(
    ("change", "power", "drawn"),
    [
        # No ridge is small enough for the theorem, nor for the printed factor.
        ({"kernel_ridges": (0.0, 100.0, 200.0, 300.0)}, False, ["distance-exact"]),
        # One is, which does not show a power.
        ({"kernel_ridges": (0.0, 0.1, 200.0, 300.0)}, False, ["distance-exact", "distance-printed", "left"]),
        # The second layer has collapsed to rounding.
        ({"feature_ridges": (1e6,)}, True, ["distance-exact", "distance-printed", "left"]),
        ({"kernel_ridges": (0.0, 1e-17, 2e-17, 3e-17)}, False, ["left"]),
    ],
)
def test_each_choice_of_ridges_has_a_page(tmp_path, change, power, drawn):
    made = Run(tmp_path, 0)
    run(Config(samples=2, depth=5, **change), made)
    records = made.records()
    assert ("power" in summary(records)) == power
    assert [figure.name for figure in figures(records)] == drawn
    assert len({len(row) for row in table(records)[1]}) == 1


def test_settings_are_checked_together():
    digits = "rising in six digits"
    message = (
        rf"kernel_ridges 0 and three more or further, {digits}, got \(0.1, 0.2\); feature_ridges above 0, {digits}"
    )
    with pytest.raises(RangeError, match=message):
        Config(kernel_ridges=(0.1, 0.2), feature_ridges=(2.0, 1.0))
    with pytest.raises(RangeError, match=f"feature_ridges above 0, {digits}, got"):
        Config(feature_ridges=(0.01234561, 0.01234562))  # arms of one name, of which one would run


def test_smallest_variant_resumes_exactly_and_agrees_with_the_closed_forms(tmp_path):
    records = resumed(run, TINY, tmp_path, step=50, arm="exact 2 0.02")
    assert len(arms(records, "exact", ridged)) == 8
    assert len(arms(records, "printed", ridged)) == 6, "the printed factor is below one half for the largest ridge"
    found = claims([records])
    assert [place for place, claim in enumerate(found) if not claim.holds] == [1, 2]
    (slow,) = arms(records, "exact", lambda record: (record["kernel_ridge"], record["feature_ridge"]) == (2.0, 1.0))
    assert observed(slow) == pytest.approx(2 * 8 / (9 * 3), rel=1e-3)
    (whole,) = arms(records, "printed", lambda record: (record["kernel_ridge"], record["feature_ridge"]) == (0.02, 1.0))
    assert whole[0]["share"] == pytest.approx(0.02 * 2 * (1 + 1) * 8)
    assert whole[-1]["limit"] == pytest.approx(closed_form(whole[0]), rel=1e-12)
    # By the definition of the recursion, on whole matrices.
    x = torch.randn(24, 48, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y, eye = torch.eye(3).double().repeat(8, 1), torch.eye(24).double()
    matrix = x @ x.mT / 48 + eye
    for record in whole[:3]:
        mapped = matrix @ torch.linalg.solve(matrix + 0.02 * eye, y)
        following = mapped @ mapped.mT / (1 - 4 * 0.02)
        assert record["distance"] == pytest.approx(float(torch.linalg.matrix_norm(following - y @ y.mT, 2)), rel=1e-8)
        assert math.isclose(record["factor"], float(following.trace()) / 24, rel_tol=1e-9)
        matrix = following + eye
