"""The Hugging Face Trainer: the readings of a plain loop, beside the loss, and a training that nothing disturbs."""

import importlib
import math
import sys

import pytest
import torch
from accelerate import debug_launcher
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import Trainer, TrainerCallback, TrainingArguments, ViTConfig, ViTForImageClassification

import gnomon
from gnomon import Probe, accuracy, at, centroid_alignment, every, stop_when
from gnomon.errors import ArgumentTypeError, MissingExtraError, RangeError
from gnomon.integrations.transformers import ProbeCallback
from gnomon.integrations.transformers_inputs import Logits
from tests.integrations.plain_loop import (
    BATCH,
    EPOCHS,
    IN_ORDER,
    LABELS,
    QUANTITIES,
    RATE,
    STEPS,
    TOGETHER,
    X,
    assert_equal,
    assert_same,
    forget,
    network,
    plain_loop,
    plain_training,
    probe_of,
)
from tests.integrations.timelines import timeline


class Classifier(nn.Module):
    """As the Trainer wants it: the loss and the logits, by name."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.network = network(dropout)

    def forward(self, x, labels):
        logits = self.network(x)
        return {"loss": cross_entropy(logits, labels), "logits": logits}


def trainer_with(folder, model=None, trainer_class=Trainer, same=False, **settings):
    model = Classifier() if model is None else model
    rows = torch.arange(len(X)) % BATCH if same else torch.arange(len(X))
    samples = [{"x": X[row], "labels": LABELS[row]} for row in rows]
    settings = {
        "num_train_epochs": EPOCHS,
        "save_strategy": "no",
        "report_to": "none",
        "per_device_train_batch_size": BATCH,
        "gradient_accumulation_steps": TOGETHER,
        "max_grad_norm": 0.0,
    } | settings
    arguments = TrainingArguments(
        str(folder),
        use_cpu=True,
        logging_steps=1,
        train_sampling_strategy="sequential",
        dataloader_pin_memory=False,
        disable_tqdm=True,
        **settings,
    )
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    return trainer_class(
        model, arguments, train_dataset=samples, eval_dataset=samples, optimizers=(optimizer, constant)
    )


def reading(trainer, schedule=None, stop=None):
    trainer.add_callback(ProbeCallback(lambda model: probe_of(model.network, schedule), trainer.log, stop))
    return trainer


def of(quantities):
    return lambda model: Probe(model.network, (X, LABELS), quantities)


def third(*, at=3):
    """Holds from the third reading on."""
    return stop_when(lambda steps, accuracy: len(accuracy) >= at)


def logged(trainer, name="accuracy"):
    return [(entry["step"], entry) for entry in trainer.state.log_history if name in entry]


def test_readings_are_a_plain_loops_beside_the_loss_and_in_all_reports(tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    trainer = reading(trainer_with(tmp_path, report_to=["tensorboard"]), every(2))
    trainer.train()
    expected = plain_loop(every(2))
    assert list(expected) == [0, 2, 4, 6]
    assert len(logged(trainer)) == len(expected)
    assert_equal(dict(logged(trainer)), expected)
    # Nothing of what is logged without a probe is lost.
    assert [step for step, _ in logged(trainer, "loss")] == [*range(1, STEPS + 1)]
    events = EventAccumulator(str(tmp_path / "events")).Reload()
    seen = {name: {e.step: e.value for e in events.Scalars(f"train/{name}")} for name in expected[0]}
    assert_equal({step: {name: seen[name][step] for name in seen} for step in seen["accuracy"]}, expected)


@pytest.mark.parametrize("bf16", [False, True])
def test_training_is_the_same_with_and_without(tmp_path, bf16):
    """Bit for bit: parameters, buffers, gradients, modes and the random stream that dropout draws from."""

    class Watched(Trainer):
        def training_step(self, model, *rest):
            loss = super().training_step(model, *rest)
            seen.extend([p.grad.clone() for p in model.parameters()])
            seen.append(torch.get_rng_state())
            return loss

    class Modes(TrainerCallback):
        def on_step_end(self, args, state, control, model, **rest):
            seen.append(torch.tensor([part.training for part in model.modules()]))

    def train(probed):
        model = Classifier(dropout=0.5)
        trainer = trainer_with(tmp_path, model, Watched, bf16=bf16, eval_strategy="epoch", seed=3)
        if probed:
            reading(trainer)
        trainer.add_callback(Modes)
        with torch.random.fork_rng():
            trainer.train()
        return [*model.state_dict().values()]

    seen = []
    ours = train(True) + seen
    seen = []
    theirs = train(False) + seen
    assert len(ours) > STEPS
    assert_same(ours, theirs)


def test_bf16_is_read_as_the_network_computes(tmp_path):
    """The trainer's network in autocast; a part of it, such as `model.network`, in the precision of the parameters."""
    trainer = trainer_with(tmp_path, bf16=True)

    class Logits(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, x):
            return self.model(x, LABELS[: len(x)])["logits"]

    whole = ProbeCallback(lambda model: Probe(Logits(model), X, {"whole": gnomon.jacobian_norm}), trainer.log)
    trainer.add_callback(whole)
    reading(trainer).train()
    model = trainer.model
    assert logged(trainer)[-1][1].items() >= probe_of(model.network).read().scalars().items()
    rounded, exact = logged(trainer, "whole")[-1][1]["whole"], logged(trainer)[-1][1]["jacobian_norm"]
    assert 0 < abs(rounded - exact) < 0.02 * exact


