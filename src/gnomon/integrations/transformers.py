"""A probe in the Hugging Face Trainer."""

import math
from collections.abc import Callable
from typing import Any

from gnomon._extras import missing
from gnomon.errors import RangeError, public, within
from gnomon.integrations._build import built, require_function
from gnomon.probe import Probe, Stop

try:
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
except Exception as cause:
    raise missing("gnomon.integrations", "transformers", "huggingface", cause) from cause
try:
    from accelerate.utils import broadcast_object_list  # type: ignore[import-untyped]
except Exception as cause:
    raise missing("gnomon.integrations", "accelerate", "huggingface", cause) from cause

TAKEN = {
    *("epoch", "grad_norm", "learning_rate", "loss", "num_input_tokens_seen", "total_flos", "train_loss"),
    *("train_runtime", "train_samples_per_second", "train_steps_per_second", "train_tokens_per_second"),
}
"""What the trainer itself writes into its log while it trains, besides the step, which a probe refuses; what it
evaluates begins with `eval_`."""


class ProbeCallback(TrainerCallback):
    """Reads the network while it trains, and logs the readings' scalars as the trainer does its loss.

    They thus reach `trainer.state.log_history` and all of `report_to`. Steps are `state.global_step`, those of the
    optimizer: a batch whose gradients are only accumulated does not count. A reading at step s sees the network after s
    of them. The probe is built once the trainer has prepared the network, before anything is trained: whatever it lacks
    is reported then. Under `bf16=True` or `fp16=True` the trainer's network computes in that precision, and so does the
    reading. In distributed training every process reads, and the trainer writes on the first process, which also
    decides whether to stop.

        build = lambda model: Probe(model, (x, labels), [accuracy], every(100))
        trainer.add_callback(ProbeCallback(build, trainer.log))

    Args:
        build: a function from the network, without its wrapper for several devices, to the probe.
        log: the trainer's `log`.
        stop: when training may end, by `gnomon.stop_when`; its history is taken from the trainer's log. The trainer
            notices only after a batch that step 0 was enough.
    Raises:
        TypeError: if `build` is not a function, or is a probe; when training begins: if it does not return a probe.
    """

    @public
    def __init__(
        self, build: Callable[[Any], Probe], log: Callable[[dict[str, float]], None], stop: Stop | None = None
    ) -> None:
        require_function(build)
        self.build, self.log, self.stop = build, log, stop

    @within("ProbeCallback")
    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: object
    ) -> None:
        """Builds the probe and reads the step at which training begins, unless a checkpoint's log has its reading."""
        self._probe = built(self.build, rest["model"])
        quantities = self._probe.quantities
        if taken := [name for name in quantities if name in TAKEN or name.startswith("eval_")]:
            raise RangeError(
                "build",
                "quantities that have no names of the trainer's own entries",
                ", ".join(taken),
                "Pass Probe a mapping from other names.",
            )
        entries = _of_probe(state.log_history, quantities)
        if self.stop:
            names = self.stop.histories.keys()
            # Rules use finite values only.
            read = [
                entry
                for entry in entries
                if entry.keys() >= names and all(math.isfinite(entry[name]) for name in names)
            ]
            histories = {name: [entry[name] for entry in read] for name in names}
            self.stop.load_state_dict({"steps": [entry["step"] for entry in read], "histories": histories})
        last = max((entry["step"] for entry in entries), default=-1)
        # Without entries where some were due before, no probe read the training that the checkpoint is of.
        if last < state.global_step and (entries or not self._probe.is_due(state.global_step - 1, since=-1)):
            self._read(state, control)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: object
    ) -> None:
        """Reads after a step of the optimizer."""
        self._read(state, control)

    def _read(self, state: TrainerState, control: TrainerControl) -> None:
        if reading := self._probe(state.global_step):
            due = control.should_log
            self.log(reading.scalars())
            # The trainer takes this entry for that of its own loss, and would leave that out.
            control.should_log = due
        # Where a reading is due, all processes meet, though for some it may be beyond the budget.
        if self.stop and self._probe.schedule(state.global_step):
            (reached,) = broadcast_object_list([reading is not None and self.stop(reading)])
            control.should_training_stop |= reached


def _of_probe(log: list[dict[str, float]], quantities: tuple[str, ...]) -> list[dict[str, float]]:
    """The entries of a log that have all these quantities; the trainer's own, and those of other probes, lack some."""
    return [
        entry for entry in log if all(any(f"{key}.".startswith(f"{name}.") for key in entry) for name in quantities)
    ]
