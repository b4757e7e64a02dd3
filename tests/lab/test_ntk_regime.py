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
    inner=(0.0, 0.1, 1.0, 3.0, 4.0), kernel=(1.0, 1.0, 1.0, 4.0, 4.0), constant=(0.0, 0.1, 1.0, 1.5, 2.0), off=0.0
):
    """Records in which the kernel moves from step 10 to step 100, and theorem 9 is off by a share of each change."""
    alignment, norm = (0.1, 0.2, 0.5, 0.5, 0.5), (1.0, 1.0, 1.5, 4.0, 6.0)
    ours = [
        {"arm": NETWORK, "step": step, "kernel": k, "inner": i, "alignment": a, "norm": n}
        for step, k, i, a, n in zip(STEPS, kernel, inner, alignment, norm, strict=True)
    ]
    for record in ours[1:]:
        record |= {"inner_before": record["inner"] - 0.1, "predicted": 0.1 * (1 + off)}
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
