"""Executing runs, one here or many in workers, and showing their progress and results."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from gnomon.errors import GnomonError
from gnomon_lab.cli.progress import Bars, Progress
from gnomon_lab.cli.say import say
from gnomon_lab.cli.state import how_far
from gnomon_lab.cli.tables import laid_out
from gnomon_lab.cli.terminal import Terminal
from gnomon_lab.experiment import Experiment
from gnomon_lab.report.build import build, then
from gnomon_lab.report.over_seeds import beginning, build_over_seeds, folder_over_seeds
from gnomon_lab.report.page import UNJUDGED
from gnomon_lab.runs import Found, all_runs, find_run, open_run
from gnomon_lab.runs.claims import reproduced
from gnomon_lab.runs.data import require_data
from gnomon_lab.runs.executors import open_executor, require_place
from gnomon_lab.runs.sweep import Ended, Moved, Task, sweep
from gnomon_lab.settings import Settings


def execute(experiment: Experiment[Settings], config: Settings, seed: int, root: Path, data_dir: Path | None) -> int:
    """Executes one run here if unfinished; prints its table, its claims, the path of its page and what to do next."""
    console, name = Terminal(), experiment.name
    begun = find_run(root, name, config, seed)
    if begun is None or not begun.finished:
        require_device(config)
    found = open_run(root, name, config, seed)
    if found.finished:
        require_data([found], data_dir, experiment.tables(config))
        say(f"{name}, seed {seed}: finished before, in {found.folder}", console)
    else:
        say(f"{name}, seed {seed}, in {found.folder}", console)
        if reached := how_far(found):
            say(f"last checkpoints: {reached}", console)
        with Progress(console) as progress:
            experiment.finish(config, found, progress.show, data_dir)
    show_table(experiment, found, console)
    show_claims(experiment, [found], console)
    show_page(experiment, found, console)
    show_page_of_seeds(experiment, found, root, console)
    say(then(experiment, found), console)
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
    """Executes the unfinished runs in workers, and prints each one's table or last lines; returns 1 if one failed.

    What is wrong with a finished run, such as records of another version, is printed last, and returns 1 too.
    """
    console, name = Terminal(), experiment.name
    require_place(on, workers, config.threads)
    looked = {seed: finished_before(experiment, config, seed, root, console) for seed in seeds}
    before = [found for found in looked.values() if found is not None]
    require_data(before, data_dir, experiment.tables(config))
    make = partial(experiment.finish, config, data_dir=data_dir and data_dir.resolve())
    tasks = [Task(name, config, seed, root.resolve(), make) for seed, found in looked.items() if found is None]
    finished, failed, wrong = list[Found](), list[int](), list[GnomonError]()
    if tasks:
        if on is None:
            require_device(config)
        with open_executor(on, workers, config.threads, root.resolve() / ".slurm") as executor:
            finished, failed, wrong = executed(experiment, tasks, executor, root, console)
    # By seed, as in `verify`: whichever ended first, resampled intervals are the same.
    if runs := sorted([*before, *finished], key=lambda run: run.seed):
        with noted(wrong):
            show_claims(experiment, runs, console)
    for found in runs:
        with noted(wrong):
            show_page(experiment, found, console, again=found in finished)
    if runs:
        with noted(wrong):
            show_page_of_seeds(experiment, runs[0], root, console, again=bool(finished))
    if failed:
        which = ", ".join(map(str, sorted(failed)))
        say(f"{len(failed)} of {len(tasks)} runs failed: seed {which}", console)
    for sentence in dict.fromkeys(map(str, wrong)):
        say(sentence, console, style="red")
    return int(bool(failed or wrong))


def require_device(config: Settings) -> None:
    """Raises RangeError if a configuration names a device that this machine does not have."""
    if (device := getattr(config, "device", None)) is not None:
        from gnomon_lab.measuring import device_of

        device_of(device)


def executed(
    experiment: Experiment[Settings], tasks: Sequence[Task], executor: Executor, root: Path, console: Terminal
) -> tuple[list[Found], list[int], list[GnomonError]]:
    """The runs that workers finished, each shown as it ends; the seeds that failed; and what could not be shown."""
    finished, failed, wrong = list[Found](), list[int](), list[GnomonError]()
    with Board(console, len(tasks)) as board, closing(sweep(tasks, executor)) as events:
        for event in events:
            board.show(event)
            if isinstance(event, Moved):
                continue
            seed = event.task.seed
            if event.lines:
                failed.append(seed)
                say(f"{experiment.name}, seed {seed}: failed", console, style="red")
                for line in event.lines:
                    say(line, console)
            else:
                found = open_run(root, experiment.name, event.task.config, seed)
                finished.append(found)
                say(f"{experiment.name}, seed {seed}: finished, in {found.folder}", console)
                with noted(wrong):
                    show_table(experiment, found, console)
    return finished, failed, wrong


@contextmanager
def noted(wrong: list[GnomonError]) -> Iterator[None]:
    """Adds an error to the list, for later: the rest of the work does not need what failed."""
    try:
        yield
    except GnomonError as error:
        wrong.append(error)


def finished_before(
    experiment: Experiment[Settings], config: Settings, seed: int, root: Path, console: Terminal
) -> Found | None:
    """The run if it is finished; says so, or where its checkpoints are. Its errors are left to its worker to report."""
    name = experiment.name
    try:
        found = find_run(root, name, config, seed)
        if found is not None and found.finished:
            found.records()
        elif found is not None and (reached := how_far(found)):
            say(f"{name}, seed {seed}: last checkpoints: {reached}", console)
    except GnomonError:
        return None
    if found is None or not found.finished:
        return None
    say(f"{name}, seed {seed}: finished before, in {found.folder}", console)
    return found


class Board(Bars):
    """The runs in progress: on a terminal one bar each, elsewhere one line for all of them every few seconds."""

    def __init__(self, console: Terminal, total: int, seconds_between_lines: float = 5.0) -> None:
        super().__init__(console, seconds_between_lines)
        self._ended, self._total = 0, total
        self._under_way: dict[int, Moved] = {}
        self.bar("all", "runs", 0, total)

    def show(self, event: Moved | Ended) -> None:
        """Shows what a sweep yields."""
        seed = event.task.seed
        if isinstance(event, Moved):
            self._under_way[seed] = event
            self.bar(seed, f"seed {seed} {event.part}", event.done, event.total or None)
        else:
            self._ended += 1
            if self._under_way.pop(seed, None) is not None:
                self.remove_task(self._bars.pop(seed))
            self.bar("all", "runs", self._ended, self._total)
        runs = (
            f"seed {seed}: {run.part}" + (f", step {run.done:,} of {run.total:,}" if run.total else "")
            for seed, run in sorted(self._under_way.items())
        )
        self.line("; ".join((f"{self._ended} of {self._total} runs ended", *runs)))


def show_table(experiment: Experiment[Settings], found: Found, console: Terminal) -> None:
    """Prints the run's table."""
    columns, rows = experiment.table(found.records())
    console.print(laid_out(columns, rows, console))


