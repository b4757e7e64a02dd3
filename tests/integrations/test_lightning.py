"""Lightning: the readings of a plain loop, in every logger, and a training that nothing disturbs."""

import csv
import importlib
import logging
import sys
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.loggers.logger import Logger
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import gnomon
from gnomon import Probe, at, every, stop_when
from gnomon.errors import ArgumentTypeError, MissingExtraError, RangeError, UnsupportedModuleError
from gnomon.integrations.lightning import ProbeCallback
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
    network,
    plain_loop,
    plain_training,
    probe_of,
)
from tests.integrations.timelines import timeline

pytestmark = [
    # Lightning's own use of torch's trees.
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec.. is deprecated:FutureWarning"),
    # 48 samples need no workers.
    pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers:UserWarning"),
]


@pytest.fixture(autouse=True, scope="module")
def _quiet():
    logger = logging.getLogger("lightning.pytorch")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(level)


class Module(LightningModule):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.network = network(dropout)

    def forward(self, x):
        return self.network(x)

    def training_step(self, batch, index):
        x, labels = batch
        loss = cross_entropy(self(x), labels)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        self.log("val_loss", cross_entropy(self(batch[0]), batch[1]), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), RATE)


class InMemory(Logger):
    name = version = "memory"

    def __init__(self):
        super().__init__()
        self.logged = []

    def log_hyperparams(self, *args, **kwargs):
        pass

    def log_metrics(self, metrics, step=None):
        self.logged.append((step, metrics))

    def readings(self, name="accuracy"):
        return [(step, metrics) for step, metrics in self.logged if name in metrics]


def loader(same=False, size=BATCH):
    rows = torch.arange(len(X)) % BATCH if same else torch.arange(len(X))
    return DataLoader(TensorDataset(X[rows], LABELS[rows]), size)


def trainer_with(*callbacks, logger=False, **settings):
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    defaults = {"max_epochs": EPOCHS, "log_every_n_steps": 1, "accumulate_grad_batches": TOGETHER}
    settings = {"enable_checkpointing": False} | defaults | settings
    return Trainer(callbacks=[*callbacks], logger=logger, **quiet, **settings)


def reads(schedule=None, stop=None):
    return ProbeCallback(lambda module: probe_of(module, schedule), stop)


def third(*, at=3):
    """Holds from the third reading on."""
    return stop_when(lambda steps, accuracy: len(accuracy) >= at)


