"""Many runs at once: tasks, handed to any `concurrent.futures.Executor`, and their progress and outcomes as they come.

The runs and the process that waits for them share one folder, next to the runs' own: there each run reports its
progress and its errors, and sees whether it is still wanted. So workers may be processes here or on other machines.
"""

import json
import shutil
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from gnomon.errors import GnomonError
from gnomon_lab.runs.find import open_run
from gnomon_lab.runs.found import Found
from gnomon_lab.runs.run import Show

POLL = 0.5
"""Seconds between two checks of the runs' progress."""
PATIENCE = 5.0
"""Seconds that runs are given to end on their own when the sweep is stopped."""
LAST_LINES = 10
"""How many of the last lines that a failed run reported are kept."""


@dataclass(frozen=True)
class Task:
    """One run that a worker can execute.

    Attributes:
        experiment: the experiment's name.
        config: its configuration.
        seed: the run's seed.
        root: the folder that holds all runs, absolute, and the same for every worker.
        make: executes the run in its folder, from where it is; a worker imports this function by its name.
    """

    experiment: str
    config: object
    seed: int
    root: Path
    make: Callable[[Found, Show], None]


@dataclass(frozen=True)
class Moved:
    """The progress of a run: `done` of `total` steps of one of its parts are done; none while it is starting."""

    task: Task
    part: str
    done: int
    total: int


@dataclass(frozen=True)
class Ended:
    """A run finished, or failed; then `lines` are the last that it reported."""

    task: Task
    lines: tuple[str, ...] = ()


def sweep(tasks: Sequence[Task], executor: Executor) -> Generator[Moved | Ended]:
    """Executes all runs, and yields their progress while they work, and the end of each.

    A run that fails stops no other. Closing the iterator stops them all: those in progress end at their next step, and
    those that have not begun do not begin. The same tasks resume from the checkpoints.
    """
    if not tasks:
        return
    tasks[0].root.mkdir(parents=True, exist_ok=True)
    shared = Path(mkdtemp(prefix=".sweep-", dir=tasks[0].root))
    _going(shared).touch()
    pending: dict[Future[None], tuple[Task, Path]] = {}
    seen: dict[Path, Moved] = {}
    try:
        for number, task in enumerate(tasks):
            place = shared / f"{number}.json"
            pending[executor.submit(work, task, place)] = (task, place)
        while pending:
            ended = wait(pending, POLL, FIRST_COMPLETED).done
            for future in ended:
                task, place = pending.pop(future)
                yield Ended(task, _last_lines(future, place))
            for task, place in pending.values():
                moved = _moved(task, place)
                if moved is not None and moved != seen.get(place):
                    seen[place] = moved
                    yield moved
    finally:
        _going(shared).unlink()
        for future in pending:
            future.cancel()
        deadline = time.monotonic() + PATIENCE
        while any(place.exists() for _, place in pending.values()) and time.monotonic() < deadline:
            time.sleep(0.05)
        shutil.rmtree(shared, ignore_errors=True)


def work(task: Task, place: Path) -> None:
    """Executes one run in the current process; an error is written next to `place`, and raised."""
    show = Reported(place)
    try:
        show("starting", 0, 0)
        found = open_run(task.root, task.experiment, task.config, task.seed)
        if found.finished:
            found.records()  # which raises if they were altered
        else:
            task.make(found, show)
    except CancelledError:
        raise
    except Exception as error:
        _message_at(place).write_text(
            _sentence(error) or traceback.format_exc(), encoding="utf-8", errors="backslashreplace"
        )
        raise
    finally:
        place.unlink(missing_ok=True)


class Reported:
    """Shows progress to another process, in a file, which exists as long as the run is at work."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._next = 0.0

    def __call__(self, part: str, done: int, total: int) -> None:
        """Reports that `done` of `total` steps of this part are done.

        Raises:
            CancelledError: if nobody waits for the run any more.
        """
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + POLL
        if not _going(self._place.parent).exists():
            raise CancelledError
        # Renamed, so that it is never read half written. It need not survive a crash.
        beside = self._place.with_suffix(".part")
        beside.write_text(json.dumps([part, done, total]), encoding="utf-8")
        beside.replace(self._place)


def _moved(task: Task, place: Path) -> Moved | None:
    """The progress of a run, if it is at work."""
    try:
        part, done, total = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Moved(task, part, done, total)


def _last_lines(future: Future[None], place: Path) -> tuple[str, ...]:
    """The last lines that a failed run reported, or what is known if it reported nothing; none for a finished run."""
    error = CancelledError() if future.cancelled() else future.exception()
    if error is None:
        return ()
    lines = _message_at(place).read_text(encoding="utf-8").splitlines() if _message_at(place).exists() else []
    if not lines and (sentence := _sentence(error)):  # a full disk had no room for them
        lines = [sentence]
    if not lines:
        how = "was killed, perhaps for lack of memory, or crashed" if isinstance(error, BrokenExecutor) else "is gone"
        lines = f"{type(error).__name__}: {error}".splitlines()
        lines.append(f"Its worker {how}. Call the same command again: the run goes on from its last checkpoint.")
    return tuple(lines[-LAST_LINES:])


def _sentence(error: BaseException) -> str:
    """What an error says by itself, without the lines of code it came through; empty if those are needed."""
    if isinstance(error, OSError) and error.errno:
        mend = "Mend it, and call the same command again: the run goes on from its last checkpoint."
        return f"expected to read and write files, got {error}. {mend}"
    return str(error) if isinstance(error, GnomonError) else ""


def _going(shared: Path) -> Path:
    """The file that exists as long as the sweep continues."""
    return shared / "going"


def _message_at(place: Path) -> Path:
    """The file that holds what a failed run reported."""
    return place.with_suffix(".txt")
