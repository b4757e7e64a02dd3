"""anatomy: its rule, the order that follows from it, and its smallest variant on real digits, killed half way."""

import math

import pytest
import torch

from gnomon import ntk, start_cka
from gnomon.errors import RangeError
from gnomon.linalg import cosine
from gnomon.models import mlp
from gnomon_lab.papers.own.anatomy.order import (
    ARMS,
    COLLAPSE,
    KERNEL,
    QUANTITIES,
    UNRELATED,
    Quantity,
    change,
    claims,
    order,
)
from gnomon_lab.papers.own.anatomy.page import figures, summary, table
from gnomon_lab.papers.own.anatomy.run import Config, kernel_alignment, run
from tests.lab.resuming import resumed

STEPS = (0, 1, 3, 10, 30, 100)


def made_up(late=0, **series):
    """Both arms' records: each quantity but those given goes from 1 to 9 at step 30, or from 9 to 1 where the papers
    say that it falls; weight decay is `late` behind."""
    told = {quantity.name: (1.0, 1.0, 1.0, 1.0, 9.0, 9.0) for quantity in QUANTITIES}
    told |= dict.fromkeys((KERNEL, *COLLAPSE), (9.0, 9.0, 9.0, 9.0, 1.0, 1.0))
    told |= {"train/accuracy": (0.1, 0.5, 1.0, 1.0, 1.0, 1.0), UNRELATED: (0.9,) * 6} | series
    return [
        {"arm": arm, "step": step, **{name: values[max(0, place - late * (arm == ARMS[0]))]
                                      for name, values in told.items()}}
        for arm in ARMS for place, step in enumerate(STEPS)
    ]  # fmt: skip


def at(values, *, log=False):
    """The change point of a series."""
    records = [{"arm": "arm", "step": step, "v": value} for step, value in zip(STEPS, values, strict=True)]
    return change(records, "arm", Quantity("v", "V", "unit", log))


def test_a_quantity_is_done_where_it_has_gone_nine_tenths_of_its_way_to_stay():
    found = at((0.0, 0.5, 0.89, 0.91, 1.0, 1.0))
    assert (found.step, found.value, found.rises) == (10, 0.91, True)
    assert at((0.0, 0.95, 0.2, 0.95, 0.95, 1.0)).step == 10, "left its end once more"
    assert at((0.0, 3.0, 3.0, 2.0, 1.0, 1.0)).step == 1, "beyond its end is past it"


def test_the_rule_goes_down_as_it_goes_up():
    up = (0.0, 0.2, 0.7, 0.8, 0.97, 1.0)
    down = at(tuple(1 - value for value in up))
    assert (down.step, down.rises) == (at(up).step, False) == (30, False)


def test_a_logarithmic_quantity_goes_its_way_by_its_logarithm():
    values = (1.0, 0.2, 0.05, 0.02, 0.011, 0.01)
    far = math.exp(0.9 * math.log(0.01))
    assert 0.011 < far < 0.02
    assert (at(values, log=True).step, at(values).step) == (30, 3)


@pytest.mark.parametrize("values", [(1.0, 0.5, 0.2, 0.05, 0.0, 0.0), (0.0, 0.5, 0.8, 0.95, 1.0, 1.0)])
def test_a_logarithmic_quantity_that_is_zero_at_an_end_goes_its_way_on_a_linear_axis(values):
    assert at(values, log=True) == at(values)
    assert at(values).step == 10


def test_what_dead_units_leave_is_drawn_on_a_linear_axis():
    dying = figures(made_up(**{"jacobians/jacobian_norm": (5.0, 4.0, 1.0, 0.0, 0.0, 0.0)}))[-1]
    panels = {panel.title: panel for panel in dying.panels}
    assert not panels["Jacobian norm"].log_y
    assert any(panel.log_y for panel in panels.values())


def test_what_ends_near_its_start_does_not_change():
    assert at((1.0, 1.0, 1.0, 1.0, 1.0, 1.1)) is None
    assert at((0.0, 0.0, 0.0, 0.0, 0.0, 0.0)) is None
    assert at((0.0, 5.0, 5.0, 5.0, 5.0, 0.4)) is None, "went and came back"


