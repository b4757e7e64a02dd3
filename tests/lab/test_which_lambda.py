"""which-lambda: its rules on made-up scans with a known answer, and a small run, stopped half way."""

import dataclasses
import time

import numpy as np
import pytest
import torch

from gnomon_lab.papers.own import which_lambda
from gnomon_lab.papers.own._methods import Training
from gnomon_lab.papers.own._trial import Outcome
from gnomon_lab.papers.own._trial_tasks import TASKS
from gnomon_lab.papers.own.which_lambda import COEFFICIENTS, RULES, Config
from gnomon_lab.runs import Run
from tests.lab.resuming import resumed

RATIOS = {"digits": 0.1, "addition": 1.0, "parity": 10.0}


def scan(task, ratio, seeds=2):
    """A task whose best coefficient is a hundredth of a ratio that it shows; a factor away from it costs a factor."""
    away = np.abs(np.log(np.array(COEFFICIENTS) / (0.01 * ratio)))
    units = {RULES[0]: np.ones(seeds), RULES[1]: np.full(seeds, ratio), RULES[2]: np.ones(seeds)}
    cost = np.tile(np.exp(away), (seeds, 1))
    return which_lambda.Scan(task, "tuned", cost, np.full(cost.shape, True), np.full(seeds, 50.0), seeds, units)


def test_a_rule_that_is_right_costs_nothing_on_tasks_left_out():
    found = [scan(task, ratio) for task, ratio in RATIOS.items()]
    judged = which_lambda.left_out(found, RULES[1])
    for task, (constant, cost, _) in zip(RATIOS, judged.values(), strict=True):
        assert cost == pytest.approx(1.0), task
        assert constant == pytest.approx(0.01, rel=0.34), "the middle of those that choose the best coefficients"
    wrong = which_lambda.left_out(found, RULES[0])
    assert max(cost for _, cost, _ in wrong.values()) > 9, "a constant is a factor of ten off where ratios differ so"
    assert which_lambda.median_cost(found, RULES[1]) == pytest.approx(1.0)


def test_a_task_that_was_trained_both_ways_is_left_out_whole():
    found = [scan("digits", 10.0), dataclasses.replace(scan("digits", 10.0), way="untuned"), scan("parity", 0.1)]
    judged = which_lambda.left_out(found, RULES[0])
    assert list(judged) == [("digits", "tuned"), ("digits", "untuned"), ("parity", "tuned")]
    constants = [constant for constant, _, _ in judged.values()]
    assert constants == pytest.approx([1e-3, 1e-3, 1e-1], rel=0.34)
    assert [cost for _, cost, _ in judged.values()] == pytest.approx([100.0] * 3)


def test_costs_are_weighed_by_their_logarithms_over_networks(monkeypatch):
    monkeypatch.setattr(which_lambda, "COEFFICIENTS", (0.1, 1.0))
    cost = np.array([[1.0, 2.0], [100.0, 60.0]])
    uneven = which_lambda.Scan("digits", "tuned", cost, np.full((2, 2), True), np.ones(2), 2, {RULES[0]: np.ones(2)})
    assert which_lambda.best(uneven) == 0, "by the mean, or by the worse one, it would be the other"
    assert which_lambda.dearer(uneven, RULES[0], 1.0) == pytest.approx((2 / 1 * 60 / 100) ** 0.5)


BEST = {"parity": 1e-2, "addition": 1e-2, "transformer": 1e-2, "digits": 1.0}
RATIOS_OF_LOSS = {"parity": 1e3, "addition": 1e4, "transformer": 1e5, "digits": 1e6}


def made_up(task, way):
    """Two networks, the second twice as slow; ten times λ costs sqrt(10) times the steps; as the gradients say."""
    base = {"task": task, "way": way, "whole": False, "unseen": 1.0, "most": 10_000}
    size = len(task)
    shares = {"loss_gradient": 100 * BEST[task] * size, "jacobian_norm_gradient": size}
    start = shares | {"loss": size, "jacobian_norm": size / RATIOS_OF_LOSS[task]}
    records = []
    for seed in (0, 1):
        records.append(base | start | {"coefficient": 0.0, "seed": seed, "steps": 1000 * (1 + seed)})
        for each in COEFFICIENTS:
            away = max(each / BEST[task], BEST[task] / each) ** 0.5
            records.append(base | {"coefficient": each, "seed": seed, "steps": 100 * away * (1 + seed)})
    return records


@pytest.fixture
def records():
    return [each for task in BEST for each in made_up(task, "tuned")] + made_up("parity", "untuned")


