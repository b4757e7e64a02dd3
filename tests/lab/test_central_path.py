"""central-path: what it says of its records, and its smallest variant for real, stopped half way."""

import math

import pytest
import torch

from gnomon.errors import RangeError
from gnomon_lab.papers.mse_collapse.central_path.run import (
    PAPER,
    SMALL,
    Config,
    claims,
    figures,
    run,
    summary,
    table,
    turned,
)
from gnomon_lab.runs import Run
from tests.lab.resuming import resumed

ARMS = ("3x10x4 orthogonal", "3x10x4 renormalised")


def made_up(arm=None, step=100, **change):
    """Records of both flows at three times, in which all holds that can; one of them changed."""
    still = {"loss": 0.1, "drift": 0.0, "turned": 0.0}
    records = []
    for flow in ARMS:
        for at, ratio in ((0, 1.0), (10, 1.01), (100, 1.0001)):
            omega = [at + 1.0, at + 1.0]
            record = {"arm": flow, "step": at, "omega": omega, "closed_form": omega, "proposition_2": omega,
                      "power_law": [value / ratio for value in omega], **still}  # fmt: skip
            record |= dict.fromkeys(("equinorm", "equiangularity", "maximal_equiangularity", "from_limit"), 1e-6)
            record |= {"nc1": sum(value**-2 for value in omega), "self_duality": 1e-9, "disagreement": 0.0}
            records.append(record | (change if (flow, at) == (arm, step) else {}))
    return records


def test_table_summary_and_figures():
    records = made_up(ARMS[1], omega=[1111.0, 1110.0], equinorm=0.2)
    columns, rows = table(records)
    assert len(columns) == len(rows[0]) == 8
    assert rows[0] == ("3, 10, 4", "orthogonal", "101.0", "1.0 x", "0e+00", "1e-04", "0e+00", "1e-06")
    assert rows[1][:5] == ("3, 10, 4", "the paper's flow", "1,111.0", "11.0 x", "1e+01")
    assert "and ends 2e-01 off neural collapse's simplex at most." in summary(records)
    assert "ω = 101 for the first size, and the flow that the paper defines is at 1,111." in summary(records)
    growth, collapse = figures(records)
    assert (growth.name, collapse.name) == ("growth-3x10x4", "collapse-3x10x4")
    shown = {(line.label, line.x, line.y) for line in growth.panels[0].lines}
    assert ("orthogonal: integrated, points", (2.0,), (math.log10(101),)) in shown
    assert ("the paper's flow: integrated, points", (2.0,), (math.log10(1110),)) in shown
    assert ("the paper's flow: closed form", (1.0, 2.0), (math.log10(11), math.log10(101))) in shown
    assert collapse.panels[6].lines[0].y == (-17.0, -17.0)
    assert collapse.panels[0].lines[0].y[0] == pytest.approx(math.log10(2 / 121))


def test_claims_hold_for_what_the_paper_says():
    assert [claim.holds for claim in claims([made_up()])] == [True] * 12


@pytest.mark.parametrize(
    ("arm", "step", "change", "failing"),
    [
        (0, 10, {"proposition_2": [11.0, 11.1]}, [0]),
        (1, 10, {"proposition_2": [11.0, 11.1]}, [1]),
        (1, 10, {"closed_form": [11.0, 11.1]}, [2]),
        (0, 100, {"power_law": [101 / 1.002] * 2}, [3]),
        (0, 10, {"power_law": [11 / 1.00005] * 2}, [3]),
        (1, 100, {"power_law": [101 / 1.002] * 2}, [4]),
        (0, 10, {"turned": 1e-7}, [6]),
        (1, 100, {"from_limit": 1e-3}, [7]),
        (0, 100, {"equiangularity": 1e-3}, [7]),
        (0, 10, {"nc1": 2.001 / 11**2}, [8]),
        (1, 100, {"nc1": 0.1}, [8, 9]),
        (0, 100, {"self_duality": 1e-3}, [10]),
        (1, 100, {"disagreement": 0.1}, [11]),
        (0, 100, {"equinorm": 4.1e-5}, [7]),
        (1, 100, {"maximal_equiangularity": 3.9e-5}, []),
    ],
    ids=str,
)
def test_each_claim_fails_where_it_does_not_hold(arm, step, change, failing):
    """In one flow of one of two seeds."""
    found = claims([made_up(), made_up(ARMS[arm], step, **change)])
    assert [place for place, claim in enumerate(found) if not claim.holds] == failing


def test_singular_values_that_are_not_equal_fail_and_say_by_how_much():
    apart = [101.0, 100.9]
    variability = sum(value**-2 for value in apart)
    found = claims([made_up(ARMS[1], omega=apart, closed_form=apart, proposition_2=apart, nc1=variability)])
    assert [place for place, claim in enumerate(found) if not claim.holds] == [5]
    assert (found[5].expected, found[5].measured) == ("at most 1e-05", "0.000991")
    assert found[4].measured == "0.00089, less; the closed form itself 0.00089"