def test_the_order_has_a_row_for_each_change_and_a_point_for_each_seed():
    still = {"jacobians/effective_rank": (5.0,) * 6}
    drawn = order([made_up(**still), made_up(late=1, **still)])
    (panel,) = drawn.panels
    assert panel.rows[:2] == ("Zero training error", "Training accuracy ↑")
    assert len(panel.rows) == len(QUANTITIES), "effective rank does not change, zero training error is one more"
    decay, align = ([points for points in panel.points if points.label == arm] for arm in ARMS)
    assert [decay[0].x, align[0].x] == [(3, 10), (3, 3)]
    assert decay[2].x == (30, 100)
    assert decay[0].y[0] < 0 < align[0].y[0] < 0.5


def test_what_is_done_only_at_one_of_the_last_two_readings_is_hollow():
    (panel,) = order([made_up(), made_up(late=1)]).panels
    late = {points.label: points for points in panel.points if points.hollow}
    assert {*late} == {f"{arm}, still changing at the end" for arm in ARMS}
    accuracy = [points for points in panel.points if points.y[0] < 1.5]
    assert not any(points.hollow for points in accuracy), "zero training error and training accuracy, at 3 and 10"
    (radius,) = (place for place, row in enumerate(panel.rows) if row == "Robust radius ↑")
    row = [points for points in panel.points if abs(points.y[0] - radius) < 0.5]
    assert [(points.x, points.joined, points.hollow) for points in row] == [
        ((30, 100), True, False),
        ((30, 100), False, True),
        ((30, 30), True, False),
        ((30, 30), False, True),
    ]


def test_a_row_says_which_arm_has_no_point():
    seed = made_up(**{"train/truncated": (1.0,) * 6})
    for record in seed[len(STEPS) :]:
        record["train/truncated"] = STEPS.index(record["step"]) / 5
    for count in (1, 2):
        (panel,) = order([seed] * count).panels
        assert panel.rows[-1] == f"Truncated by the ReLUs ↑ (weight decay 0 of {count})"


def test_a_change_in_a_minority_of_the_seeds_is_named_in_its_row_and_does_not_sort_it():
    once, never = (0.0, 1.0, 1.0, 1.0, 1.0, 1.0), (1.0,) * 6
    seeds = [made_up(**{"train/truncated": values}) for values in (once, never, never)]
    for seed in seeds:
        for record in seed[len(STEPS) :]:
            record["train/truncated"] = STEPS.index(record["step"]) / 5
    (panel,) = order(seeds).panels
    assert panel.rows[-1] == "Truncated by the ReLUs ↑ (weight decay 1 of 3)", "GrokAlign is done at 100"


def test_claims_are_of_every_seed():
    still = {"train/equiangularity": (1.0,) * 6}
    still["jacobians/robust_radius"] = (1.0,) * 6
    good = made_up(1, **still, **{"test/accuracy": (0.1, 0.1, 0.1, 0.1, 0.2, 0.9)})
    by_says = {claim.message: claim for claim in claims([good, good])}
    assert len(by_says) == 21
    first = by_says["GrokAlign: memorisation before generalisation"]
    assert (first.measured, first.holds) == ("3 and 100; 3 and 100", True)
    assert by_says["GrokAlign: the centroids' alignment before generalisation"].holds
    assert (
        by_says["GrokAlign: generalisation before robustness (the radius)"].measured == "100 and never; 100 and never"
    )
    assert by_says["sooner with GrokAlign than with weight decay: the centroids' alignment"].holds
    assert (
        by_says["GrokAlign: zero training error before the first of NC1 to NC4 is done"].measured
        == "3 and 30; 3 and 30"
    )
    equal = claims([good, made_up()])
    assert [claim.holds for claim in equal[-5:]] == [False] * 5
    assert "PC1 of the Jacobians" in equal[-1].measured
    assert not equal[3].holds, "at one reading is not before"