def rows_of(table):
    """The rows of a CSVLogger's file that hold a reading."""
    with Path(table.log_dir, "metrics.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["accuracy"]]


def test_readings_are_a_plain_loops_in_every_logger(tmp_path):
    memory, table = InMemory(), CSVLogger(tmp_path)
    trainer = trainer_with(reads(every(2)), logger=[memory, table])
    trainer.fit(Module(), loader(), loader())
    expected = plain_loop(every(2))
    assert list(expected) == [0, 2, 4, 6]
    assert len(memory.readings()) == len(expected)
    assert_equal(dict(memory.readings()), expected)
    rows = {int(row["step"]): {name: float(row[name]) for name in expected[0]} for row in rows_of(table)}
    assert_equal(rows, expected)
    assert [step for step, metrics in memory.logged if "loss" in metrics] == [*range(STEPS)]


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_training_is_the_same_with_and_without(precision):
    """Bit for bit: parameters, buffers, gradients, modes and the random stream that dropout draws from."""

    class Watch(Callback):
        def __init__(self):
            self.seen = []

        def on_train_batch_end(self, trainer, module, *rest):
            self.seen += [p.grad.clone() for p in module.parameters()] + [torch.get_rng_state()]
            assert all(part.training for part in module.modules())

    def train(*callbacks):
        module, watch = Module(dropout=0.5), Watch()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            trainer_with(*callbacks, watch, precision=precision, logger=InMemory()).fit(module, loader(), loader())
        return [*module.state_dict().values(), *watch.seen]

    assert_same(train(reads()), train())


def test_mixed_precision_is_read_in_that_of_the_parameters():
    memory, module = InMemory(), Module()
    trainer_with(reads(), logger=memory, precision="bf16-mixed").fit(module, loader(), loader())
    step, scalars = memory.readings()[-1]
    assert step == STEPS
    assert scalars == probe_of(module).read().scalars()


@pytest.mark.parametrize("stop", [1, 3, 4])
@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`, callbacks used to create:UserWarning")
@pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch ended:UserWarning")
def test_resuming_reads_each_step_once(tmp_path, stop):
    saves = ModelCheckpoint(tmp_path, "{step}", save_top_k=-1, every_n_train_steps=1)
    first, second = InMemory(), InMemory()
    trainer_with(reads(), saves, logger=first, max_steps=stop, enable_checkpointing=True).fit(
        Module(), loader(True), loader()
    )
    resumed = trainer_with(reads(), logger=second)
    resumed.fit(Module(), loader(True), loader(), ckpt_path=tmp_path / f"step={stop}.ckpt", weights_only=True)
    both = first.readings() + second.readings()
    assert [step for step, _ in both] == [*range(STEPS + 1)]
    assert_equal(dict(both), plain_loop(same=True))


@pytest.mark.parametrize("ruled", [False, True])
@pytest.mark.parametrize(("hook", "read"), [("on_sanity_check_start", []), ("on_train_batch_start", [0])])
@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`, callbacks used to create:UserWarning")
def test_resuming_from_step_0_reads_it_once(tmp_path, ruled, hook, read):
    """Also where the training ended before it had been read."""

    def callback():
        return reads(stop=third(at=99) if ruled else None)

    def fail(trainer, *rest):
        trainer.save_checkpoint(tmp_path / "0.ckpt")
        raise KeyError

    first, second, fails = InMemory(), InMemory(), Callback()
    setattr(fails, hook, fail)
    with pytest.raises(KeyError):
        trainer_with(callback(), fails, logger=first).fit(Module(), loader(True), loader())
    assert [step for step, _ in first.readings()] == read
    resumed, other = callback(), ProbeCallback(lambda module: Probe(module, X, {"other": gnomon.jacobian_norm}))
    trainer = trainer_with(other, resumed, logger=second)
    trainer.fit(Module(), loader(True), loader(), ckpt_path=tmp_path / "0.ckpt", weights_only=True)
    both = first.readings() + second.readings()
    assert len(both) == STEPS + 1
    assert_equal(dict(both), plain_loop(same=True))
    again = InMemory()
    resumed.stop = None
    trainer_with(resumed, logger=again, max_steps=1).fit(Module(), loader(True), loader())
    assert [step for step, _ in again.readings()] == [0, 1]


class Fails(Callback):
    """Raises after the batch that makes this step, or in its reading, and then writes a checkpoint."""

    def __init__(self, step, path, *, reading):
        self.step, self.path, self.reading = step, path, reading

    def on_train_batch_end(self, trainer, *rest):
        if trainer.global_step == self.step:
            if not self.reading:
                raise KeyError
            trainer.logger.log_metrics = lambda *rest: {}["reading"]

    def on_exception(self, trainer, *rest):
        trainer.save_checkpoint(self.path)


@pytest.mark.parametrize("reading", [False, True])
@pytest.mark.parametrize("ruled", [False, True])
@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`, callbacks used to create:UserWarning")
@pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch ended:UserWarning")
def test_resuming_after_a_failure_reads_the_step_that_was_not_read(tmp_path, ruled, reading):
    """And if that is enough for the rule, trains no further."""
    path, first, second = tmp_path / "2.ckpt", InMemory(), InMemory()
    fails = Fails(2, path, reading=reading)
    with pytest.raises(KeyError):
        trainer_with(fails, reads(every(2), third(at=2)), logger=first).fit(Module(), loader(True), loader())
    resumed = trainer_with(reads(every(2), third(at=2) if ruled else None), logger=second)
    resumed.fit(Module(), loader(True), loader(), ckpt_path=path, weights_only=True)
    steps = [0, 2] if ruled else [0, 2, 4, 6]
    both, expected = first.readings() + second.readings(), plain_loop(every(2), same=True)
    assert [step for step, _ in both] == steps
    assert_equal(dict(both), {step: expected[step] for step in steps})
    assert resumed.global_step == steps[-1]


@pytest.mark.parametrize("earlier", [False, True])
@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`, callbacks used to create:UserWarning")
@pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch ended:UserWarning")
def test_resuming_after_a_failure_reads_with_each_probe_what_it_had_not_read(tmp_path, earlier):
    """A checkpoint of an earlier version has one step, up to which all of them had read."""
    path, first, second = tmp_path / "2.ckpt", InMemory(), InMemory()

    def callbacks(*between):
        other = ProbeCallback(lambda module: Probe(module, X, {"other": gnomon.jacobian_norm}))
        return [other, *between, reads()]

    fails = Fails(2, path, reading=True)
    with pytest.raises(KeyError):
        trainer_with(*callbacks(fails), logger=first).fit(Module(), loader(True), loader())
    if earlier:
        checkpoint = torch.load(path, weights_only=True)
        checkpoint["gnomon.read"] = min(checkpoint.pop("gnomon.read 0"), checkpoint.pop("gnomon.read 1"))
        torch.save(checkpoint, path)
    trainer = trainer_with(*callbacks(), logger=second)
    trainer.fit(Module(), loader(True), loader(), ckpt_path=path, weights_only=True)
    steps = {name: [step for step, _ in first.readings(name) + second.readings(name)] for name in ("other", "accuracy")}
    assert steps["accuracy"] == [*range(STEPS + 1)]
    assert steps["other"] == [0, 1, 2, *([2] if earlier else []), *range(3, STEPS + 1)]


def test_fitting_on_reads_each_step_once():
    memory, module = InMemory(), Module()
    trainer = trainer_with(reads(), logger=memory, max_epochs=1)
    trainer.fit(module, loader(), loader())
    trainer.fit_loop.max_epochs = EPOCHS
    trainer.fit(module, loader(), loader())
    assert_equal(dict(memory.readings()), plain_loop())
    assert len(memory.readings()) == STEPS + 1


def test_a_probe_can_be_read_in_inference_mode():
    module = Module()

    seen, memory, watch = [], InMemory(), Callback()

    def read(trainer, module):
        seen.append((torch.is_inference_mode_enabled(), probe_of(module).read().scalars()))

    watch.on_validation_epoch_end = read
    trainer = trainer_with(watch, reads(), logger=memory)
    trainer.validate(module, loader(), verbose=False)
    assert memory.readings() == []
    ((inside, scalars),) = seen
    assert inside
    assert scalars == probe_of(network()).read().scalars()
    trainer.fit(module, loader(), loader())
    assert_equal(dict(memory.readings()), plain_loop())


def test_two_probes_stand_beside_each_other():
    memory, whole = InMemory(), reads(at(2))
    half = ProbeCallback(lambda module: Probe(module, (X[:9], LABELS[:9]), {"half": gnomon.accuracy}, at(3)))
    trainer_with(whole, half, logger=memory).fit(Module(), loader(), loader())
    assert [[step for step, _ in memory.readings(name)] for name in ("accuracy", "half")] == [[2], [3]]


@pytest.mark.parametrize(("schedule", "stopped"), [(every(1), 2), (every(2), 4), (at(3), None), (every(5), None)])
def test_stops_after_the_reading_that_is_enough(schedule, stopped):
    module, memory, stop = Module(), InMemory(), third()
    trainer = trainer_with(reads(schedule, stop), logger=memory)
    trainer.fit(module, loader(), loader())
    assert trainer.global_step == (stopped or STEPS)
    assert trainer.should_stop == stop.verdict == (stopped is not None)
    expected = plain_training(IN_ORDER[:stopped])
    torch.testing.assert_close(module.network.state_dict(), expected.state_dict())
    assert [step for step, _ in memory.readings()] == stop.steps
    assert [metrics["accuracy"] for _, metrics in memory.readings()] == stop.histories["accuracy"]


class Alternating(Module):
    """Each batch makes a step of each of two optimizers."""

    automatic_optimization = False

    def configure_optimizers(self):
        first, last = self.network[0], self.network[4]
        return [torch.optim.SGD(part.parameters(), RATE) for part in (first, last)]

    def training_step(self, batch, index):
        for optimizer in self.optimizers():
            optimizer.zero_grad()
            self.manual_backward(cross_entropy(self(batch[0]), batch[1]))
            optimizer.step()


@pytest.mark.parametrize(
    ("schedule", "steps"),
    [
        (every(1), [*range(0, 25, 2)]),
        (every(2), [*range(0, 25, 2)]),
        (every(3), [0, 4, 6, 10, 12, 16, 18, 22, 24]),
        (at(5), [6]),
    ],
)
def test_a_batch_that_makes_several_steps_is_read_if_one_of_them_is_due(schedule, steps):
    memory, stop = InMemory(), third(at=99)
    trainer = trainer_with(reads(schedule, stop), logger=memory, accumulate_grad_batches=1)
    trainer.fit(Alternating(), loader(), loader())
    assert trainer.global_step == 24
    assert [step for step, _ in memory.readings()] == stop.steps == steps


@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`, callbacks used to create:UserWarning")
def test_resuming_after_a_failure_reads_if_any_step_of_the_batch_is_due(tmp_path):
    path, settings, memory = tmp_path / "6.ckpt", {"accumulate_grad_batches": 1}, InMemory()
    with pytest.raises(KeyError):
        trainer_with(Fails(6, path, reading=False), reads(at(5)), **settings).fit(Alternating(), loader(True), loader())
    resumed = trainer_with(reads(at(5)), logger=memory, **settings)
    resumed.fit(Alternating(), loader(True), loader(), ckpt_path=path, weights_only=True)
    assert [step for step, _ in memory.readings()] == [6]


def test_enough_at_step_0_trains_nothing():
    module = Module()
    trainer_with(reads(stop=third(at=1))).fit(module, loader(), loader())
    assert_same(module.network.parameters(), network().parameters())


@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`, callbacks used to create:UserWarning")
def test_what_was_read_before_resuming_counts(tmp_path):
    """Also of several rules, of the same quantity too; a new one begins where it is first asked."""

    def callbacks():
        sums = stop_when(lambda jacobian_norm: len(jacobian_norm) > STEPS)
        return [reads(stop=third(at=5)), reads(at(1, 3), sums), reads(at(0, 2), third(at=9))]

    saves = ModelCheckpoint(tmp_path, "{step}", save_top_k=-1, every_n_train_steps=1)
    trainer_with(*callbacks(), saves, max_steps=3, enable_checkpointing=True).fit(Module(), loader(True), loader())
    resumed, new = callbacks(), stop_when(lambda centroid_alignment: False)
    trainer = trainer_with(*resumed, reads(stop=new))
    trainer.fit(Module(), loader(True), loader(), ckpt_path=tmp_path / "step=3.ckpt", weights_only=True)
    assert trainer.global_step == 4
    assert [callback.stop.steps for callback in resumed] == [[0, 1, 2, 3, 4], [1, 3], [0, 2]]
    assert new.steps == [4]
    expected = [scalars["accuracy"] for scalars in plain_loop(same=True).values()]
    torch.testing.assert_close(resumed[0].stop.histories["accuracy"], expected[:5])


@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`, callbacks used to create:UserWarning")
def test_a_rule_finds_its_history_among_other_callbacks(tmp_path):
    """Those of the same quantities by their order; if there are more now, the last start without one; if fewer, all."""

    def rules(*schedules):
        return [reads(schedule, third(at=99)) for schedule in schedules]

    def other():
        rule = stop_when(lambda norm: False)
        return ProbeCallback(lambda module: Probe(module, X, {"norm": gnomon.jacobian_norm}), rule)

    def resumed(*callbacks):
        trainer = trainer_with(*callbacks, max_steps=4)
        trainer.fit(Module(), loader(True), loader(), ckpt_path=tmp_path / "step=3.ckpt", weights_only=True)
        return [callback.stop.steps for callback in callbacks]

    saves = ModelCheckpoint(tmp_path, "{step}", save_top_k=-1, every_n_train_steps=1)
    trainer = trainer_with(other(), *rules(at(0, 4), at(1, 4)), saves, max_steps=3, enable_checkpointing=True)
    trainer.fit(Module(), loader(True), loader())
    new = reads(stop=stop_when(lambda steps: False))
    assert resumed(new, *rules(at(0, 4), at(1, 4)), other()) == [[4], [0, 4], [1, 4], [0, 1, 2, 3, 4]]
    with pytest.warns(UserWarning, match=r"ProbeCallback: expected 3 histories of accuracy .*, got 2\. Rule 3 starts"):
        assert resumed(*rules(at(0, 4), at(1, 4), at(4))) == [[0, 4], [1, 4], [4]]
    with pytest.warns(UserWarning, match=r"expected 1 histories of accuracy in the checkpoint, got 2\. Rule 1 starts"):
        assert resumed(*rules(at(1, 4))) == [[4]]


def test_validating_an_earlier_checkpoint_leaves_the_history(tmp_path):
    callback, module = reads(stop=third(at=99)), Module()
    trainer = trainer_with(callback, max_epochs=1)
    trainer.fit(module, loader(), loader())
    trainer.save_checkpoint(tmp_path / "1.ckpt")
    trainer.fit_loop.max_epochs = EPOCHS
    trainer.fit(module, loader(), loader())
    trainer.validate(module, loader(), ckpt_path=tmp_path / "1.ckpt", weights_only=True, verbose=False)
    assert callback.stop.steps == [*range(STEPS + 1)]


class Kept(Module):
    """Its checkpoints say what it was made with, which has no defaults."""

    def __init__(self, dropout):
        super().__init__(dropout)
        self.save_hyperparameters()


def test_a_timeline_of_checkpoints_is_what_a_probe_read(tmp_path, monkeypatch, capsys):
    saves = ModelCheckpoint(tmp_path, save_top_k=-1, every_n_train_steps=1, save_last=True)
    trainer_with(saves, enable_checkpointing=True).fit(Kept(0.0), loader(), loader())
    model = ("--model", f"{__name__}:Kept")
    found, said = timeline(monkeypatch, capsys, tmp_path, model=model)
    expected = plain_loop()
    assert_equal(found, {step: expected[step] for step in range(1, STEPS + 1)})
    assert f"left out {tmp_path / 'last.ckpt'}: the weights of {tmp_path / f'epoch=1-step={STEPS}.ckpt'}" in said
    assert "the step in the file" in said


def test_what_lacks_is_said_before_training():
    module, trained = Module(), []
    module.training_step = lambda batch, index: trained.append(index)
    module.validation_step = lambda batch, index: trained.append(index)
    bare = ProbeCallback(lambda module: Probe(module.network[2], (X, LABELS), [gnomon.self_duality]))
    unlabelled = ProbeCallback(lambda module: Probe(module, X, QUANTITIES))
    with pytest.raises(UnsupportedModuleError, match=r"Probe\(model\): expected a network with a linear layer at"):
        trainer_with(bare).fit(module, loader(), loader())
    with pytest.raises(RangeError, match=r"accuracy: Probe\(data\): expected labels, got samples alone"):
        trainer_with(unlabelled).fit(module, loader(), loader())
    assert trained == []
    slow, untrained = reads(stop=stop_when(lambda speed: True)), Module()
    with pytest.raises(RangeError, match=r"stop_when\(<lambda>\): expected speed in the reading, got accuracy"):
        trainer_with(slow).fit(untrained, loader(), loader())
    assert_same(untrained.network.parameters(), network().parameters())


def test_what_makes_no_probe_is_said_before_training():
    trained, module = [], Module()
    module.training_step = lambda batch, index: trained.append(index)
    for build in (probe_of(network()), None):
        with pytest.raises(ArgumentTypeError, match=r"^ProbeCallback\(build\): .* to a Probe, got \w+\. Pass lambda"):
            ProbeCallback(build)
    with pytest.raises(ArgumentTypeError, match=r"^ProbeCallback\(build\): .* got one that returns NoneType\. Return"):
        trainer_with(ProbeCallback(lambda module: None)).fit(module, loader(), loader())
    assert trained == []


def test_two_processes_read_the_network_and_one_writes(tmp_path):
    table = CSVLogger(tmp_path, version=0)
    trainer = trainer_with(reads(every(3)), logger=table, strategy="ddp_fork", devices=2, precision="bf16-mixed")
    trainer.fit(Module(), loader(), loader())
    # Three batches on each process, so two steps an epoch, the second of one batch.
    rows = rows_of(table)
    assert [int(row["step"]) for row in rows] == [0, 3]
    start = probe_of(network()).read().scalars()
    torch.testing.assert_close({name: float(rows[0][name]) for name in start}, start)


def test_of_two_processes_the_first_decides(tmp_path):
    """The other would stop at once, and then has no time to read."""

    class Ends(Callback):
        def on_fit_end(self, trainer, module):
            (tmp_path / str(trainer.global_rank)).write_text(f"{trainer.global_step} {trainer.should_stop}")

    def build(module):
        slow = {"max_overhead": 1e-9} if module.trainer.global_rank else {}
        return Probe(module, (X, LABELS), QUANTITIES, every(2), **slow)

    def enough(steps, accuracy):
        return torch.distributed.get_rank() == 1 or len(steps) == 2

    callbacks = [ProbeCallback(build, stop_when(enough)), Ends()]
    trainer_with(*callbacks, strategy="ddp_fork", devices=2).fit(Module(), loader(), loader())
    assert [(tmp_path / str(rank)).read_text() for rank in range(2)] == ["2 True", "2 True"]


def test_a_missing_lightning_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning", None)
    monkeypatch.delitem(sys.modules, "lightning.pytorch")
    monkeypatch.delitem(sys.modules, "gnomon.integrations.lightning")
    with pytest.raises(MissingExtraError, match=r"^gnomon.integrations needs lightning: pip install '.\[lightn"):
        importlib.import_module("gnomon.integrations.lightning")