def test_each_value_is_read_under_its_own_name():
    found = claims([made_up(ARMS[1], omega=[101.0, 100.9]), made_up(ARMS[1], closed_form=[101.0, 100.9])])
    assert [place for place, claim in enumerate(found) if not claim.holds] == [1, 2, 5, 8]
    assert found[5].measured == "0 to 0.000991 over 2 seeds"
    assert found[4].measured.endswith("less; the closed form itself 0.0001 to 0.00089 over 2 seeds")


def test_the_paper_s_flow_is_reported_as_leaving_proposition_2():
    found = claims([made_up(ARMS[1], proposition_2=[1.0, 1.0])])
    assert [claim.holds for claim in found] == [True, False] + [True] * 10
    assert (found[1].expected, found[1].measured) == ("at most 1e-08", "100")


def test_turned_is_the_sine_of_the_rotation():
    """Of the left vectors, of the right ones, and not of values that become equal or swap."""
    angle, centred = torch.tensor(1e-3, dtype=torch.float64), torch.eye(3, dtype=torch.float64) - 1 / 3
    right = torch.linalg.svd(centred).Vh[:2]
    left = torch.eye(4, 2, dtype=torch.float64)
    turn = torch.eye(4, dtype=torch.float64)
    turn[1, 1] = turn[3, 3] = angle.cos()
    turn[1, 3], turn[3, 1] = -angle.sin(), angle.sin()
    start = left @ torch.diag(torch.tensor([2.0, 1.0], dtype=torch.float64)) @ right
    equal, swapped = left @ right, left @ torch.diag(torch.tensor([3.0, 4.0], dtype=torch.float64)) @ right
    mixed = left @ torch.linalg.matrix_exp(angle * torch.tensor([[0.0, 1.0], [-1.0, 0.0]]).double()) @ right
    found = turned(torch.stack([start, equal, swapped, turn @ start, mixed]))
    expected = torch.stack([angle * 0, angle * 0, angle * 0, angle.sin(), angle.sin()])
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-14)


@pytest.mark.parametrize("config", [SMALL, PAPER], ids=["small", "paper"])
def test_settings_end_late_enough_for_the_thresholds(config):
    assert all(10**config.decades >= 2.5e5 * classes**2 * samples for classes, samples, _ in config.sizes)


def test_settings_are_checked_together():
    message = (
        r"sizes one or more C and N of .* from C - 1 to C \(N - 1\) dimensions, got \(\(3, 10, 1\),\); decades from 1"
    )
    with pytest.raises(RangeError, match=message):
        Config(sizes=((3, 10, 1),), decades=13)


def test_sizes_are_those_of_which_the_within_class_covariance_is_invertible():
    assert Config(sizes=((2, 2, 2), (3, 2, 3))).sizes == ((2, 2, 2), (3, 2, 3))
    for size in ((2, 2, 3), (3, 2, 4)):
        with pytest.raises(RangeError, match=r"from C - 1 to C \(N - 1\) dimensions"):
            Config(sizes=(size,))


def test_seeds_draw_other_features(tmp_path):
    starts = []
    for seed in (0, 1):
        (folder := tmp_path / str(seed)).mkdir()
        run(Config(sizes=((2, 6, 3),), decades=1, readings=1), whole := Run(folder, seed))
        starts.append(whole.records()[0]["omega"])
    assert starts[0] != starts[1]


def test_smallest_variant_resumes_exactly_and_each_flow_solves_its_equation(tmp_path):
    config = Config(sizes=((2, 6, 3), (3, 8, 4)), decades=4, readings=1)
    records = resumed(run, config, tmp_path, step=100, arm="3x8x4 orthogonal")
    by_arm = {arm: [r for r in records if r["arm"] == arm] for arm in dict.fromkeys(r["arm"] for r in records)}
    assert list(by_arm) == ["2x6x3 orthogonal", "2x6x3 renormalised", "3x8x4 orthogonal", "3x8x4 renormalised"]
    assert by_arm["3x8x4 orthogonal"][0]["omega"] == by_arm["3x8x4 renormalised"][0]["omega"]

    def passed(arm, c1, c2, c3):
        first, last = by_arm[arm][0]["omega"], by_arm[arm][-1]["omega"]
        side = [[c1 * math.log(w) + c2 * w**2 + c3 * w**4 for w in values] for values in (first, last)]
        return [end - start for start, end in zip(*side, strict=True)]

    assert passed("3x8x4 orthogonal", 72, 24, 2) == pytest.approx([1e4, 1e4], rel=1e-7)
    assert passed("3x8x4 renormalised", 72, 12, 0) == pytest.approx([1e4, 1e4], rel=1e-7)
    assert min(passed("3x8x4 renormalised", 72, 24, 2)) > 1e5
    followed = [claim.holds for claim in claims([records])]
    assert followed[:3] == [True, False, True]
    assert followed[6]