@pytest.mark.parametrize("stop", [1, 3, 4])
def test_resuming_reads_each_step_once(tmp_path, stop):
    first = trainer_with(tmp_path, same=True, save_strategy="steps", save_steps=stop)

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **rest):
            control.should_training_stop = state.global_step == stop

    first.add_callback(Stop())
    reading(first).train()
    assert [step for step, _ in logged(first)] == [*range(stop + 1)]
    resumed = reading(trainer_with(tmp_path, same=True))
    resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{stop}"))
    assert len(logged(resumed)) == STEPS + 1
    assert_equal(dict(logged(resumed)), plain_loop(same=True))


@pytest.mark.parametrize(
    ("schedule", "saved", "expected"),
    [(every(2), (2, 3), [0, 2, 4, 6]), (at(4), (3, 4, 5), [4]), (at(4, 6), (4, 6), [4, 6])],
)
def test_resuming_reads_the_step_of_a_checkpoint_that_was_written_before_its_reading(
    tmp_path, schedule, saved, expected
):
    """As `enable_jit_checkpoint` writes it, if the probe is added to the trainer afterwards; the first one due too."""
    first = trainer_with(tmp_path, same=True)

    class Saves(TrainerCallback):
        def on_step_end(self, args, state, control, **rest):
            if state.global_step in saved:
                first._save_checkpoint(first.model, trial=None)

    first.add_callback(Saves())
    reading(first, schedule).train()
    for step in saved:
        resumed = reading(trainer_with(tmp_path, same=True), schedule)
        resumed.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
        assert [step for step, _ in logged(resumed)] == expected
        assert_equal(dict(logged(resumed)), plain_loop(schedule, same=True))


def test_a_probe_that_is_new_in_a_resumed_training_begins_after_the_checkpoint(tmp_path):
    trainer_with(tmp_path, same=True, max_steps=2, save_strategy="steps", save_steps=2).train()
    resumed = reading(trainer_with(tmp_path, same=True), every(2))
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert [step for step, _ in logged(resumed)] == [4, 6]


def test_two_probes_stand_beside_each_other(tmp_path):
    trainer = reading(trainer_with(tmp_path), at(2))
    half = ProbeCallback(
        lambda model: Probe(model.network, (X[:9], LABELS[:9]), {"half": accuracy}, at(3)), trainer.log
    )
    trainer.add_callback(half)
    trainer.train()
    assert [[step for step, _ in logged(trainer, name)] for name in ("accuracy", "half")] == [[2], [3]]


@pytest.mark.parametrize(("schedule", "stopped"), [(every(1), 2), (every(2), 4), (at(3), None), (every(5), None)])
def test_stops_after_the_reading_that_is_enough(tmp_path, schedule, stopped):
    stop = third()
    trainer = reading(trainer_with(tmp_path), schedule, stop)
    trainer.train()
    assert trainer.state.global_step == (stopped or STEPS)
    assert stop.verdict == (stopped is not None)
    expected = plain_training(IN_ORDER[:stopped])
    torch.testing.assert_close(trainer.model.network.state_dict(), expected.state_dict())
    assert [(step, entry["accuracy"]) for step, entry in logged(trainer)] == [
        *zip(stop.steps, stop.histories["accuracy"], strict=True)
    ]


@pytest.mark.parametrize(("together", "steps"), [(1, 1), (2, 0)])
def test_enough_at_step_0_ends_with_the_first_batch(tmp_path, together, steps):
    trainer = reading(trainer_with(tmp_path, gradient_accumulation_steps=together), stop=third(at=1))
    trainer.train()
    assert trainer.state.global_step == steps


