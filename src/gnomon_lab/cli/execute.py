"""Making runs, one here or many in workers, and showing how far they are and what came out."""

import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.measure import Measurement
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table

from gnomon.errors import GnomonError
from gnomon_lab.cli.progress import Progress
from gnomon_lab.cli.say import say
from gnomon_lab.cli.state import how_far
from gnomon_lab.cli.terminal import Terminal
from gnomon_lab.experiment import Experiment
from gnomon_lab.report.build import build, then
from gnomon_lab.report.over_seeds import build_over_seeds
from gnomon_lab.report.page import UNJUDGED
from gnomon_lab.runs import Found, find_run, finished_runs, open_run
from gnomon_lab.runs.claims import reproduced
from gnomon_lab.runs.executors import open_executor, require_place
from gnomon_lab.runs.sweep import Ended, Moved, Task, sweep
from gnomon_lab.settings import Settings

WIDE = 1000
"""Columns that hold any table."""


def execute(experiment: Experiment[Settings], config: Settings, seed: int, root: Path, data_dir: Path | None) -> int:
    """Makes one run here, if it is not finished; prints its table, its claims, the path of its page and what next."""
    console, name = Terminal(), experiment.name
    found = open_run(root, name, config, seed)
    if found.finished:
        say(f"{name}, seed {seed}: finished before, in {found.folder}", console)
    else:
        say(f"{name}, seed {seed}, in {found.folder}", console)
        if reached := how_far(found):
            say(f"goes on from its checkpoints: {reached}", console)
        with Progress(console) as progress:
            experiment.finish(config, found, progress.show, data_dir)
    show_table(experiment, found, console)
    show_claims(experiment, [found], console)
    show_page(experiment, found, console)
    show_page_of_seeds(experiment, found, root, console)
    say(then(name), console)
    return 0


def execute_many(
    experiment: Experiment[Settings],
    config: Settings,
    seeds: Sequence[int],
    root: Path,
    data_dir: Path | None,
    on: str | None,
    workers: int | None,
) -> int:
    """Makes the runs that are not finished in workers, and prints each one's table or last lines; 1 if one failed."""
    console, finished, failed, name = Terminal(), list[Found](), list[int](), experiment.name
    require_place(on, workers, config.threads)
    looked = {seed: finished_before(experiment, config, seed, root, console) for seed in seeds}
    before = [found for found in looked.values() if found is not None]
    make = partial(experiment.finish, config, data_dir=data_dir and data_dir.resolve())
    tasks = [Task(name, config, seed, root.resolve(), make) for seed, found in looked.items() if found is None]
    if not tasks:
        return 0
    with (
        open_executor(on, workers, config.threads, root.resolve() / ".slurm") as executor,
        Board(console, len(tasks)) as board,
        closing(sweep(tasks, executor)) as events,
    ):
        for event in events:
            board.show(event)
            if isinstance(event, Moved):
                continue
            seed = event.task.seed
            if event.lines:
                failed.append(seed)
                say(f"{name}, seed {seed}: failed", console, style="red")
                for line in event.lines:
                    say(line, console)
            else:
                found = open_run(root, name, config, seed)
                finished.append(found)
                say(f"{name}, seed {seed}: finished, in {found.folder}", console)
                show_table(experiment, found, console)
    if finished:
        show_claims(experiment, [*before, *finished], console)
    for found in sorted(finished, key=lambda run: run.seed):
        show_page(experiment, found, console)
    if finished:
        show_page_of_seeds(experiment, finished[0], root, console)
    if failed:
        which = ", ".join(map(str, sorted(failed)))
        say(f"{len(failed)} of {len(tasks)} runs failed: seed {which}", console)
    return int(bool(failed))


def finished_before(
    experiment: Experiment[Settings], config: Settings, seed: int, root: Path, console: Terminal
) -> Found | None:
    """The run if it is finished; says so, or from where it goes on. What is wrong with it its worker says."""
    name = experiment.name
    try:
        found = find_run(root, name, config, seed)
        if found is not None and found.finished:
            found.records()
        elif found is not None and (reached := how_far(found)):
            say(f"{name}, seed {seed}: goes on from its checkpoints: {reached}", console)
    except GnomonError:
        return None
    if found is None or not found.finished:
        return None
    say(f"{name}, seed {seed}: finished before, in {found.folder}", console)
    if not (found.folder / "report.html").exists():  # the command ended between a run and its page
        show_page(experiment, found, console)
    return found