def test_the_table_has_the_best_coefficient_and_what_rules_cost(records):
    columns, rows = which_lambda.table(records)
    assert columns == ("", "best λ", "no penalty", *RULES)
    root = "3.16 x"
    assert rows == [
        ("parity, tuned", "0.01", "10.00 x", "1.00 x", "1.00 x", root),
        ("addition, tuned", "0.01", "10.00 x", "1.00 x", "1.00 x", root),
        ("transformer, tuned", "0.01", "10.00 x", "1.00 x", "1.00 x", "10.00 x"),
        ("digits, tuned", "1", "10.00 x", "10.00 x", "1.00 x", "1.00 x"),
        ("parity, untuned", "0.01", "10.00 x", "1.00 x", "1.00 x", root),
        ("median", "", "10.00 x", "1.00 x", "1.00 x", root),
        ("median, tuned", "", "10.00 x", "1.00 x", "1.00 x", root),
    ]
    assert which_lambda.median_cost(which_lambda.scans([records]), RULES[0]) == pytest.approx(1.0)


def test_no_penalty_at_all_is_beside_every_rule_over_all_rows_and_over_tuned_ones(records):
    """With plain AdamW that takes 2, 4, 6 and 8 times the best λ's steps on the tuned tasks, and 100 times untuned."""
    factors = {(task, "tuned"): 2.0 * (1 + place) for place, task in enumerate(BEST)} | {("parity", "untuned"): 100.0}
    for record in records:
        if record["coefficient"] == 0:
            record["steps"] = 100 * factors[record["task"], record["way"]] * (1 + record["seed"])
    rows = {row[0]: row[2] for row in which_lambda.table(records)[1]}
    assert [rows[f"{task}, {way}"] for task, way in factors] == ["2.00 x", "4.00 x", "6.00 x", "8.00 x", "100.00 x"]
    assert (rows["median"], rows["median, tuned"]) == ("6.00 x", "5.00 x")
    assert which_lambda.summary(records).endswith("no penalty 6.00 times.")
    assert [claim.measured.split("; ")[1] for claim in which_lambda.claims([records])] == ["no penalty 6.00 x"] * 3


def test_a_rule_will_do_by_its_median(records):
    said = [(claim.measured, claim.holds) for claim in which_lambda.claims([records])]
    assert said == [
        ("1.00 x, at worst 10.00 x; no penalty 10.00 x; fewer networks arrive on 0 of 5 tasks", True),
        ("1.00 x, at worst 1.00 x; no penalty 10.00 x; fewer networks arrive on 0 of 5 tasks", True),
        ("3.16 x, at worst 10.00 x; no penalty 10.00 x; fewer networks arrive on 0 of 5 tasks", False),
    ]


def test_a_rule_with_which_networks_do_not_arrive_will_not_do(records):
    """They count with the steps that were waited for, which may be hardly more than the best λ takes."""
    for record in records:
        if record["task"] == "digits" and record["coefficient"] == 0.01:
            record |= {"most": record["steps"], "steps": None}
    (first, *_), row = which_lambda.claims([records]), which_lambda.table(records)[1][3]
    assert (first.measured, first.holds) == (
        "1.00 x, at worst 10.00 x; no penalty 10.00 x; fewer networks arrive on 1 of 5 tasks",
        False,
    )
    assert row[:4] == ("digits, tuned", "1", "10.00 x", "10.00 x, 0 of 2 arrive")


def test_one_network_less_is_fewer(records):
    for record in records:
        if (record["task"], record["coefficient"], record["seed"]) == ("digits", 0.01, 1):
            record |= {"most": record["steps"], "steps": None}
    first, *_ = which_lambda.claims([records])
    assert first.measured.endswith("fewer networks arrive on 1 of 5 tasks")
    assert not first.holds


def test_the_picture_has_times_the_steps_without_the_penalty(records):
    (curves,) = which_lambda.figures(records)
    tuned, untuned = curves.panels
    assert [line.label for line in tuned.lines] == list(BEST)
    assert [line.label for line in untuned.lines] == ["parity"]
    for line in tuned.lines:
        assert line.y[COEFFICIENTS.index(BEST[line.label])] == pytest.approx(0.1)
        assert min(line.y) == pytest.approx(0.1)
    assert "no network arrives on" not in curves.caption


def test_the_picture_has_no_line_where_no_network_arrives(records):
    """Waiting for nobody as long as for nobody else is no multiple of anything."""
    for record in records:
        if (record["task"], record["way"]) == ("parity", "untuned") and record["coefficient"] in (
            0.0,
            1e-4,
            1e-2,
            3e-2,
        ):
            record |= {"most": 10_000, "steps": None}
        if (record["task"], record["coefficient"], record["seed"]) == ("digits", 1e-4, 1):
            record |= {"most": 10_000, "steps": None}
    (curves,) = which_lambda.figures(records)
    assert curves.caption.endswith("AdamW, untuned: without the penalty no network arrives on parity.")
    assert [(line.label, line.x) for line in curves.panels[1].lines] == [
        ("parity", (3e-4, 1e-3, 3e-3)),
        ("parity", (1e-1, 3e-1, 1.0)),
    ]
    (digits,) = (line for line in curves.panels[0].lines if line.label == "digits")
    assert digits.x == COEFFICIENTS, "one network of two arrives"


