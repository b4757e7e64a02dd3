"""Many checkpoints, each read once: what is already known is taken from what was kept."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Unpack

from gnomon import Probe
from gnomon.errors import CheckpointError, GnomonError
from gnomon.probe import as_record
from gnomon_lab.measuring.about import Checkpoint
from gnomon_lab.measuring.kept import Kept, Record
from gnomon_lab.measuring.measure import Batches, How, probing, running
from gnomon_lab.measuring.quantities import Quantity
from gnomon_lab.measuring.ready import Ready, ready
from gnomon_lab.measuring.refilled import Refilled
from gnomon_lab.measuring.samples import Data
from gnomon_lab.measuring.steps import LASTING, Steps

Show = Callable[[int, int], None]


class Reader:
    """Reads one checkpoint after another: with the first, the network is built, and what can be measured is found out.

    Args:
        refilled: the network.
        data: the samples, on the device and in the dtype of the computation.
        quantities: by name.
        setting: what the numbers depend on, which becomes part of each record.
        logits: as in `ready`, and so are all_of_them, say and also.
        how: see `How`.
    Attributes:
        show: called with how many parts of a reading are done, and how many there are.
    """

    def __init__(
        self,
        refilled: Refilled,
        data: Data,
        quantities: Mapping[str, Quantity],
        *,
        setting: Mapping[str, object],
        logits: str | None,
        all_of_them: bool,
        say: Callable[[str], None],
        also: Mapping[str, Quantity] | None = None,
        **how: Unpack[How],
    ) -> None:
        self._refilled, self._data, self._quantities = refilled, data, quantities
        self._setting, self._say, self._how = setting, say, how
        self.show: Show = lambda done, total: None
        self._logits, self._all_of_them, self._also = logits, all_of_them, also
        self._loaded = ""
        self._made: tuple[Ready, Probe, Batches] | None = None

    def read(self, one: Checkpoint, step: int) -> Record:
        """The reading of a checkpoint, as a line of a history.

        A quantity that has no value, as in a network that is NaN, is null, and the reason is next to it.

        Raises:
            CheckpointError: if it cannot be read or was written meanwhile, or its weights are not the network's.
        """
        network, loaded = self._refilled.fill(one)
        one.require_unchanged()  # such as last.ckpt of a training run that goes on
        if loaded.in_full != self._loaded:
            self._say(f"{one.path}: {loaded.in_full}")
            self._loaded = loaded.in_full
        if self._made is None:
            found = ready(
                network,
                self._data,
                self._quantities,
                described=self._refilled.described,
                logits=self._logits,
                all_of_them=self._all_of_them,
                say=self._say,
                also=self._also,
                **self._how,
            )
            self._made = found, *probing(network, self._data, found.quantities, say=self._say, **self._how)
        found, probe, batches = self._made
        batches.show = self.show
        with running(self._data.x):
            reading = probe(step)
        if reading is None:
            raise RuntimeError("a probe without a schedule reads at every step")
        told: dict[str, Any] = {"setting": self._setting, "left_out": found.left_out}
        told |= {"outputs": found.outputs, "mask": found.mask}
        which: dict[str, Any] = {"path": str(one.path), "sha256": one.sha256}
        if reading.missing:
            which["missing"] = reading.missing
        return {**as_record(reading), "checkpoint": which, "measured": told}


def measure_each(
    steps: Steps,
    kept: Kept,
    read: Callable[[Checkpoint, int], Record],
    *,
    show: Show,
) -> dict[Path, GnomonError]:
    """Puts a reading of each checkpoint into what is kept, by ascending step; those that are known are not read again.

    Readings kept of other checkpoints stay in their place, if steps mean the same for all of them; so do those at the
    steps of checkpoints that cannot be read.

    Returns:
        The checkpoints that could not be read, with what is wrong with each.

    Raises:
        GnomonError: if a reading cannot be kept, or if, before the first one, something other than the checkpoint is
            wrong.
    """
    # Not the rows alone: a call that was interrupted has not written again all that its first reading replaced.
    others = dict(kept.latest) if steps.source in LASTING else {}
    failed: dict[Path, GnomonError] = {}
    wanted = sorted(others.keys() | steps.by_step.keys())
    begun = False
    for done, step in enumerate(wanted, 1):
        one = steps.by_step.get(step)
        if one is None:
            kept.put(others[step])
            continue
        try:
            record = known(kept, one, step)
            if record is None:
                record, begun = read(one, step), True
        except GnomonError as error:
            if not (begun or isinstance(error, CheckpointError)):
                raise
            if one.path.name not in str(error):
                error.got = f"{error.got or 'none'}, of {one.path}"
            failed[one.path] = error
            record = others.get(step)
        if record is not None:
            kept.put(record)
        show(done, len(wanted))
    return failed


def known(kept: Kept, one: Checkpoint, step: int) -> Record | None:
    """The reading of the same checkpoint, under whatever name and step it was kept; None if there is none."""
    record = kept.find(one.sha256)
    if record is None:
        return None
    return {**record, "step": step, "checkpoint": {**record["checkpoint"], "path": str(one.path)}}
