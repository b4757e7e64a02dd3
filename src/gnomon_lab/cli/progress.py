"""Progress on long work: a bar on a terminal, elsewhere a line every few seconds."""

import time
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from gnomon_lab.cli.say import say
from gnomon_lab.cli.terminal import Terminal


class Progress:
    """Shows the progress of each named part of the work; to be entered while the work runs."""

    def __init__(self, console: Terminal, seconds_between_lines: float = 5.0) -> None:
        self._console = console
        self._between = seconds_between_lines
        self._last_line = time.monotonic()
        columns = (
            TextColumn("{task.description:<12}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._bars = Bars(*columns, console=console, disable=not console.is_terminal)
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def show(self, part: str, done: int, total: int, *, unit: str = "step ") -> None:
        """Reports that `done` of `total` steps of this part, or of another unit, are done."""
        if self._console.is_terminal:
            if part not in self._tasks:
                self._tasks[part] = self._bars.add_task(part, total=total)
            self._bars.update(self._tasks[part], completed=done, total=total)
        elif done == total or time.monotonic() - self._last_line >= self._between:
            self._last_line = time.monotonic()
            how_far = f"{unit}{done:,} of {total:,}" if total else "done"  # what is solved in one go has no steps
            say(f"{part}: {how_far}", self._console)