def test_each_way_has_its_adamw_its_patience_and_its_networks(tmp_path, monkeypatch):
    made, starts = [], []

    def trial(task, change, rate, decay, seed, data_dir, most):
        training = Training(torch.nn.Linear(2, 2), rate, decay, torch.Generator())
        change(training)
        made.append((rate, decay, seed, most, getattr(training.run, "__self__", None)))
        return Outcome(1, 0.0, most, None, 1.0)

    monkeypatch.setattr(which_lambda, "trial", trial)
    monkeypatch.setattr(which_lambda, "at_start", lambda task, seed, data_dir: starts.append(seed) or {})
    monkeypatch.setattr(which_lambda, "COEFFICIENTS", (0.1,))
    which_lambda.run(Config(("parity",), 2, 4), Run(tmp_path, 3))
    steps = TASKS["parity"].steps
    assert [each[:4] for each in made] == [
        (*adamw, seed, most)
        for adamw, most in ((which_lambda.BASES["parity"], steps), (which_lambda.UNTUNED, 4 * steps))
        for seed in (3000, 3001) * 2
    ]
    penalties = [each[4] for each in made[:4]]
    assert penalties[:2] == [None, None]
    assert [(penalty.coefficient, penalty.every) for penalty in penalties[2:]] == [(0.1, 16)] * 2
    assert starts == [3000, 3001] * 2


def test_the_nearest_coefficient_is_taken():
    assert which_lambda.places(np.array([1e-9, 0.012, 0.018, 50.0])).tolist() == [0, 4, 5, 8]
    assert which_lambda.best(scan("parity", 10.0)) == COEFFICIENTS.index(1e-1)


def test_who_does_not_arrive_costs_what_was_waited_for():
    record = {"whole": False, "steps": None, "most": 300, "unseen": 0.9}
    assert which_lambda.cost_of(record) == 300
    assert which_lambda.cost_of(record | {"steps": 20}) == 20
    assert which_lambda.cost_of(record | {"whole": True}) == pytest.approx(0.1)
    assert [which_lambda.arrived(record | {"whole": whole}) for whole in (False, True)] == [False, True]


def test_the_start_is_of_the_network_that_is_trained():
    found = which_lambda.at_start(TASKS["parity"], 0, None)
    draws = torch.Generator().manual_seed(0)
    train, _ = TASKS["parity"].data(None, draws)
    model = TASKS["parity"].network(draws)
    loss = torch.nn.functional.cross_entropy(model(train.x), train.labels)
    loss.backward()
    gradient = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    assert found["loss"] == pytest.approx(loss.item())
    assert found["loss_gradient"] == pytest.approx(gradient.norm().item())
    each = torch.func.jacrev(lambda x: torch.func.functional_call(model, dict(model.named_parameters()), (x[None],))[0])
    exact = torch.func.vmap(each)(train.x).flatten(1).norm(dim=1).mean()
    assert found["jacobian_norm"] == pytest.approx(exact.item(), rel=0.03), "one projection of each of 1,000 samples"
    gradients = torch.autograd.grad(exact, model.parameters(), allow_unused=True)
    norm = torch.cat([gradient.flatten() for gradient in gradients if gradient is not None]).norm()
    assert found["jacobian_norm_gradient"] == pytest.approx(norm.item(), rel=0.03)


def test_a_small_run_resumes_exactly(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "process_time", lambda: 0.0)
    for task in ("parity", "addition"):
        monkeypatch.setitem(TASKS, task, dataclasses.replace(TASKS[task], steps=2))
    monkeypatch.setattr(which_lambda, "COEFFICIENTS", (1e-3, 1e-1))
    records = resumed(which_lambda.run, Config(("parity", "addition"), 1, 2), tmp_path, step=1, arm="addition untuned")
    assert [(r["task"], r["way"], r["coefficient"]) for r in records[3:6]] == [
        ("parity", "untuned", coefficient) for coefficient in (0.0, 1e-3, 1e-1)
    ]
    assert {r["most"] for r in records if r["way"] == "untuned"} == {4}
    columns, rows = which_lambda.table(records)
    assert len(rows) == 4 + 2
    assert {len(row) for row in rows} == {len(columns)}
    assert which_lambda.figures(records) == [], "no network arrives in two steps"
    assert len(which_lambda.claims([records, records])) == len(RULES)
    assert "a constant" in which_lambda.summary(records)
    alone = [record for record in records if record["task"] == "parity"]
    assert which_lambda.summary(alone).startswith("One task alone")
    assert which_lambda.table(alone)[1][-1][3:] == ("", "", ""), "no rule is judged"