def done_at(*places, rest=(5, 5)):
    """Both arms' records, in which quantities are done at these of `STEPS`: zero error, test accuracy, alignment of
    centroids and of Jacobians, PC1, radius, kernel, angles, NC1; all else at `rest`."""
    names = (
        "train/accuracy", "test/accuracy", "jacobians/centroid_alignment", "jacobians/jacobian_alignment",
        "jacobians/explained_variance_ratio", "jacobians/robust_radius", KERNEL, "train/equiangularity", "train/nc1",
    )  # fmt: skip
    records = []
    for arm, of_arm, last in zip(ARMS, places, rest, strict=True):
        at = dict.fromkeys((quantity.name for quantity in QUANTITIES), last) | dict(zip(names, of_arm, strict=True))
        for place, step in enumerate(STEPS):
            risen = {name: 1.0 if place >= done else 0.1 for name, done in at.items()}
            risen |= {name: 1.1 - risen[name] for name in (KERNEL, *COLLAPSE)}
            records.append({"arm": arm, "step": step, **risen})
    return records


def test_each_claim_compares_what_it_says():
    found = claims([done_at((1, 3, 2, 4, 4, 5, 3, 3, 4), (2, 2, 3, 1, 3, 4, 4, 5, 1))])
    assert [(claim.measured, claim.holds) for claim in found[:-1]] == [
        ("1 and 10", True), ("1 and 3", True), ("1 and 30", True), ("3 and 10", True), ("30 and 10", False),
        ("10 and 100", True), ("1 and 10", True), ("1 and 10", True),
        ("3 and 3", False), ("3 and 10", True), ("3 and 1", False), ("10 and 3", False), ("1 and 3", True),
        ("3 and 30", True), ("3 and 30", True), ("3 and 1", False),
        ("3 and 10", True), ("10 and 3", False), ("1 and 30", True), ("10 and 30", True),
    ]  # fmt: skip


def test_what_is_no_sooner_is_an_exception():
    """Of all but the training accuracy, whichever way it goes."""
    later = (2, 1, 2, 1, 1, 1, 2, 1, 1)
    (*_, last) = claims([done_at((1,) + (2,) * 8, later, rest=(4, 3))])
    assert (last.measured, last.holds) == ("Centroid alignment; NTK beside its start", False)
    (*_, last) = claims([done_at((1,) + (2,) * 8, (2,) + (1,) * 8, rest=(4, 3))])
    assert (last.measured, last.expected, last.holds) == ("no exception", "no exception", True)


@pytest.mark.parametrize("order", [1, -1])
def test_one_seed_of_two_refutes(order):
    sooner = done_at((2,) * 9, (1,) * 9)
    lost = [record | ({"test/accuracy": 0.5} if record["arm"] == ARMS[1] else {}) for record in sooner]
    (first, *_) = (claim for claim in claims([sooner, lost][::order]) if "sooner" in claim.message)
    assert (first.measured.split("; ")[::order], first.holds) == (["1 and 3", "never and 3"], False)
    (alone, *_) = (claim for claim in claims([sooner]) if "sooner" in claim.message)
    assert alone.holds


def test_what_changes_the_wrong_way_is_not_what_a_claim_speaks_of():
    """Alignment that falls is no alignment, and angles that spread are no collapse."""
    fallen = {"jacobians/centroid_alignment": (9.0, 9.0, 9.0, 9.0, 1.0, 1.0)}
    fallen["train/equiangularity"] = (1.0, 9.0, 9.0, 9.0, 9.0, 9.0)
    found = {claim.message: claim for claim in claims([made_up(1, **fallen)])}
    for message in ("memorisation before the centroids' alignment", "the centroids' alignment before generalisation"):
        assert not found[f"GrokAlign: {message}"].holds
    assert found["GrokAlign: memorisation before the centroids' alignment"].measured == "3 and never"
    assert found["GrokAlign: memorisation before the Jacobians' alignment"].holds
    first = found["GrokAlign: zero training error before the first of NC1 to NC4 is done"]
    assert (first.measured, first.holds) == ("3 and 30", True)
    assert not found["sooner with GrokAlign than with weight decay: the centroids' alignment"].holds
    other = dict.fromkeys(("test/accuracy", "jacobians/robust_radius"), (9.0, 9.0, 9.0, 9.0, 1.0, 1.0))
    other |= {KERNEL: (1.0, 1.0, 1.0, 1.0, 9.0, 9.0)}
    measured = {claim.message: claim.measured for claim in claims([made_up(**other)])}
    assert measured["GrokAlign: memorisation before generalisation"] == "3 and never"
    assert measured["GrokAlign: generalisation before robustness (the radius)"] == "never and never"
    assert measured["GrokAlign: memorisation before the kernel has turned (feature learning)"] == "3 and never"
    assert measured["sooner with GrokAlign than with weight decay: generalisation"] == "never and never"


