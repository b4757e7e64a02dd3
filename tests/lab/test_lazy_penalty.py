"""lazy-penalty: its race to a goal, what it says of its records, and a small variant, stopped half way."""

import dataclasses
import time
from unittest.mock import Mock

import pytest
import torch

from gnomon import GrokAlign
from gnomon.data import Samples
from gnomon.errors import RangeError
from gnomon_lab.papers.own._race import Race
from gnomon_lab.papers.own.lazy_penalty import run as lazy_penalty
from gnomon_lab.papers.own.lazy_penalty import tasks
from gnomon_lab.papers.own.lazy_penalty.page import (
    BASELINE,
    best,
    claims,
    figures_over_seeds,
    summary,
    table,
    table_over_seeds,
)
from gnomon_lab.papers.own.lazy_penalty.run import Config, run
from gnomon_lab.papers.own.lazy_penalty.tasks import TASKS
from tests.lab.resuming import resumed

SLOW, FAST = "every 1 part 1 coefficient 0.01", "every 16 part 0.25 coefficient 0.1"


@pytest.fixture
def clock(monkeypatch):
    """A processor whose seconds are ours."""
    now = [0.0]
    monkeypatch.setattr(time, "process_time", lambda: now[0])
    return now


def test_a_race_counts_what_is_not_paused_and_keeps_its_first_arrival(clock):
    race = Race(0.5)
    clock[0] = 2.0
    with race.pause():
        clock[0] = 10.0
        race.look(1, 0.5)
        assert (race.seconds, race.arrived) == (2.0, None), "the goal has to be exceeded"
    clock[0] = 13.0
    race.look(2, 0.6)
    clock[0] = 14.0
    race.look(3, 0.7)
    assert (race.seconds, race.arrived) == (6.0, (2, 5.0))
    saved = race.state_dict()
    clock[0] = 100.0
    other = Race(0.5)
    clock[0] = 107.0
    other.load_state_dict(saved)
    clock[0] = 108.0
    assert (other.seconds, other.arrived) == (7.0, (2, 5.0))


def made_up(steps=100, seconds=4.0, slow=True):
    """Records of weight decay and of two settings, one of which may not arrive; steps and seconds are the other's."""
    ends = {BASELINE: (1200, 24.0), SLOW: (600, 24.0) if slow else None, FAST: (steps, seconds)}
    return [
        {"arm": arm, "step": 0 if start else 2000, "test/accuracy": 0.9, "processor": 0.0 if start else 40.0,
         "arrived": None if start else at}
        for arm, at in ends.items() for start in (True, False)
    ]  # fmt: skip


def test_ratios_are_of_steps_and_seconds_to_the_goal():
    _, rows = table(made_up())
    assert rows[1] == ("λ = 0.01, k = 1", "600", "24", "2.00\u00a0x", "1.00\u00a0x", "1.00", "90.0%")
    assert rows[2] == ("λ = 0.1, k = 16, 0.25 of a batch", "100", "4", "12.00\u00a0x", "6.00\u00a0x", "1.00", "90.0%")
    assert summary(made_up()).endswith("12.0 times fewer steps and 6.0 times less time.")
    (scatter,) = figures_over_seeds([made_up(), made_up(seconds=8.0)])
    assert [panel.points[0].y for panel in scatter.panels] == [(1.0,), (4.5,)], "medians over seeds"


def test_a_seed_that_never_arrives_counts_in_the_figures_median():
    lost = [record | ({"arrived": None} if record["arm"] == FAST else {}) for record in made_up()]
    (scatter,) = figures_over_seeds([lost, lost, made_up()])
    assert len(scatter.panels) == 1, "with two seeds of three FAST never arrives"


def test_the_best_setting_arrives_with_every_seed():
    seeds = [made_up(seconds=1.0), made_up(seconds=1.5), made_up(seconds=100.0)]
    arm, gained = best(seeds)
    assert (arm, [less for _, less in gained]) == (FAST, [24.0, 16.0, 0.24])
    lost = [record | ({"arrived": None} if record["arm"] == FAST else {}) for record in seeds[0]]
    assert best([lost, *seeds[1:]])[0] == SLOW
    assert best([made_up(seconds=48.0), made_up(seconds=48.0), made_up(seconds=0.1)])[0] == SLOW, "by the median"
    never = claims([[record for record in lost if record["arm"] != SLOW]])
    assert [(claim.measured, claim.holds) for claim in never] == [
        ("no setting reached the goal with every seed", False)
    ] * 2
    assert [claim.holds for claim in claims(seeds)] == [True, True]
    assert [claim.holds for claim in claims([made_up(slow=False)])] == [False, True]
    assert table([r for r in lost if r["arm"] in (BASELINE, FAST)])[1][1][1:5] == ("never", "", "", "")


