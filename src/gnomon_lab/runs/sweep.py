"""Many runs at once: tasks, handed to any `concurrent.futures.Executor`, and what becomes of them as it comes.

The runs and whoever waits for them share one folder, beside the runs' own: there each run says how far it is and what
went wrong, and each sees whether it is still wanted. So workers may be processes here or on other machines.
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
from gnomon_lab.runs.find import Found, open_run
from gnomon_lab.runs.run import Show

POLL = 0.5
"""Seconds between two looks at how far the runs are."""
PATIENCE = 5.0
"""Seconds that runs are given to end by themselves when the sweep is stopped."""
LAST_LINES = 10
"""Of what a failed run said."""


@dataclass(frozen=True)
class Task:
    """One run that a worker can make.

    Attributes:
        experiment: the experiment's name.
        config: its configuration.
        seed: the run's seed.
        root: the folder that holds all runs, absolute, and the same for every worker.
        make: makes the run in its folder, from where it stands; a worker imports it by its name.
    """

    experiment: str
    config: object
    seed: int
    root: Path
    make: Callable[[Found, Show], None]


@dataclass(frozen=True)
class Moved:
    """A run got on: `done` of `total` steps of one of its parts are behind it; none while it is starting."""

    task: Task
    part: str
    done: int
    total: int


@dataclass(frozen=True)
class Ended:
    """A run came to its end, or failed; then `lines` are the last that it said."""

    task: Task
    lines: tuple[str, ...] = ()


def sweep(tasks: Sequence[Task], executor: Executor) -> Generator[Moved | Ended]:
    """Makes all runs, and yields how far they are while they work, and each one's end.

    A run that fails stops no other. Closing the iterator stops them all: those under way end at their next step, and
    what has not begun does not begin. The same tasks go on from the checkpoints.
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
    """Makes one run, in whatever process this is; what goes wrong is said beside `place`, and raised."""
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
        said = str(error) if isinstance(error, GnomonError) else traceback.format_exc()
        _said(place).write_text(said, encoding="utf-8")
        raise
    finally:
        place.unlink(missing_ok=True)


class Reported:
    """Shows progress to another process, in a file, which is there as long as the run is at work."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._next = 0.0

    def __call__(self, part: str, done: int, total: int) -> None:
        """Says that `done` of `total` steps of this part are behind us.

        Raises:
            CancelledError: if nobody waits for the run any more.
        """
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + POLL
        if not _going(self._place.parent).exists():
            raise CancelledError
        # Renamed, so that it is never read half written. It need not outlive a crash.
        beside = self._place.with_suffix(".part")
        beside.write_text(json.dumps([part, done, total]), encoding="utf-8")
        beside.replace(self._place)


def _moved(task: Task, place: Path) -> Moved | None:
    """How far a run is, if it is at work."""
    try:
        part, done, total = json.loads(place.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Moved(task, part, done, total)


def _last_lines(future: Future[None], place: Path) -> tuple[str, ...]:
    """What a failed run said last, or what is known if it could say nothing; nothing of one that came to its end."""
    error = CancelledError() if future.cancelled() else future.exception()
    if error is None:
        return ()
    if _said(place).exists():
        lines = _said(place).read_text(encoding="utf-8").splitlines()
    else:
        how = "was killed, perhaps for want of memory, or crashed" if isinstance(error, BrokenExecutor) else "is gone"
        lines = f"{type(error).__name__}: {error}".splitlines()
        lines.append(f"Its worker {how}. Call the same command again: the run goes on from its last checkpoint.")
    return tuple(lines[-LAST_LINES:])


def _going(shared: Path) -> Path:
    """The file that is there as long as the sweep goes on."""
    return shared / "going"


def _said(place: Path) -> Path:
    """The file that holds what a failed run said."""
    return place.with_suffix(".txt")
