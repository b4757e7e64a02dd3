"""Accelerate, which keeps the loop plain: its example in docs/integrations.md, and what it wraps the network in."""

import pytest
import torch
from accelerate import Accelerator, debug_launcher
from accelerate.utils import DataLoaderConfiguration
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from gnomon import Probe, accuracy, every, jacobian_norm
from gnomon.errors import RangeError
from tests.integrations.plain_loop import (
    BATCH,
    EPOCHS,
    LABELS,
    RATE,
    STEPS,
    TOGETHER,
    X,
    assert_equal,
    assert_same,
    forget,
    mean_loss,
    network,
    plain_loop,
    plain_training,
    probe_of,
)
from tests.integrations.timelines import timeline


@pytest.fixture(autouse=True)
def _alone():
    """Accelerators of one process share what the first was told."""
    yield
    forget()


def train(schedule, batch=BATCH, mixed_precision="no", dropout=0.0):
    """The loop of docs/integrations.md: the readings, the probed network, and the trained state."""
    forget()
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=TOGETHER, mixed_precision=mixed_precision)
    model = network(dropout)
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(TensorDataset(X, LABELS), batch))
    bare = accelerator.unwrap_model(model)
    readings, step = {}, 0
    probe = probe_of(bare, schedule) if schedule else lambda step: None
    if reading := probe(step):
        readings[step] = reading.scalars()
    for _ in range(EPOCHS):
        for x, labels in loader:
            with accelerator.accumulate(model):
                accelerator.backward(mean_loss(model, x, labels))
                optimizer.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                step += 1
                if reading := probe(step):
                    readings[step] = reading.scalars()
    assert step == STEPS
    return readings, model, [*bare.state_dict().values()]


def test_readings_are_a_plain_loops():
    readings, _, _ = train(every(2))
    assert_equal(readings, plain_loop(every(2)))


@pytest.mark.parametrize("mixed_precision", ["no", "bf16"])
def test_training_is_the_same_with_and_without(mixed_precision):
    states = []
    for schedule in (every(1), None):
        with torch.random.fork_rng():
            torch.manual_seed(3)
            _, _, state = train(schedule, mixed_precision=mixed_precision, dropout=0.5)
            states.append([*state, torch.get_rng_state()])
    assert_same(*states)


def train_and_read_its_loader(probed, seedable, workers):
    """A training whose epochs end in the middle of an accumulation: its state, and what its loader counts."""
    forget()
    torch.manual_seed(3)
    config = DataLoaderConfiguration(use_seedable_sampler=seedable)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4, dataloader_config=config)
    model = network(0.5)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    batches = DataLoader(
        TensorDataset(X[:40], LABELS[:40]), 4, shuffle=True, num_workers=workers, persistent_workers=workers > 0
    )
    model, optimizer, loader = accelerator.prepare(model, optimizer, batches)
    probe = Probe(accelerator.unwrap_model(model), {"train": loader}, [accuracy, jacobian_norm]) if probed else None
    steps, counted = 0, []
    for _ in range(3):
        for x, labels in loader:
            with accelerator.accumulate(model):
                accelerator.backward(mean_loss(model, x, labels))
                optimizer.step()
                optimizer.zero_grad()
            if probe:
                assert probe.read(steps).values["train/accuracy"].shape == (40 // accelerator.num_processes,)
            steps += accelerator.sync_gradients
        counted.append((steps, loader.iteration))
    return [*model.state_dict().values(), torch.rand(1)], counted


@pytest.mark.parametrize(("seedable", "workers"), [(True, 0), (False, 0), (False, 1)])
def test_the_prepared_loader_that_trains_may_be_read(seedable, workers):
    """Also in the middle of its epoch, whose last step comes with its end."""
    (ours, counted), (theirs, expected) = (
        train_and_read_its_loader(probed, seedable, workers) for probed in (True, False)
    )
    assert counted == expected == [(3, 1), (6, 2), (9, 3)]
    assert_same(ours, theirs)


class Endless(IterableDataset):
    """Samples one after the other, which Accelerate has the first process hand out."""

    def __iter__(self):
        while True:
            yield from zip(X, LABELS, strict=True)


def _read_by_the_first():
    first = torch.distributed.get_rank() == 0
    (ours, counted), (theirs, expected) = (
        train_and_read_its_loader(probed and first, seedable=False, workers=0) for probed in (True, False)
    )
    assert counted == expected
    assert_same(ours, theirs)
    handed_out = Accelerator(cpu=True).prepare(DataLoader(Endless(), 4))
    with pytest.raises(RangeError, match=r"got a DataLoaderDispatcher, which hands them out\. Pass the loader as"):
        Probe(network(), handed_out, [accuracy])


def test_one_process_may_read_a_prepared_loader_alone():
    """One that shuffles, whose order the processes agree on as they begin to train with it."""
    debug_launcher(_read_by_the_first, num_processes=2)


def _train_on_each(folder):
    readings, model, _ = train(every(1), BATCH // 2)
    assert type(model).__name__ == "DistributedDataParallel"
    torch.save(readings, folder / f"{torch.distributed.get_rank()}.pt")


def test_two_processes_are_read_without_their_wrapper(tmp_path):
    debug_launcher(_train_on_each, (tmp_path,), num_processes=2)
    for rank in range(2):
        readings = torch.load(tmp_path / f"{rank}.pt")
        assert [*readings] == [*range(STEPS + 1)]
        assert readings[0] == probe_of(network()).read().scalars()


def test_timelines_of_its_folders_are_what_a_probe_read(tmp_path, monkeypatch, capsys):
    """Its own checkpoints, and models whose weights are parted among files."""
    accelerator = Accelerator(cpu=True)
    prepared = []

    def save(model, step):
        prepared[:] = prepared or [accelerator.prepare(model)]
        accelerator.save_state(tmp_path / "states" / f"checkpoint_{step}")
        accelerator.save_model(model, tmp_path / "models" / f"step_{step}", max_shard_size="0.3KB")

    plain_training(after_step=save)
    assert (tmp_path / "models" / "step_0" / "model.safetensors.index.json").exists()
    assert not (tmp_path / "models" / "step_0" / "model.safetensors").exists()
    for folder in ("states", "models"):
        found, said = timeline(monkeypatch, capsys, tmp_path / folder)
        assert_equal(found, plain_loop())
        assert "the number in the name" in said
