"""A probe in Lightning's `Trainer.fit`."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from gnomon._extras import missing
from gnomon._warn import warn
from gnomon.errors import public, within
from gnomon.integrations._build import built, require_function
from gnomon.probe import Probe, Stop

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except Exception as cause:
    raise missing("gnomon.integrations", "lightning.pytorch", "lightning", cause) from cause


READ, RULE = "gnomon.read", "gnomon.stop_when"
"""The keys in a trainer's checkpoints: with the place among the probes, of the step up to which a probe has been read;
with that and the quantities, of a rule's history."""


class ProbeCallback(Callback):
    """Reads the network while it trains, and gives the readings' scalars to each of the trainer's loggers.

    Steps are `trainer.global_step`, those of the optimizer: a batch that only accumulates gradients does not count, and
    several optimizers each count their own. After a batch that makes several steps the network is read once, if a
    reading is due at any of them. A reading at step s sees the network after s of them, in the precision of its
    parameters. The probe is built once the module is on its device, before anything is trained: whatever it lacks is
    reported then. In distributed training every process reads, and the loggers write on the first process, which also
    decides whether to stop.

        Trainer(callbacks=[ProbeCallback(lambda module: Probe(module, (x, labels), [accuracy], every(100)))])

    Args:
        build: a function from the module to the probe.
        stop: when training may end, by `gnomon.stop_when`; its history is in the trainer's checkpoints. Several rules
            about the same quantities are told apart by their order: added ones start over, and so do all if there are
            fewer than in the checkpoint, with a warning.
    Raises:
        TypeError: if `build` is not a function, or is a probe; when training begins: if it does not return a probe.
    """

    @public
    def __init__(self, build: Callable[[Any], Probe], stop: Stop | None = None) -> None:
        require_function(build)
        self.build, self.stop = build, stop
        self._step = -1  # up to which readings have been taken

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Forgets an earlier fit, before a checkpoint is loaded."""
        if stage == "fit":
            self._step = -1

    @within("ProbeCallback")
    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Builds the probe."""
        self._probe = built(self.build, pl_module)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Reads the step at which training begins, unless it was read before a checkpoint was written."""
        if self._step < 0 < trainer.global_step:  # fitted on, or from a checkpoint of a training that no probe read
            self._step = trainer.global_step
        self._read(trainer)

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Tensor | Mapping[str, object] | None,
        batch: object,
        batch_idx: int,
    ) -> None:
        """Reads if the batch made a step at which a reading is due."""
        self._read(trainer)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Adds step and history; not as this callback's state, of which Lightning takes one per class."""
        place = _probes(trainer).index(self)
        checkpoint[f"{READ} {place}"] = self._step
        if self.stop:
            checkpoint[f"{RULE} {place}: {self._names}"] = self.stop.state_dict()

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Resumes from the step, and from the history, if there is one of these quantities; but not for validation."""
        if trainer.state.fn != "fit":
            return
        self._step = self._read_up_to(trainer, checkpoint)
        if self.stop and (history := self._history(trainer, checkpoint)):
            self.stop.load_state_dict(history)
            self._step = max([self._step, *self.stop.steps])

    def _read_up_to(self, trainer: Trainer, checkpoint: dict[str, Any]) -> int:
        """The step in a checkpoint; the least of all where there are more probes now, or fewer: no step is left out."""
        # Earlier versions wrote one step for all probes, under a key without a place.
        saved = [checkpoint[key] for key in checkpoint if re.fullmatch(rf"{READ}( \d+)?", key)]
        probes = _probes(trainer)
        return saved[probes.index(self)] if len(saved) == len(probes) else min(saved, default=self._step)

    def _history(self, trainer: Trainer, checkpoint: dict[str, Any]) -> dict[str, Any] | None:
        """That of the same quantities; of several in their order, whatever other callbacks stand between."""
        saved = [checkpoint[key] for key in checkpoint if re.fullmatch(rf"{RULE} \d+: {re.escape(self._names)}", key)]
        rules = [each for each in _probes(trainer) if each.stop and each._names == self._names]
        place = rules.index(self)
        if place < len(saved) <= len(rules):
            return saved[place]
        if saved:
            what = f"{len(rules)} histories of {self._names or 'steps'} in the checkpoint"
            warn(
                f"ProbeCallback: expected {what}, got {len(saved)}. Rule {place + 1} starts without one.",
                UserWarning,
            )
        return None

    @property
    def _names(self) -> str:
        return ", ".join(self.stop.histories) if self.stop else ""

    def _read(self, trainer: Trainer) -> None:
        step, since = trainer.global_step, self._step
        if step <= since:
            return
        if reading := self._probe(step, since=since):
            for logger in trainer.loggers:
                logger.log_metrics(reading.scalars(), reading.step)
        # Where a reading is due, all processes meet, though for some it may be beyond the budget.
        if self.stop and self._probe.is_due(step, since=since):
            reached = reading is not None and self.stop(reading)
            trainer.should_stop |= trainer.strategy.broadcast(reached)
        self._step = step  # last: a checkpoint that is written when a reading fails does not have it


def _probes(trainer: Trainer) -> list[ProbeCallback]:
    """The trainer's callbacks of this kind."""
    return [callback for callback in vars(trainer)["callbacks"] if isinstance(callback, ProbeCallback)]
