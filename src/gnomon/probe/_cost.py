"""What reading costs compared with training, and whether a budget has room for one more reading."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cost:
    """Wall time so far.

    Attributes:
        readings: how many were taken.
        skipped: how many were due but left out, to stay within the budget.
        reading_seconds: the seconds spent on readings, and on keeping them in the history.
        training_seconds: the seconds since the first reading began that were not spent on readings.
    """

    readings: int
    skipped: int
    reading_seconds: float
    training_seconds: float

    @property
    def overhead(self) -> float:
        """Seconds of reading per second of training; infinite before there was any training."""
        return self.reading_seconds / self.training_seconds if self.training_seconds > 0 else float("inf")


class Meter:
    """Counts readings and their seconds.

    Args:
        budget: the overhead that is allowed; None for any.
    """

    def __init__(self, budget: float | None) -> None:
        self.budget = budget
        self._start: float | None = None
        self._readings = self._skipped = 0
        self._seconds = 0.0

    def allows(self, agreed: Callable[[bool], bool]) -> bool:
        """Whether there is room for a reading like those so far; the first is always allowed. Counts a refusal.

        Processes that read together each have their own clock: what they have `agreed` on counts.
        """
        self._begin()
        if self.budget is None:
            return True
        cost = self.cost()
        needed = cost.reading_seconds * (1 + 1 / max(1, cost.readings))
        allowed = agreed(needed <= self.budget * cost.training_seconds)
        self._skipped += not allowed
        return allowed

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Counts what happens inside as one reading."""
        self._begin()
        try:
            with self.keeping():
                yield
        finally:
            self._readings += 1

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Counts the seconds inside as spent on the readings so far."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds += time.perf_counter() - start

    def cost(self) -> Cost:
        """The cost so far."""
        since = 0.0 if self._start is None else time.perf_counter() - self._start
        return Cost(self._readings, self._skipped, self._seconds, since - self._seconds)

    def __getstate__(self) -> dict[str, Any]:
        """With the seconds since the start in the start's place: each process's clock begins elsewhere."""
        return self.__dict__ | {"_start": None if self._start is None else self._start - time.perf_counter()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        if self._start is not None:
            self._start += time.perf_counter()

    def _begin(self) -> None:
        if self._start is None:
            self._start = time.perf_counter()
