"""One run: a folder that holds what was requested, what was measured, and where to resume after a crash."""

import fcntl
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from gnomon.errors import CheckpointError, ConvergenceError, DataError, GnomonError
from gnomon.probe import Reading
from gnomon_lab.runs.checkpoint import State, damaged, leaves, load_of_run, save_checkpoint
from gnomon_lab.runs.files import is_at, sync
from gnomon_lab.runs.records import Kept, Record, append_record, keep_records, read_records, seals_in

Show = Callable[[str, int, int], object]
"""Called with the name of a part, how many of its steps are done, and how many there are."""


class Stateful(Protocol):
    """What a run can save and restore: modules, optimizers, gnomon's steering methods."""

    def state_dict(self) -> dict[str, Any]:
        """Everything that is needed to resume."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> object:
        """Resumes from there."""
        ...


class Run:
    """A run's folder, and the loop that trains in it and survives being killed.

    Attributes:
        folder: where all its files are.
        seed: the seed from which the experiment makes its generators.
        data_dir: the only folder in which data sets are searched; None for the default places.
        checkpoint_seconds: the most work that is lost when a run is killed.
    """

    def __init__(
        self,
        folder: Path,
        seed: int,
        show: Show = lambda part, done, total: None,
        *,
        data_dir: Path | None = None,
        checkpoint_seconds: float = 5.0,
    ) -> None:
        self.folder = folder
        self.seed = seed
        self.data_dir = data_dir
        self.checkpoint_seconds = checkpoint_seconds
        self._show = show
        self._left: dict[str, Kept] = {}
        self._begun: set[str] = set()
        self._kept = Kept()
        self._arm = ""
        self._step = 0
        self._saved: int | None = None
        self._stopped = False
        self._read = 0.0
        self._trained = 0.0
        self._mark = time.monotonic()
        self._lock: int | None = None

    @property
    def records_path(self) -> Path:
        """The file of the readings."""
        return self.folder / "records.jsonl"

    def records(self) -> list[Record]:
        """All readings so far."""
        return read_records(self.records_path)

    def checkpoint_path(self, arm: str) -> Path:
        """The checkpoint of one arm of the experiment."""
        return self.folder / f"checkpoint-{arm}.safetensors"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the folder against a second process, which would write to the same records."""
        self._lock = self._locked()
        try:
            yield
        finally:
            os.close(self._lock)
            self._lock = None

    def _locked(self) -> int:
        """The opened file of the lock, locked."""
        while True:
            # A link is not followed, and a named pipe not waited for: the folder may come from somewhere else.
            file = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(file)
                raise CheckpointError(
                    self.folder,
                    "a folder that nobody works in",
                    "one held by another process",
                    "Wait for it, or stop it.",
                    where="run",
                ) from error
            if is_at(file, self._lock_path):  # not, if the folder was deleted and begun again meanwhile
                return file
            os.close(file)

    @property
    def _lock_path(self) -> Path:
        return self.folder / ".lock"

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Adds to the errors of what runs inside, such as a reading's, where the run was and where it can resume."""
        try:
            yield
        except GnomonError as error:
            if self._arm and error.where != "run":  # the run's own errors say it already
                place = f"The run was in {self._arm!r}, at step {self._step}."
                error.advice = f"{error.advice} {place} Last good checkpoint: {self._last_good}.".lstrip()
            raise

    def require_own(self) -> None:
        """Raises CheckpointError if the locked folder was deleted, and perhaps begun again by another process."""
        if self._lock is not None and not is_at(self._lock, self._lock_path):
            raise CheckpointError(
                self.folder,
                "the folder in which the run began",
                "another or none: it was deleted meanwhile",
                "Stop this one before you delete the folder of a run.",
                where="run",
            )

    def steps(self, arm: str, total: int, **state: Stateful | torch.Generator) -> Iterator[int]:
        """The steps 0 to `total` of one arm of the experiment, resumed from its last checkpoint if there is one.

        At step s the caller makes the s-th update (none at 0) and may `record` a reading. A checkpoint is written
        every few seconds and at the end, which is `total` or the step at which the caller calls `stop`; resuming
        restores `state`, drops the records made since the checkpoint, and makes them again. A finished arm only
        restores its state, unless that was dropped.

        Raises:
            CheckpointError: if a checkpoint is damaged, or belongs to another run; or if the folder was deleted.
            DataError: if records that a checkpoint relies on are missing, or were altered.
        """
        self.require_own()
        if not self._begun or arm in self._begun:
            self._left = keep_records(self.records_path, seals_in(self.folder))
        self._begun.add(arm)
        path, done, self._saved = self.checkpoint_path(arm), -1, None
        self._arm, self._kept, self._read, self._trained, self._stopped = arm, Kept(), 0.0, 0.0, False
        saved = load_of_run(path) if path.exists() else None
        if saved is not None:
            if saved["finished"] and not saved["state"]:
                return
            if saved["state"].keys() != state.keys():
                raise damaged(path, sorted(saved["state"]), f"the parts {sorted(state)}")
            self._kept = self._left.get(arm, self._kept)
            self._saved = done = saved["step"]
            self._read, self._trained = saved["read"], saved["trained"]
            for name, part in state.items():
                _restore(part, saved["state"][name])
            if saved["finished"]:
                return
        last_save = self._mark = time.monotonic()
        for step in range(done + 1, total + 1):
            self._step = step
            yield step
            now = self._count(read=0.0)
            finished = self._stopped or step == total
            self._show(arm, step, step if finished else total)
            if finished or now - last_save >= self.checkpoint_seconds:
                self._save(arm, step, finished, state)
                last_save = self._mark = time.monotonic()
            if finished:
                return

    def _save(self, arm: str, step: int, finished: bool, state: Mapping[str, Stateful | torch.Generator]) -> None:
        """Writes the checkpoint of this step, which relies on the records so far."""
        checkpoint = {
            "run": self.folder.name, "arm": arm, "step": step, "finished": finished,
            "records": self._kept.count, "records_sha256": self._kept.sha256,
            "read": self._read, "trained": self._trained,
            "state": {name: _state(part) for name, part in state.items()},
        }  # fmt: skip
        self._require_numbers(checkpoint["state"])
        self.require_own()
        sync(self.records_path)  # after a power failure, the checkpoint still has the records that it relies on
        save_checkpoint(self.checkpoint_path(arm), checkpoint)
        self._saved = step

    def drop_state(self) -> None:
        """Drops from the finished arm's checkpoint the state, which fills the disk where nothing needs it again."""
        path = self.checkpoint_path(self._arm)
        if (saved := load_of_run(path))["state"]:
            save_checkpoint(path, saved | {"state": {}})

    def _count(self, read: float) -> float:
        """Counts the time since the last call, of which so many seconds went into readings; returns the time now."""
        now = time.monotonic()
        self._read += read
        self._trained += now - self._mark - read
        self._mark = now
        return now

    def require_finite(self, **quantities: Tensor) -> None:
        """Ends the run when a loss or a penalty is no longer a finite number, before it spoils the parameters.

        Raises:
            ConvergenceError: naming the step, the quantity and the last good checkpoint.
        """
        for name, quantity in quantities.items():
            if not torch.isfinite(quantity).all():
                raise self._diverged(f"a finite {name}", f"{quantity.sum().item():g}")

    def _require_numbers(self, state: State) -> None:
        """Raises ConvergenceError rather than replace a good checkpoint by one that contains NaN."""
        for path, tensor in leaves(state, Tensor):
            if tensor.is_floating_point() and tensor.isnan().any():
                raise self._diverged(f"numbers in {path}", "nan")

    def _diverged(self, expected: str, got: str) -> ConvergenceError:
        advice = "Lower the learning rate or the coefficient of the penalty."
        if not self._step:
            advice = "Nothing has been trained yet: change a setting that it depends on."
        return ConvergenceError(
            self._arm,
            f"{expected} at step {self._step}",
            got,
            f"{advice} Last good checkpoint: {self._last_good}.",
            where="run",
        )

    @property
    def _last_good(self) -> str:
        if self._saved is None:
            return "none was written yet"
        return f"step {self._saved}, {self.checkpoint_path(self._arm)}"

    def stop(self) -> None:
        """Ends the arm with the current step."""
        self._stopped = True

    def record(self, step: int, *readings: Reading, **values: object) -> None:
        """Appends one line: the arm, the step, the readings' scalars, other values, and the seconds spent so far.

        Raises:
            ConvergenceError: if a value is NaN or infinite.
            CheckpointError: if the folder was deleted.
            DataError: if a name occurs twice.
        """
        cost: Counter[str] = Counter()
        values = {"arm": self._arm, "step": step, **values}
        for reading in readings:
            cost.update(reading.seconds)
            scalars = reading.scalars()
            if twice := sorted(scalars.keys() & {*values, "seconds"}):
                raise DataError("readings", "distinct names", f"{twice} twice", "Rename a quantity.", where="record")
            values |= scalars
        for name, number in leaves(values, float):
            if not math.isfinite(number):
                raise self._diverged(f"a finite {name}", f"{number:g}")
        self._count(read=cost.total())
        seconds = {"trained": self._trained, "read": self._read, "cost": dict(cost)}
        self.require_own()
        self._kept.add(append_record(self.records_path, values | {"seconds": seconds}))


def _state(part: Stateful | torch.Generator) -> State:
    return part.get_state() if isinstance(part, torch.Generator) else part.state_dict()


def _restore(part: Stateful | torch.Generator, state: State) -> None:
    if isinstance(part, torch.Generator):
        part.set_state(state)
    else:
        part.load_state_dict(state)
