"""A probe in the Hugging Face Trainer."""

from collections.abc import Callable
from typing import Any

from gnomon._extras import missing
from gnomon.probe import Probe, Stop

try:
    from accelerate.utils import broadcast_object_list  # type: ignore[import-untyped]
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
except Exception as cause:
    raise missing("gnomon.integrations", "transformers", "huggingface", cause) from cause


class ProbeCallback(TrainerCallback):
    """Reads the network while it trains, and logs the readings' scalars as the trainer does its loss.

    So they reach `trainer.state.log_history` and all of `report_to`. Steps are `state.global_step`, those of the
    optimizer: a batch whose gradients are only accumulated makes none. A reading at step s sees the network after s of
    them. The probe is made once the trainer has prepared the network, before anything is trained: what it lacks is said
    then. Under `bf16=True` or `fp16=True` the trainer's network computes in that precision, and so does the reading. In
    distributed training every process reads, and the trainer writes on the first, which also decides to stop.

        build = lambda model: Probe(model, (x, labels), [accuracy], every(100))
        trainer.add_callback(ProbeCallback(build, trainer.log))

    Args:
        build: from the network, without what it is wrapped in for several devices, to the probe.
        log: the trainer's `log`.
        stop: when training may end, by `gnomon.stop_when`; its history is what the trainer's log has of it. The trainer
            sees only after a batch that step 0 was enough.
    """

    def __init__(
        self, build: Callable[[Any], Probe], log: Callable[[dict[str, float]], None], stop: Stop | None = None
    ) -> None:
        self.build, self.log, self.stop = build, log, stop

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **rest: object
    ) -> None:
        """Makes the probe and reads step 0; the step of a checkpoint was read before it was written."""
        self._probe = self.build(rest["model"])
        if self.stop:
            names = [*self.stop.histories]
            # The trainer's own entries, and those of other probes, have none of some quantity.
            told = [{key.partition(".")[0] for key in entry} for entry in state.log_history]
            own = {name.partition(".")[0] for name in self._probe.quantities}
            read = [entry for entry, keys in zip(state.log_history, told, strict=True) if keys >= own]
            histories = {name: [entry[name] for entry in read] for name in names}
            self.stop.load_state_dict({"steps": [entry["step"] for entry in read], "histories": histories})
        if state.global_step == 0:
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
            # The trainer takes what was logged for its own loss, and would leave that out.
            control.should_log = due
        # Where a reading is due, all processes meet, though for some it may be beyond the budget.
        if self.stop and self._probe.schedule(state.global_step):
            (reached,) = broadcast_object_list([reading is not None and self.stop(reading)])
            control.should_training_stop |= reached
