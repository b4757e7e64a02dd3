"""The loop that experiments share makes the updates of one written out, and resumes exactly."""

import pytest
import torch
from torch.nn.functional import mse_loss

from gnomon import GrokAlign, SpectralNormPenalty, every
from gnomon.errors import ConvergenceError
from gnomon.models import mlp
from gnomon_lab.runs import Run
from gnomon_lab.runs.checkpoint import load_of_run
from gnomon_lab.training import fit, in_order, shuffled
from tests.lab.resuming import resumed


def drawn(seed=0):
    generator = torch.Generator().manual_seed(seed)
    samples = torch.randn(7, 4, generator=generator), torch.randn(7, 3, generator=generator)
    return samples, mlp((4, 8, 3), generator=generator), generator


def weights(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def test_it_makes_the_updates_of_a_loop_written_out(tmp_path):
    (x, labels), model, generator = drawn()
    optimizer, penalty = torch.optim.SGD(model.parameters(), 0.1), GrokAlign(0.5, generator=generator)
    for _ in range(3):
        for some, wanted in zip(x.split(3), labels.split(3), strict=True):
            outputs, added = penalty.logits_and_penalty(model, some)
            optimizer.zero_grad()
            (2 * mse_loss(outputs, wanted) + added).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
    samples, fitted, generator = drawn()
    steps = fit(
        Run(tmp_path, 0), "arm", 3, fitted, torch.optim.SGD(fitted.parameters(), 0.1), in_order(samples, 3),
        lambda outputs, labels: 2 * mse_loss(outputs, labels), due=every(2),
        penalty=GrokAlign(0.5, generator=generator), generator=generator,
        filter_gradients=lambda: torch.nn.utils.clip_grad_norm_(fitted.parameters(), 0.1),
    )  # fmt: skip
    assert list(steps) == [0, 2, 3]
    torch.testing.assert_close(weights(fitted), weights(model), rtol=0, atol=0)


def test_inputs_keep_the_graph_they_come_with(tmp_path):
    """An embedding learns through the inputs that it makes, under a penalty too."""
    (x, labels), model, generator = drawn()
    whole = torch.nn.ModuleDict({"embed": torch.nn.Linear(4, 4), "rest": model})
    before = whole["embed"].weight.detach().clone()
    for step in fit(
        Run(tmp_path, 0), "arm", 1, whole, torch.optim.SGD(whole.parameters(), 0.1),
        lambda step: [(whole["embed"](x), labels)], mse_loss, due=every(1), forward=model,
        penalty=GrokAlign(0.5, generator=generator),
    ):  # fmt: skip
        assert (whole["embed"].weight != before).any() == (step == 1)


def test_a_loss_that_is_no_number_ends_it_before_the_update(tmp_path):
    samples, model, _ = drawn()
    before, optimizer = weights(model).clone(), torch.optim.SGD(model.parameters(), 0.1)
    steps = fit(
        Run(tmp_path, 0), "arm", 3, model, optimizer, in_order(samples, 7),
        lambda outputs, labels: outputs.sum() * torch.nan, due=every(1),
    )  # fmt: skip
    with pytest.raises(ConvergenceError, match="expected a finite objective at step 1, got nan"):
        list(steps)
    torch.testing.assert_close(weights(model), before, rtol=0, atol=0)


def test_a_stopped_run_ends_with_the_records_of_an_unbroken_one(tmp_path):
    def train(_, run):
        samples, model, generator = drawn(run.seed)
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)
        batches = shuffled(samples, 3, generator)
        for step in fit(run, "arm", 6, model, optimizer, batches, mse_loss, due=every(1), generator=generator):
            run.record(step, norm=weights(model).norm().item())

    records = resumed(train, None, tmp_path, step=4)
    assert len({record["norm"] for record in records}) == 7


def test_each_step_has_all_samples_once_in_another_order():
    samples = torch.arange(10)[:, None], torch.arange(10)
    batches = shuffled(samples, 4, torch.Generator().manual_seed(0))
    orders = [torch.cat([labels for _, labels in batches(step)]).tolist() for step in (1, 2)]
    assert [len(labels) for _, labels in batches(3)] == [4, 4, 2]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == [*range(10)]
    assert all(torch.equal(x[:, 0], labels) for x, labels in batches(4))


def test_a_stopped_run_goes_on_at_the_place_where_the_penalty_was(tmp_path):
    """Three batches a step, the penalty at one in five: without a word in the experiment."""

    def train(_, run):
        samples, model, generator = drawn(run.seed)
        optimizer, penalty = torch.optim.AdamW(model.parameters(), 0.01), GrokAlign(0.5, every=5, generator=generator)
        steps = fit(
            run, "arm", 6, model, optimizer, shuffled(samples, 3, generator), mse_loss, due=every(1),
            penalty=penalty, generator=generator,
        )  # fmt: skip
        for step in steps:
            run.record(step, norm=weights(model).norm().item(), calls=penalty.state_dict()["calls"])

    records = resumed(train, None, tmp_path, step=4)
    assert [record["calls"] for record in records] == [0, 3, 6, 9, 12, 15, 18]


def test_a_stopped_run_goes_on_in_the_direction_of_any_penalty(tmp_path):
    """One other than GrokAlign: a new one would begin its iteration where the first call did."""

    def train(_, run):
        samples, model, generator = drawn(run.seed)
        optimizer = torch.optim.AdamW(model.parameters(), 0.01)
        penalty = SpectralNormPenalty(model.parameters(), 0.5, generator=torch.Generator().manual_seed(1))
        batches = shuffled(samples, 3, generator)
        steps = fit(
            run, "arm", 6, model, optimizer, batches, mse_loss, due=every(1), penalty=penalty, generator=generator
        )
        for step in steps:
            run.record(step, norm=weights(model).norm().item())

    records = resumed(train, None, tmp_path, step=4)
    assert len({record["norm"] for record in records}) == 7


def test_checkpoints_have_no_count_of_a_penalty_that_always_acts(tmp_path):
    """So that runs begun before penalties were in the state resume."""
    samples, model, generator = drawn()
    optimizer, penalty = torch.optim.SGD(model.parameters(), 0.1), GrokAlign(0.5, generator=generator)
    run = Run(tmp_path, 0)
    list(fit(run, "arm", 1, model, optimizer, in_order(samples, 7), mse_loss, due=every(1), penalty=penalty))
    assert load_of_run(run.checkpoint_path("arm"))["state"].keys() == {"model", "optimizer"}
