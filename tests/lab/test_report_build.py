"""What a run's page says that is not in its experiment's own words: what the readings cost, and all seeds together."""

import pytest
import torch

from gnomon import Probe, accuracy, every, frobenius_norm
from gnomon_lab.papers import EXPERIMENTS, anatomy, experiment, grok_digits
from gnomon_lab.report.build import build
from gnomon_lab.report.cost import cost
from gnomon_lab.runs import Run, open_run
from tests.lab.test_anatomy import made_up


def seconds(read, trained, **parts):
    return {"read": read, "trained": trained, "cost": parts}


def test_cost_is_told_by_arm_with_the_dearest():
    records = [
        {"arm": "a", "step": 0, "seconds": seconds(1.0, 0.0, jacobian=0.75, logits=0.25)},
        {"arm": "a", "step": 1, "seconds": seconds(3.0, 12.0, jacobian=1.0, logits=0.25, ntk=0.5, rest=0.25)},
        {"arm": "flow", "step": 0, "seconds": seconds(0.0, 2.0)},
        {"arm": "still", "step": 0, "seconds": seconds(0.5, 0.0, logits=0.5)},
    ]
    assert cost(records) == {
        "a": "3 s of reading beside 12 s of training, 25% of it; most for jacobian 1.8 s, logits 0.5 s, ntk 0.5 s",
        "still": "0.5 s of reading beside 0 s of training; most for logits 0.5 s",
    }


def test_cost_is_that_of_the_readings(tmp_path):
    run = Run(tmp_path, 0)
    model = torch.nn.Linear(4, 3)
    probe = Probe(model, (torch.randn(20, 4), torch.arange(20) % 3), [accuracy, frobenius_norm], every(1))
    for step in run.steps("arm", 3, model=model):
        run.record(step, probe.read(step))
    told = cost(run.records())["arm"]
    assert "frobenius_norm" in told or "jacobian" in told
    read = sum(sum(record["seconds"]["cost"].values()) for record in run.records())
    assert told.startswith(f"{read:.2g} s of reading beside")


def finished(root, seed, late):
    found = open_run(root, "anatomy", anatomy.SMALL, seed)
    run = Run(found.folder, seed)
    for record in made_up(late=late):
        run.record(record["step"], **{key: value for key, value in record.items() if key not in ("step", "seconds")})
    found.finish()
    return found


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_figures_over_seeds_are_the_experiments_own(name):
    """Not a helper of the same name that it imports."""
    module = experiment(name)
    if hasattr(module, "figures_over_seeds"):
        assert module.figures_over_seeds.__module__ == module.__name__


def test_an_experiment_without_figures_over_seeds_has_its_page_with_several(tmp_path):
    config = grok_digits.Config(steps=2, width=8, train=60, readings=2)
    for seed in range(2):
        found = open_run(tmp_path, "grok-digits", config, seed)
        grok_digits.run(config, Run(found.folder, seed))
        found.finish()
        assert "What each network looks for" in build(found).read_text()


def test_a_page_shows_all_seeds_of_its_setting(tmp_path):
    first = finished(tmp_path, 0, 0)
    assert "order-over-seeds" not in build(first).read_text()
    second = finished(tmp_path, 1, 1)
    page = build(second).read_text()
    assert "2 seeds: where all change, their range holds the median over all seeds with 50%" in page
    assert (second.folder / "figures" / "order-over-seeds.svg").exists()
    # Another setting's runs are not among them.
    other = open_run(tmp_path, "anatomy", anatomy.PAPER, 0)
    for record in made_up():
        Run(other.folder, 0).record(record["step"], **{k: v for k, v in record.items() if k not in ("step", "seconds")})
    other.finish()
    assert "order-over-seeds" not in build(other).read_text()
