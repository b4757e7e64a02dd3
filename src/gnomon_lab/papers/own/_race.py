"""A race to a goal: the steps and the CPU seconds of training until a share of unseen samples is recognised."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Race:
    """Counts one arm's seconds and keeps when it arrived; part of a run's state, like optimizers.

    Seconds are CPU time, over all threads of the process: wall time says little where other work shares the CPU.

    Attributes:
        goal: the share of unseen samples that has to be exceeded.
        arrived: the step, and the seconds until then; None before it.
    """

    def __init__(self, goal: float) -> None:
        self.goal = goal
        self.arrived: tuple[int, float] | None = None
        self._before = 0.0
        self._since: float | None = time.process_time()

    @property
    def seconds(self) -> float:
        """Seconds of training so far."""
        return self._before + (0.0 if self._since is None else time.process_time() - self._since)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Time spent inside does not count, such as on readings."""
        self._before, self._since = self.seconds, None
        try:
            yield
        finally:
            self._since = time.process_time()

    def look(self, step: int, share: float) -> None:
        """Records the arrival, if this is the first time that the goal is exceeded."""
        if self.arrived is None and share > self.goal:
            self.arrived = step, self.seconds

    def state_dict(self) -> dict[str, Any]:
        """The seconds so far, and when it arrived."""
        return {"seconds": self.seconds, "arrived": self.arrived}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from there."""
        arrived = state_dict["arrived"]
        self.arrived = None if arrived is None else (arrived[0], arrived[1])
        self._before, self._since = state_dict["seconds"], time.process_time()
