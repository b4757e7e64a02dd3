"""ntk-regime: what it says of made-up records, and its smallest variant on real digits, killed half way."""

import pytest
import torch

from gnomon.errors import RangeError
from gnomon_lab.papers.grokalign.ntk_regime.page import (
    CONSTANT,
    NETWORK,
    claims,
    figures,
    interval,
    miss,
    share_inside,
    summary,
    table,
)
from gnomon_lab.papers.grokalign.ntk_regime.run import Config, run
from gnomon_lab.runs import series
from tests.lab.resuming import resumed

STEPS = (0, 1, 10, 100, 1000)


def made_up(
    inner=(0.0, 0.1, 1.0, 3.0, 4.0), kernel=(1.0, 1.0, 1.0, 4.0, 4.0), constant=(0.0, 0.1, 1.0, 1.5, 2.0), off=0.0,
    alignment=(0.1, 0.2, 0.5, 0.5, 0.5), norm=(1.0, 1.0, 1.5, 4.0, 6.0), change=0.1,
):  # fmt: skip
    """Records in which the kernel moves from step 10 to step 100, and theorem 9 is off by a share of each change."""
    ours = [
        {"arm": NETWORK, "step": step, "kernel": k, "inner": i, "alignment": a, "norm": n}
        for step, k, i, a, n in zip(STEPS, kernel, inner, alignment, norm, strict=True)
    ]
    for record in ours[1:]:
        record |= {"inner_before": record["inner"] - change, "predicted": change * (1 + off)}
    return ours + [{"arm": CONSTANT, "step": step, "inner": i} for step, i in zip(STEPS, constant, strict=True)]


def test_intervals_and_shares():
    records = made_up()
    assert (interval(records, "kernel").start, interval(records, "kernel").end) == (10, 100)
    assert share_inside(records) == pytest.approx(2 / 4)
    assert miss(made_up(off=0.02)) == pytest.approx(0.02)
    assert share_inside(made_up(kernel=(1.0,) * 5)) == 0
    columns, rows = table(records)
    assert all(len(row) == len(columns) for row in rows)
    assert rows[0] == ("mean kernel to the other digits", "1.00", "4.00", "4.00", "10", "100")
    assert rows[2] == ("beyond a constant kernel", "0.00", "2.00", "2.00", "10", "1,000")
    assert summary(records).endswith(
        "The kernel moves from step 10 to step 100, and 50% of the inner product's way lies there."
    )
    assert summary(made_up(kernel=(1.0,) * 5)).endswith("%. The kernel rests.")


def test_the_figure_marks_where_the_kernel_moves():
    (curves,) = figures(made_up())
    assert all([mark.x for mark in panel.marks] == [10, 100] for panel in curves.panels)
    assert [line.label for line in curves.panels[1].lines] == [NETWORK, CONSTANT]
    assert curves.panels[2].lines[0].y == pytest.approx((0.1,) * 4)
    (still,) = figures(made_up(kernel=(1.0,) * 5))
    assert still.panels[0].marks == ()
    assert "between the two marks" in curves.caption
    assert "marks" not in still.caption


def test_claims():
    inside = made_up(inner=(0.0, 0.1, 0.2, 3.9, 4.0), constant=(0.0, 0.1, 0.2, 1.0, 2.0))
    assert [claim.holds for claim in claims([inside])] == [True] * 6
    assert [claim.holds for claim in claims([inside, made_up()])] == [True, True, False, True, True, True]
    assert claims([inside, made_up()])[2].measured == "50% to 92% over 2 seeds"
    assert not claims([made_up(off=-0.06)])[0].holds
    lazy = claims([made_up(kernel=(1.0,) * 5)])
    assert [claim.holds for claim in lazy[1:4]] == [False, False, False]
    early = made_up(constant=(0.0, -0.9, -1.0, -1.0, 0.0))
    assert claims([early])[3].measured == "kernel 10, inner product 0"
    assert not claims([early])[3].holds


INSIDE = {"inner": (0.0, 0.1, 0.2, 3.9, 4.0), "constant": (0.0, 0.1, 0.2, 1.0, 2.0)}
"""With which all claims hold."""


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({"off": 0.06}, 0),
        ({"off": -0.06, "change": -0.1}, 0),
        ({"norm": (1.0, 3.0, 3.0, 2.0, 1.0)}, 4),
        ({"alignment": (0.1, 0.1, 0.1, 0.5, 0.5)}, 5),  # at rest from step 100 on, as the inner product
        ({"alignment": (0.5,) * 5}, 5),  # nothing ever turned into alignment
    ],
)
@pytest.mark.parametrize("order", [1, -1])
def test_each_claim_fails_with_one_seed_of_two(change, failing, order):
    found = claims([made_up(**INSIDE), made_up(**INSIDE | change)][::order])
    assert [place for place, claim in enumerate(found) if not claim.holds] == [failing]


