"""Progress on long work: bars on a terminal, elsewhere a line every few seconds."""

import time
from collections.abc import Hashable, Iterable

from rich import progress
from rich.cells import cell_len
from rich.table import Column, Table
from rich.text import Text

from gnomon_lab.cli.say import say
from gnomon_lab.cli.terminal import Terminal

ONE_LINE = Column(no_wrap=True)
BAR = 40
"""The most characters of a bar."""


class Name(progress.TextColumn):
    """The name of a part, cut off where there is no room for it beside the numbers."""

    def render(self, task: progress.Task) -> Text:
        """The name, on one line; the column itself may shrink, unlike those of numbers."""
        name = super().render(task)
        name.no_wrap, name.overflow = True, "ellipsis"
        return name


class Bars(progress.Progress):
    """Bars where there is a terminal, elsewhere lines that are few; to be entered while the work runs."""

    def __init__(self, console: Terminal, seconds_between_lines: float, *columns: progress.ProgressColumn) -> None:
        numbers = (progress.MofNCompleteColumn(table_column=ONE_LINE), progress.TimeElapsedColumn(ONE_LINE), *columns)
        self._terminal, self._bar = console, progress.BarColumn()
        self._beside = (Name("{task.description}", markup=False, table_column=Column()), *numbers)
        shown = (self._beside[0], self._bar, *numbers)
        super().__init__(*shown, console=console, disable=not console.is_terminal)
        self._between = seconds_between_lines
        self._last_line = time.monotonic()
        self._bars: dict[Hashable, progress.TaskID] = {}

    def make_tasks_table(self, tasks: Iterable[progress.Task]) -> Table:
        """The bars, as long as names and numbers leave room for."""
        drawn = [task for task in tasks if task.visible]
        room = self._terminal.width
        for column in self._beside:
            room -= 1 + max((cell_len(str(column(task))) for task in drawn), default=0)
        self._bar.bar_width = min(BAR, max(1, room))
        return super().make_tasks_table(drawn)

    def bar(self, key: Hashable, name: str, done: int, total: int | None) -> None:
        """Draws a bar, which a later call with its key moves."""
        if key not in self._bars:
            self._bars[key] = self.add_task(name, total=total)
        self.update(self._bars[key], description=name, completed=done, total=total)

    def line(self, words: str, *, at_once: bool = False) -> None:
        """Prints a line where there is no terminal, `at_once` or if the last one was long ago."""
        if self.disable and (at_once or time.monotonic() - self._last_line >= self._between):
            self._last_line = time.monotonic()
            say(words, self._terminal)


class Progress(Bars):
    """Shows the progress of each named part of the work."""

    def __init__(self, console: Terminal, seconds_between_lines: float = 5.0) -> None:
        super().__init__(console, seconds_between_lines, progress.TimeRemainingColumn(table_column=ONE_LINE))

    def show(self, part: str, done: int, total: int, *, unit: str = "step ") -> None:
        """Reports that `done` of `total` steps of this part, or of another unit, are done."""
        self.bar(part, part, done, total)
        how_far = f"{unit}{done:,} of {total:,}" if total else "done"  # what is solved in one go has no steps
        self.line(f"{part}: {how_far}", at_once=done == total)