def test_a_rule_that_looks_at_steps_alone_resumes_with_those_of_its_readings(tmp_path):
    """And not with those of the trainer's own entries."""
    reading(trainer_with(tmp_path, same=True, max_steps=3, save_strategy="steps", save_steps=3), every(2)).train()
    stop = stop_when(lambda steps: len(steps) >= 3)
    resumed = reading(trainer_with(tmp_path, same=True), every(2), stop)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert stop.steps == [0, 2, 4]
    assert resumed.state.global_step == 4


def test_what_was_read_before_resuming_counts_and_what_another_training_read_does_not(tmp_path):
    reading(trainer_with(tmp_path, same=True, max_steps=3, save_strategy="steps", save_steps=3)).train()
    stop = third(at=5)
    resumed = reading(trainer_with(tmp_path, same=True), stop=stop)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert resumed.state.global_step == 4
    assert stop.steps == [0, 1, 2, 3, 4]
    expected = [scalars["accuracy"] for scalars in plain_loop(same=True).values()]
    torch.testing.assert_close(stop.histories["accuracy"], expected[:5])
    resumed.train()
    assert stop.steps == [0, 1, 2, 3, 4]


def test_a_rule_resumes_with_what_its_own_probe_read(tmp_path):
    """The quantities of another may begin with the same words."""

    def train(steps, resume, **names):
        stop = stop_when(lambda steps, a: False, **names)
        trainer = trainer_with(tmp_path, same=True, max_steps=steps, save_strategy="steps", save_steps=3)
        for name, quantity, rule in (("train.accuracy", accuracy, stop), ("train.norm", gnomon.jacobian_norm, None)):
            trainer.add_callback(ProbeCallback(of({name: quantity}), trainer.log, rule))
        trainer.train(resume_from_checkpoint=resume)
        return stop

    train(3, False, a="train.accuracy")
    stop = train(STEPS, True, a="train.accuracy")
    assert stop.steps == [*range(STEPS + 1)]
    expected = [scalars["accuracy"] for scalars in plain_loop(same=True).values()]
    torch.testing.assert_close(stop.histories["train.accuracy"], expected)
    with pytest.raises(
        RangeError, match=r"stop_when\(<lambda>\): expected accuracy in the reading, got train.accuracy"
    ):
        train(STEPS + 1, True, a="accuracy")


def test_a_rule_leaves_out_steps_without_a_finite_value_after_resuming_too(tmp_path):
    calls = []

    def spread(logits):
        calls.append(len(logits))
        if len(calls) == 2:
            raise RangeError("logits", "numbers", "none", "Wait.", where="spread")
        return logits.std() * (math.inf if len(calls) == 3 else 1.0)

    def train(steps, resume):
        stop = stop_when(lambda steps, spread: False)
        trainer = trainer_with(tmp_path, same=True, max_steps=steps, save_strategy="steps", save_steps=3)
        trainer.add_callback(ProbeCallback(of([spread]), trainer.log, stop))
        trainer.train(resume_from_checkpoint=resume)
        return stop

    with pytest.warns(UserWarning, match=r"Probe: spread is NaN at step 1: spread\(logits\): expected numbers"):
        assert train(3, False).steps == [0, 3]
    assert train(4, True).steps == [0, 3, 4]


def test_names_of_the_trainers_own_entries_are_refused(tmp_path):
    trainer = trainer_with(tmp_path, max_grad_norm=1.0, eval_strategy="epoch", include_num_input_tokens_seen="all")
    trainer.train()
    written = sorted({name for entry in trainer.state.log_history for name in entry})
    assert {"loss", "grad_norm", "epoch", "step", "train_tokens_per_second", "eval_loss"} <= {*written}
    written.remove("step")  # which any probe refuses
    quantities = dict.fromkeys([*written, "losses"], accuracy)
    trainer = trainer_with(tmp_path)
    trainer.add_callback(ProbeCallback(of(quantities), trainer.log))
    message = rf"^ProbeCallback\(build\): expected quantities .*, got {', '.join(written)}\. Pass Probe a mapping from"
    with pytest.raises(RangeError, match=message):
        trainer.train()
    assert trainer.state.log_history == []


def test_what_lacks_is_said_before_training(tmp_path):
    trainer = trainer_with(tmp_path)
    trainer.add_callback(ProbeCallback(lambda model: Probe(model.network, X, QUANTITIES), trainer.log))
    with pytest.raises(RangeError, match=r"accuracy: Probe\(data\): expected labels, got samples alone"):
        trainer.train()
    assert trainer.state.log_history == []
    with pytest.raises(RangeError, match=r"stop_when\(<lambda>\): expected speed in the reading, got accuracy"):
        reading(trainer_with(tmp_path), stop=stop_when(lambda speed: True)).train()


