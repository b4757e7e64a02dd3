"""clustered-flow: what it says of its records, its problems, and its smallest variant for real, stopped half way."""

import math

import pytest
import torch

from gnomon.errors import ConvergenceError, RangeError
from gnomon_lab.papers.effective_flow.clustered_flow import run as clustered_flow
from gnomon_lab.papers.effective_flow.clustered_flow.page import ARMS, claims, curves, figures, summary, table
from gnomon_lab.papers.effective_flow.clustered_flow.run import Config, integrated, powers_of_ten, problem, run
from tests.lab.resuming import resumed

TINY = Config(digits=12, until=0.5)
PRINTED = [2, 5, 8]
"""The claims that do not hold as printed."""


def made_up(arm=None, step=1, **change):
    """Records in which all holds that the errata leave, the last time beyond the integration; one of them changed."""
    records = []
    for name in ARMS:
        digits = name == "digits"
        once = {"width": 5, "directions": 3 if digits else 5, "rates": [4.0, 0.5], "own": 0.3, "off_fit": 1e-14}
        once["off_pinv"] = 0.2 if digits else 1e-14
        for at, time in enumerate((0.0, 1.0, 10.0)):
            left = [math.exp(-4 * time), math.exp(-time / 2)]
            values = {"arm": name, "step": at, "time": time, "solved_loss": 1 + left[1], "solved": left}
            if at < 2:
                values |= {"loss": 1 + left[1], "integrated": left, "off": 1e-12, "moved": 1e-15}
                values["off_printed"] = 0.4 if name == "classes" else 1e-12
            records.append(values | once)
    return [record | (change if (record["arm"], record["step"]) == (arm, step) else {}) for record in records]


def test_table_summary_and_figures():
    records = made_up()
    columns, rows = table(records)
    assert {len(row) for row in rows} == {len(columns)}
    assert rows[0][1:] == ("3 of 5", "4 to 0.5", "1e-12", "1e-12", "1e-14", "2e-01", "1e-15", "3e-01")
    assert "network to 1e-12" in summary(records)
    assert "The digits have 2 directions without data" in summary(records)
    digits, *_ = figures(records)
    loss, ways, agreement = digits.panels
    assert loss.lines[0].x == (1.0, 10.0)
    assert [line.label for line in ways.lines] == ["rate 4", "integrated, points", "rate 0.5", "integrated, points"]
    assert ways.lines[0].x == (1.0,), "below the floor in the end"
    assert agreement.lines[0].y == (1e-12,)


def test_no_two_entries_of_the_legend_look_alike():
    records = [record | {"rates": [4, 3, 2, 1, 0.6, 0.5]} for record in made_up() if record["arm"] == "digits"]
    for record in records:
        record |= {name: record[name][:1] * 6 for name in ("solved", "integrated") if name in record}
    digits = curves(records)
    looks = {line.label: (line.colour, line.dashed) for panel in digits.panels for line in panel.lines}
    assert len(looks) == len(set(looks.values())) == 9


def test_claims_hold_for_what_the_errata_leave():
    found = claims([made_up()])
    assert [place for place, claim in enumerate(found) if not claim.holds] == PRINTED
    assert (found[2].expected, found[2].measured) == ("at most 1e-10", "0.4")


@pytest.mark.parametrize(
    ("arm", "step", "change", "failing"),
    [
        ("samples", 1, {"off": 2e-10}, [0]),
        ("digits", 1, {"off": 2e-10}, [0, 1]),
        ("digits", 0, {"directions": 5}, [1]),
        ("classes", 0, {"off_fit": 2e-12}, [3]),
        ("samples", 0, {"off_pinv": 2e-12}, [4]),
        ("digits", 2, {"solved_loss": 3.0}, [6]),
        ("digits", 1, {"loss": 3.0}, [6]),
        ("classes", 1, {"moved": 2e-12}, [7]),
    ],
    ids=str,
)
def test_each_claim_fails_where_it_does_not_hold(arm, step, change, failing):
    """In one of two seeds."""
    found = claims([made_up(), made_up(arm, step, **change)])
    assert [place for place, claim in enumerate(found) if not claim.holds] == sorted(PRINTED + failing)


def test_what_each_sample_counts():
    """1/N, or one over the size of its class, so that every class counts 1."""
    counts = {arm: problem(TINY, arm, torch.Generator().manual_seed(0)).shares.flatten().tolist() for arm in ARMS}
    assert counts["digits"] == [1 / 12] * 12
    assert counts["samples"] == pytest.approx([1 / 12] * 12)
    assert counts["classes"] == pytest.approx([1 / 2] * 2 + [1 / 10] * 10)


@pytest.mark.parametrize("arm", ARMS)
def test_the_loss_is_that_of_a_linear_map_where_nothing_is_cut(arm):
    """By the definition of the standard loss; and with biases that cut, it is not."""
    given = problem(TINY, arm, torch.Generator().manual_seed(0))
    width, classes = given.points.shape[1], given.targets.shape[1]
    weight = torch.randn(classes, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    layers, lift = torch.eye(width).double().expand(2, width, width), torch.ones(2, width).double()
    squares = (given.points @ weight.T - given.targets).square().sum(1) / 2
    groups = [squares[given.targets[:, label] == 1] for label in range(classes)] if arm == "classes" else [squares]
    torch.testing.assert_close(given.loss(weight, lift, layers), sum(group.mean() for group in groups))
    torch.testing.assert_close(given.flow(weight).loss(torch.zeros(1).double())[0], given.loss(weight, lift, layers))
    assert (given.loss(weight, lift - 2, layers) - given.loss(weight, lift, layers)).abs() > 0.01


def test_times():
    torch.testing.assert_close(powers_of_ten(0.1, 10.0, 1), torch.tensor([1.0, 10.0], dtype=torch.float64))
    assert len(powers_of_ten(0.01, 30.0, 10)) == 35


def test_an_integration_that_ends_early_is_named(monkeypatch):
    class Failed:
        success, message = False, "step size too small"

    monkeypatch.setattr(clustered_flow, "solve_ivp", lambda *_, **__: Failed)
    given = problem(TINY, "samples", torch.Generator().manual_seed(0))
    eye = torch.eye(2).double()
    with pytest.raises(ConvergenceError, match=r"integrated\(times\): expected the integration to finish, got step"):
        integrated(given, (eye, torch.ones(1, 2).double(), eye[None]), torch.ones(1).double(), 1.0)


def test_settings_are_checked_together():
    with pytest.raises(RangeError, match=r"digits from 1 to 1796, got 1797; until finite and above 0.01, got 0.0"):
        Config(digits=1797, until=0.0)


def test_smallest_variant_resumes_exactly_and_leaves_what_the_errata_say(tmp_path):
    records = resumed(run, TINY, tmp_path, step=3, arm="samples")
    assert [place for place, claim in enumerate(claims([records])) if not claim.holds] == PRINTED
    digits = [record for record in records if record["arm"] == "digits"]
    assert (digits[0]["directions"], digits[0]["width"]) == (12, 64)
    assert digits[-1]["solved_loss"] < 1e-20, "fewer samples than dimensions are fitted"
    assert "loss" not in digits[-1]
    for place, rate in enumerate(digits[0]["rates"]):
        ratio = digits[5]["integrated"][place] / digits[0]["integrated"][place]
        assert ratio == pytest.approx(math.exp(-rate * digits[5]["time"]), rel=1e-8)
