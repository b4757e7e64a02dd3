"""which-lambda: its rules on made-up scans with a known answer, and a small run, stopped half way."""

import dataclasses
import time

import numpy as np
import pytest
import torch

from gnomon_lab.papers.own import which_lambda
from gnomon_lab.papers.own.steering.tasks import TASKS
from gnomon_lab.papers.own.which_lambda import COEFFICIENTS, RULES, Config
from tests.lab.resuming import resumed

RATIOS = {"digits": 0.1, "addition": 1.0, "parity": 10.0}


def scan(task, ratio, seeds=2):
    """A task whose best coefficient is a hundredth of a ratio that it shows; a factor away from it costs a factor."""
    away = np.abs(np.log(np.array(COEFFICIENTS) / (0.01 * ratio)))
    units = {RULES[0]: np.ones(seeds), RULES[1]: np.full(seeds, ratio), RULES[2]: np.ones(seeds)}
    return which_lambda.Scan(task, "tuned", np.tile(np.exp(away), (seeds, 1)), np.full(seeds, 50.0), units)


def test_a_rule_that_is_right_costs_nothing_on_tasks_left_out():
    found = [scan(task, ratio) for task, ratio in RATIOS.items()]
    judged = which_lambda.left_out(found, RULES[1])
    for task, (constant, cost) in zip(RATIOS, judged.values(), strict=True):
        assert cost == pytest.approx(1.0), task
        assert constant == pytest.approx(0.01, rel=0.6), "to within half the way to the next coefficient"
    wrong = which_lambda.left_out(found, RULES[0])
    assert max(cost for _, cost in wrong.values()) > 9, "a constant is a factor of ten off where ratios differ so"
    assert which_lambda.middle(found, RULES[1]) == pytest.approx(1.0)


def test_the_nearest_coefficient_is_taken():
    assert which_lambda.places(np.array([1e-9, 0.012, 0.018, 50.0])).tolist() == [0, 4, 5, 8]
    assert which_lambda.best(scan("parity", 10.0)) == COEFFICIENTS.index(1e-1)


def test_who_does_not_arrive_costs_what_was_waited_for():
    record = {"whole": False, "steps": None, "most": 300, "unseen": 0.9}
    assert which_lambda.cost_of(record) == 300
    assert which_lambda.cost_of(record | {"steps": 20}) == 20
    assert which_lambda.cost_of(record | {"whole": True}) == pytest.approx(0.1)


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
    assert found["jacobian_norm"] > 0 < found["jacobian_norm_gradient"]


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
    assert len(rows) == 4
    assert len(rows[0]) == len(columns)
    assert [panel.title for panel in which_lambda.figures(records)[0].panels] == ["AdamW, tuned", "AdamW, untuned"]
    assert len(which_lambda.claims([records, records])) == len(RULES)
    assert "a constant" in which_lambda.summary(records)