def test_what_makes_no_probe_is_said_before_training(tmp_path):
    trainer = trainer_with(tmp_path)
    for build in (probe_of(network()), None):
        with pytest.raises(ArgumentTypeError, match=r"^ProbeCallback\(build\): .* to a Probe, got \w+\. Pass lambda"):
            ProbeCallback(build, trainer.log)
    trainer.add_callback(ProbeCallback(lambda model: None, trainer.log))
    with pytest.raises(ArgumentTypeError, match=r"^ProbeCallback\(build\): .* got one that returns NoneType\. Return"):
        trainer.train()
    assert trainer.state.log_history == []


def test_a_vision_transformer_is_read_from_its_pixels(tmp_path, monkeypatch, capsys):
    """While it trains, and afterwards off the Trainer's checkpoints."""
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = ViTForImageClassification(ViTConfig(image_size=4, patch_size=2, num_channels=1, num_labels=3, **sizes))
    pixels, labels = torch.randn(8, 1, 4, 4), torch.arange(8) % 3
    samples = [{"pixel_values": image, "labels": label} for image, label in zip(pixels, labels, strict=True)]
    arguments = TrainingArguments(
        str(tmp_path / "run"),
        max_steps=2,
        use_cpu=True,
        save_strategy="steps",
        save_steps=1,
        report_to="none",
        dataloader_pin_memory=False,
    )
    trainer = Trainer(model, arguments, train_dataset=samples)
    quantities = [accuracy, centroid_alignment]
    build = ProbeCallback(lambda model: Probe(Logits(model, "pixel_values"), (pixels, labels), quantities), trainer.log)
    trainer.add_callback(build)
    trainer.train()
    assert [step for step, _ in logged(trainer)] == [0, 1, 2]
    last = Probe(Logits(model, "pixel_values"), (pixels, labels), quantities).read().scalars()
    torch.testing.assert_close({name: logged(trainer)[-1][1][name] for name in last}, last)
    found, said = timeline(
        monkeypatch, capsys, tmp_path / "run", x=pixels, labels=labels, quantities=quantities, model=()
    )
    assert_equal(found, {step: {name: entry[name] for name in last} for step, entry in logged(trainer)[1:]})
    assert "the step in the file" in said


def _train_on_each(folder):
    forget()  # the parent's one process
    trainer = reading(trainer_with(folder, per_device_train_batch_size=BATCH // 2))
    trainer.train()
    assert trainer.args.world_size == 2
    assert type(trainer.model_wrapped).__name__ == "DistributedDataParallel"
    torch.save(logged(trainer), folder / f"{trainer.args.process_index}.pt")


def test_two_processes_read_the_network(tmp_path):
    """Each has half of each batch: the readings are those of one process, but for what the batch normalises by."""
    debug_launcher(_train_on_each, (tmp_path,), num_processes=2)
    one, other = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    assert [step for step, _ in one] == [*range(STEPS + 1)]
    start = probe_of(network()).read().scalars()
    assert one[0][1].items() >= start.items()
    assert [step for step, _ in other] == [*range(STEPS + 1)]


def _stop_on_each(folder):
    forget()
    trainer = trainer_with(folder, per_device_train_batch_size=BATCH // 2)
    rank = trainer.args.process_index

    def build(model):
        return Probe(model.network, (X, LABELS), QUANTITIES, every(2), max_overhead=1e-9 if rank else None)

    stop = stop_when(lambda steps, accuracy: rank == 1 or len(steps) == 2)
    trainer.add_callback(ProbeCallback(build, trainer.log, stop))
    trainer.train()
    (folder / str(rank)).write_text(f"{trainer.state.global_step} {stop.steps}")


def test_of_two_processes_the_first_decides(tmp_path):
    """The other would stop at once, and then has no time to read."""
    debug_launcher(_stop_on_each, (tmp_path,), num_processes=2)
    assert [(tmp_path / str(rank)).read_text() for rank in range(2)] == ["2 [0, 2]", "2 [0]"]


def test_a_missing_or_broken_transformers_names_its_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "gnomon.integrations.transformers")
    with pytest.raises(MissingExtraError, match=r"^gnomon.integrations needs transformers: pip .*'\.\[huggingf"):
        importlib.import_module("gnomon.integrations.transformers")
    (tmp_path / "transformers.py").write_text("raise RuntimeError('operator nms does not exist')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "transformers")
    with pytest.raises(MissingExtraError, match=r"does not import \(RuntimeError: operator nms .*Install it again"):
        importlib.import_module("gnomon.integrations.transformers")