class Board:
    """The runs under way: on a terminal a bar each, elsewhere one line of them all every few seconds."""

    def __init__(self, console: Terminal, total: int, seconds_between_lines: float = 5.0) -> None:
        self._console = console
        self._total = total
        self._between = seconds_between_lines
        self._ended = 0
        self._last_line = time.monotonic()
        self._under_way: dict[int, Moved] = {}
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._bars = Bars(*columns, console=console, disable=not console.is_terminal)
        self._all = self._bars.add_task("runs", total=total)
        self._tasks: dict[int, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def show(self, event: Moved | Ended) -> None:
        """Takes what a sweep yields."""
        seed = event.task.seed
        if isinstance(event, Moved):
            self._under_way[seed] = event
            if seed not in self._tasks:
                self._tasks[seed] = self._bars.add_task("", total=None)
            words = f"seed {seed} {event.part}"
            self._bars.update(self._tasks[seed], description=words, completed=event.done, total=event.total or None)
        else:
            self._ended += 1
            self._under_way.pop(seed, None)
            self._bars.advance(self._all)
            if seed in self._tasks:
                self._bars.remove_task(self._tasks.pop(seed))
        if not self._console.is_terminal and time.monotonic() - self._last_line >= self._between:
            self._last_line = time.monotonic()
            say(self._line(), self._console)

    def _line(self) -> str:
        runs = (
            f"seed {seed}: {run.part}" + (f", step {run.done:,} of {run.total:,}" if run.total else "")
            for seed, run in sorted(self._under_way.items())
        )
        return "; ".join((f"{self._ended} of {self._total} runs ended", *runs))


def show_table(experiment: Experiment[Settings], found: Found, console: Terminal) -> None:
    """Prints the run's table."""
    columns, rows = experiment.table(found.records())
    console.print(laid_out(columns, rows, console))


def show_claims(experiment: Experiment[Settings], runs: Sequence[Found], console: Terminal) -> None:
    """Prints what came of the claims in runs of one setting, a line each."""
    if not runs[0].has_one_of(experiment.settings):
        say(UNJUDGED, console)
        return
    claims = experiment.claims([run.records() for run in runs])
    if not claims:  # an experiment that shows, and claims nothing
        return
    say(f"{reproduced(claims)}:", console)
    for claim in claims:
        sign, style = ("✓", "green") if claim.holds else ("✗ not reproduced:", "red")
        say(f"  {sign} {claim.message}: {claim.measured} (expected: {claim.expected})", console, style=style)


def show_page(experiment: Experiment[Settings], found: Found, console: Terminal) -> None:
    """Writes the run's page and says where."""
    say(f"report: {build(experiment, found)}", console)


def show_page_of_seeds(experiment: Experiment[Settings], found: Found, root: Path, console: Terminal) -> None:
    """Writes the page of all finished seeds of a run's setting and says where, if there are several."""
    runs = [run for run in finished_runs(root, found.experiment)[0] if run.digest == found.digest]
    if len(runs) > 1:
        say(f"report over {len(runs)} seeds: {build_over_seeds(experiment, runs)}", console)


def laid_out(columns: Sequence[str], rows: Sequence[Sequence[str]], console: Terminal) -> RenderableType:
    """The table as it fits: as it is, its words wrapped, on its side, or in parts that repeat the rows' names.

    No number and no name is cut off, whatever the width.
    """
    table = tabled(columns, rows)
    if width(table, console).maximum > console.width:
        # All but the names wrap between words, and the names take what is left.
        for place, column in enumerate(columns):
            words = " ".join([column, *(row[place] for row in rows)]).split()
            table.columns[place].width = max(map(len, words)) if column else None
    if width(table, console).minimum > console.width:
        first, *others = zip(columns, *rows, strict=True)
        turned = tabled(first, others)
        return turned if width(turned, console).minimum <= console.width else in_parts(columns, rows, console)
    return table


def in_parts(columns: Sequence[str], rows: Sequence[Sequence[str]], console: Terminal) -> Group:
    """Tables below each other, each with the first column and as many of the others as fit, but one at least."""
    parts: list[Table] = []
    since = 1
    for end in range(2, len(columns) + 1):
        part = tabled(*taken(columns, rows, since, end))
        if end > since + 1 and width(part, console).maximum > console.width:
            since = end - 1
            parts.append(tabled(*taken(columns, rows, since, end)))
        else:
            parts[-1:] = [part]
    return Group(*parts)


def taken(
    columns: Sequence[str], rows: Sequence[Sequence[str]], since: int, end: int
) -> tuple[list[str], list[list[str]]]:
    """The first column and those of a range."""
    return [columns[0], *columns[since:end]], [[row[0], *row[since:end]] for row in rows]


def tabled(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """The table as wide as it comes; the column without a name holds the names of the rows."""
    table = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column else "left")
    for row in rows:
        table.add_row(*row)
    return table


def width(table: Table, console: Terminal) -> Measurement:
    """The least and the most columns of the screen that the table takes."""
    return Measurement.get(console, console.options.update(width=WIDE), table)