def show_claims(experiment: Experiment[Settings], runs: Sequence[Found], console: Terminal) -> None:
    """Prints which claims hold in runs of one setting, one line each."""
    if not runs[0].has_one_of(experiment.settings):
        say(UNJUDGED, console)
        return
    claims = experiment.claims([run.records() for run in runs])
    if not claims:  # an experiment that shows something, and claims nothing
        return
    say(f"{reproduced(claims)}:", console)
    for claim in claims:
        sign, style = ("✓", "green") if claim.holds else ("✗ not reproduced:", "red")
        say(f"  {sign} {claim.message}: {claim.measured} (expected: {claim.expected})", console, style=style)


def show_page(experiment: Experiment[Settings], found: Found, console: Terminal, *, again: bool = True) -> None:
    """Writes the run's page, `again` or if there is none, as where a command ended in between; says where it is."""
    page = found.folder / "report.html"
    say(f"report: {build(experiment, found) if again or not page.exists() else page}", console)


def show_page_of_seeds(
    experiment: Experiment[Settings], found: Found, root: Path, console: Terminal, *, again: bool = True
) -> None:
    """Writes the page of all finished seeds of a run's setting if there are several, and says where it is.

    Args:
        experiment: the experiment.
        found: one of the runs.
        root: the folder that holds all runs.
        console: where to print.
        again: whether to write it even if a run has not been finished since it was written.
    """
    every, damaged = all_runs(root, found.experiment)
    runs = [run for run in every if run.finished and run.digest == found.digest]
    left_out = [sentence for sentence in damaged if f"{found.digest}-seed" in sentence]  # of other settings none
    if len(runs) > 1:
        page = folder_over_seeds(runs[0]) / "report.html"
        if again or left_out or is_stale(runs, page):
            page = build_over_seeds(experiment, runs)
        say(f"report over {len(runs)} seeds: {page}", console)
    for sentence in left_out:
        say(f"left out: {sentence}", console)


def is_stale(runs: Sequence[Found], page: Path) -> bool:
    """Whether the page over these runs is missing, older than one of them, or over more or fewer of them."""
    if not page.exists() or page.stat().st_mtime_ns < max(run.ended_ns for run in runs):
        return True
    return beginning(runs) not in page.read_text(encoding="utf-8")