@pytest.mark.parametrize(
    ("seconds", "processor", "holds"),
    [
        ((2.0, 2.0, 48.0), (40.0, 45.0, 400.0), [True, True]),
        ((4.0, 4.0, 0.5), (47.0, 47.0, 10.0), [False, False]),
    ],
)
def test_claims_are_judged_by_medians(seconds, processor, holds):
    seeds = [
        [
            r | {"processor": cost / 2, "step": 1000} if r["arm"] == FAST and r["step"] else r
            for r in made_up(seconds=took, slow=False)
        ]
        for took, cost in zip(seconds, processor, strict=True)
    ]
    found = claims(seeds)
    assert [claim.holds for claim in found] == holds
    assert [claim.expected for claim in found] == [
        "at least 12 x, median over seeds",
        "at most 1.15, median over seeds",
    ]


def test_where_weight_decay_alone_never_arrives_all_its_steps_count():
    """At least so many times less time; a seed that is left out would be the one in which the penalty gains most."""
    lost = [record | ({"arrived": None} if record["arm"] == BASELINE else {}) for record in made_up()]
    _, rows = table([record | {"processor": 30.0} if record["step"] else record for record in lost])
    assert rows[0][1:5] == ("never", "", "", "")
    assert rows[2][1:5] == ("100", "4", "at least 20.00\u00a0x", "at least 7.50\u00a0x")
    seeds = [made_up(), lost, made_up(seconds=1.0)]
    assert best(seeds) == (FAST, [(12.0, 6.0), (20.0, 10.0), (12.0, 24.0)])
    measured = "10.0 x (6.0 to 24.0 over 3 seeds), λ = 0.1, k = 16, 0.25 of a batch; at least, in 1 of 3 seeds, in "
    assert claims(seeds)[0].measured == measured + "which weight decay alone never arrived"
    shown = [row[4] for row in table_over_seeds(seeds)[1]]
    assert shown == ["1.00\u00a0x", "at least 1.00\u00a0x (1.00 to 1.67)", "at least 10.00\u00a0x (6.00 to 24.00)"]
    (scatter,) = figures_over_seeds(seeds)
    assert scatter.caption.endswith("over 3 seeds; at least, as weight decay alone never arrived in 1.")
    assert "at least" not in claims([made_up()])[0].measured


def test_the_table_over_seeds_has_medians_and_ranges():
    seeds = [made_up(), made_up(steps=50, seconds=2.0), made_up(steps=400, seconds=48.0, slow=False)]
    _, rows = table_over_seeds(seeds)
    assert rows[0][:3] == ("weight decay", "1,200", "24")
    assert rows[1][1:5] == (
        "600, 1 of 3 never",
        "24",
        "2.00\u00a0x",
        "1.00\u00a0x",
    )
    assert rows[2][1:5] == (
        "100 (50 to 400)",
        "4 (2 to 48)",
        "12.00\u00a0x (3.00 to 24.00)",
        "6.00\u00a0x (0.50 to 12.00)",
    )
    assert rows[2][5:] == ("1.00", "90.0%")


def test_a_part_of_a_batch_is_at_most_the_whole():
    with pytest.raises(RangeError, match=r"fractions one or more in \(0, 1\], got \(1\.5,\)"):
        Config(fractions=(1.5,))


@pytest.mark.parametrize(
    ("name", "of_x", "of_loss"),
    [("mse", torch.float64, torch.float64), ("mse-mixed", torch.float32, torch.float64)],
)
def test_mixed_precision_is_float32_except_for_the_loss(monkeypatch, name, of_x, of_loss):
    drawn = mnist_samples(of_x)
    asked, trained = [], []
    monkeypatch.setattr(tasks, "mnist_splits", lambda run, n, precision: asked.append(precision) or drawn)

    def noted(run, arm, steps, model, optimizer, batches, loss, **options):
        trained.append((model[0].weight.dtype, loss(model(drawn[0].x), drawn[0].labels).dtype))
        return iter(())

    monkeypatch.setattr(lazy_penalty, "fit", noted)
    run(Config(name, every=(1,), fractions=(1.0,), coefficients=(0.1,)), Mock(seed=0))
    assert asked == [TASKS[name].precision]
    assert trained == [(of_x, of_loss)] * 2, "both arms"


def mnist_samples(dtype):
    """Noise in place of training and unseen digits."""
    train, test = (Samples(torch.randn(4, 784, dtype=dtype), torch.arange(4)) for _ in range(2))
    return train, test


def test_the_smallest_variant_resumes_exactly(tmp_path, clock, monkeypatch):
    task = dataclasses.replace(TASKS["digits"], goal=0.2, batch=100)
    monkeypatch.setitem(TASKS, "digits", task)
    made = []

    def noted(*given, **options):
        made.append((given, {name: options[name] for name in ("every", "fraction")}))
        return GrokAlign(*given, **options)

    monkeypatch.setattr(lazy_penalty, "GrokAlign", noted)
    config = Config(every=(3,), fractions=(0.5,), coefficients=(0.01,), steps=60, least=30)
    records = resumed(run, config, tmp_path, step=18, arm="every 3 part 0.5 coefficient 0.01")
    assert made[0] == ((0.01,), {"every": 3, "fraction": 0.5})
    ends = {record["arm"]: record for record in records}
    for arm, end in ends.items():
        assert end["arrived"][1] == 0.0
        assert end["step"] == (end["arrived"][0] if arm == BASELINE else max(30, end["arrived"][0]))