def test_what_is_measured():
    found = claims([made_up(**INSIDE)])
    assert [claim.measured for claim in found] == [
        "0.00%", "75%", "92%", "kernel 10, inner product 10", "6.00", "alignment 10, inner product 100",
    ]  # fmt: skip
    assert [claim.expected.partition(",")[0] for claim in found[:3]] == ["at most 5%", "more than 10%", "at least 73%"]
    assert claims([made_up(**INSIDE | {"kernel": (1.0, 1.0, 4.0, 1.0, 1.0)})])[1].measured == "75%"  # there and back
    assert claims([made_up(**INSIDE | {"alignment": (0.5,) * 5})])[5].measured == "alignment rests, inner product 100"
    assert claims([made_up(**INSIDE | {"norm": (2.0, 3.0, 4.0, 5.0, 6.0)})])[4].measured == "3.00"


def test_what_falls_inside_is_compared_with_the_kernel_s_own_excursion():
    """It begins at 25 % and at 2.5 % of its largest value: a tenth at each end is 27 % and 21 % of its way."""
    inner = (0.0, 0.1, 0.5, 3.6, 4.0)  # 78 % of its way lies where the kernel moves
    near, far = (made_up(inner=inner, kernel=(first,) * 3 + (4.0, 4.0)) for first in (1.0, 0.1))
    assert [claims([records])[2].holds for records in (near, far)] == [True, False]
    both = claims([near, far])[2]
    assert (both.expected.partition(",")[0], both.holds) == ("at least 73% to 79% over 2 seeds", False)


@pytest.mark.parametrize("order", [1, -1])
def test_a_kernel_at_rest_in_one_seed_is_no_regime(order):
    found = claims([made_up(**INSIDE), made_up(**INSIDE | {"kernel": (1.0,) * 5})][::order])
    assert [claim.holds for claim in found] == [True, False, False, False, True, True]


def test_the_way_is_up_and_down():
    wave = made_up(inner=(0.0, 1.0, 0.0, 3.0, 2.0))
    assert share_inside(wave) == pytest.approx(3 / 6)
    assert miss(made_up(off=0.02, change=-0.1)) == pytest.approx(0.02)


def test_the_kernel_has_to_begin_to_move_and_no_later():
    def holds(beyond, kernel=(1.0, 1.0, 1.0, 4.0, 4.0)):
        inner = (0.0, 0.1, 1.0, 3.0, 4.0)
        constant = tuple(a - b for a, b in zip(inner, beyond, strict=True))
        return claims([made_up(inner=inner, kernel=kernel, constant=constant)])[3].holds

    assert holds((0.0, 0.0, 0.0, 2.0, 4.0))
    assert not holds((0.0, 0.0, 1.0, 2.0, 4.0))  # sooner, though it comes to rest later
    assert holds((0.0, 0.0, 0.0, 4.0, 4.0), kernel=(1.0, 1.0, 1.0, 2.0, 4.0))  # at once, though it rests sooner
    assert holds((0.0,) * 5)
    assert not holds((0.0,) * 5, kernel=(1.0,) * 5)


def test_settings_are_checked_together():
    with pytest.raises(RangeError, match=r"Config: expected hidden at least 1, got 0; learning_rate .* got nan"):
        Config(hidden=0, learning_rate=float("nan"))


@pytest.mark.data
@pytest.mark.parametrize(("hidden", "arm"), [(1, NETWORK), (2, CONSTANT)])
def test_smallest_variant_resumes_exactly(tmp_path, hidden, arm):
    """Stopped in the middle, the run ends as an unbroken one; theorem 9 holds step by step at either depth."""
    config = Config(digits=60, width=8, hidden=hidden, steps=40, readings=6, learning_rate=1e-6)

    records = resumed(run, config, tmp_path, step=10, arm=arm)
    assert miss(records) < 0.01
    # So slowly trained, the network stays in the linear regime.
    ours, linear = (torch.tensor(series(records, arm, "inner")[1]) for arm in (NETWORK, CONSTANT))
    torch.testing.assert_close(ours, linear, rtol=0, atol=0.01 * float((linear[-1] - linear[0]).abs()))