def test_table_summary_and_figures_say_when():
    records = made_up(**{"jacobians/effective_rank": (5.0,) * 6})
    columns, rows = table(records)
    assert all(len(row) == len(columns) for row in rows)
    assert len({*columns}) == len(columns)
    assert rows[0] == ("Zero training error", "", "", "3", "", "3")
    assert rows[2] == ("Test accuracy", "1", "9", "30", "9", "30")
    assert rows[8] == ("Effective rank of the Jacobians' AGOP", "5", "5", "no change", "5", "no change")
    assert summary(records).startswith("With weight decay: zero training error at step 3, the centroids' alignment")
    still = made_up(**{"jacobians/centroid_alignment": (0.5,) * 6, "train/accuracy": (0.1, 0.5, 0.9, 0.9, 0.9, 0.9)})
    assert "zero training error never, the centroids' alignment done never, the test accuracy done at step 30" in (
        summary(still)
    )
    _, curves = figures(records)
    dots = {panel.title: [line for line in panel.lines if len(line.x) == 1] for panel in curves.panels}
    assert [line.x for line in dots["Test accuracy"]] == [(30,), (30,)]
    assert dots["Effective rank of the Jacobians' AGOP"] == []
    (dashed,) = (line for panel in curves.panels for line in panel.lines if line.dashed)
    assert dashed.y == (0.9,) * 6


def test_settings_are_checked_together():
    with pytest.raises(RangeError, match=r"kernel from 2 to samples, got 60; radius finite and above 0, got 0"):
        Config(samples=50, jacobians=5, kernel=60, radius=0)


def test_kernel_alignment_is_the_cka_of_the_gradients():
    generator = torch.Generator().manual_seed(0)
    model, later = (mlp((5, 8, 3), generator=generator).double() for _ in range(2))
    x = torch.randn(6, 5, dtype=torch.float64, generator=generator) + 2

    def gradients(model):
        outputs = model(x).flatten()
        return torch.stack([torch.cat([g.flatten() for g in torch.autograd.grad(o, [*model.parameters()],
                            retain_graph=True)]) for o in outputs]).reshape(6, -1)  # fmt: skip

    found = kernel_alignment(model, x)(later)
    torch.testing.assert_close(found, start_cka(gradients(later), gradients(model)))
    assert found < cosine(ntk(later, x).flatten(), ntk(model, x).flatten()), "centring takes the common mean away"


@pytest.mark.data
def test_smallest_variant_resumes_exactly(tmp_path):
    config = Config(samples=50, jacobians=8, kernel=4, near=1, width=12, steps=4, readings=1, dtype="mixed")

    records = resumed(run, config, tmp_path, step=1, arm="GrokAlign")

    start, other = (next(record for record in records if record["arm"] == arm) for arm in ARMS)
    assert start | {"arm": ARMS[1]} == other, "the arms start apart"
    assert start[KERNEL] == pytest.approx(1)
    assert start[UNRELATED] == records[-1][UNRELATED] < 0.999
    assert all({quantity.name for quantity in QUANTITIES} <= record.keys() for record in records)
    assert (
        records[-1]["jacobians/jacobian_norm"] != next(r for r in records if r["step"] == 4)["jacobians/jacobian_norm"]
    )
