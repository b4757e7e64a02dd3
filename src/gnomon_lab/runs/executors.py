"""Where a sweep's runs are executed: processes on this machine, a dask cluster, or Slurm, each as an Executor."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar, cast

from gnomon._extras import extra
from gnomon.errors import DataError

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
SLURM = ("slurm", "slurm:local")
DASK = "dask://"
POLL = 0.2
"""Seconds between two checks of a call that runs elsewhere."""
IMPORTED = ["torch._dynamo", "sklearn.datasets", "gnomon_lab.report"]
"""torch's optimizers import the first, gnomon.data.digits the second; each imports torch or takes a second itself."""
SECONDS_TO_ANSWER = 10
"""The time that a dask scheduler has to answer."""
DAY = 24 * 60
"""Minutes that are requested from Slurm, unless the environment variable SBATCH_TIMELIMIT says otherwise."""
MOST_JOBS = 1000
"""Jobs at a time on Slurm, which has its own queue."""


@contextmanager
def open_executor(on: str | None, workers: int | None, threads: int, logs: Path) -> Iterator[Executor]:
    """The executor that `--on` and `--workers` name; what it starts ends with it.

    Args:
        on: None for processes on this machine, `dask://HOST:PORT`, `slurm`, or `slurm:local`, which is submitit's
            stand-in for Slurm on this machine.
        workers: runs at a time; default: one on this machine, all on Slurm. A dask cluster has its own workers.
        threads: CPU threads per run.
        logs: the folder for the output of Slurm's jobs.

    Raises:
        DataError: if the options make no sense, or there is no such cluster.
        MissingExtraError: if the extra `dask` or `slurm` is not installed, or broken.
    """
    require_place(on, workers, threads)
    if on is None:
        with Watched(workers or 1, OwnProcess) as executor:
            yield executor
    elif on in SLURM:
        with slurm(on.removeprefix("slurm:"), workers or MOST_JOBS, threads, logs) as executor:
            yield executor
    else:
        with dask(on.removeprefix(DASK)) as executor:
            yield executor


def require_place(on: str | None, workers: int | None, threads: int) -> None:
    """Raises DataError if `--on` and `--workers` make no sense, as far as can be seen before any work is submitted.

    With more workers than there are cores for their threads, each run takes many times as long.
    """
    if workers is not None and workers < 1:
        raise DataError("--workers", "at least 1", workers, "Correct it.")
    cores = os.cpu_count() or 1
    if on is None and workers is not None and workers > 1 and workers * threads > cores:
        raise DataError(
            "--workers",
            f"workers x threads of at most {cores}, the processor cores",
            f"{workers} x {threads}",
            "Ask for fewer.",
        )
    if on is None or on in SLURM:
        return
    if not on.startswith(DASK):
        raise DataError("--on", "dask://HOST:PORT, slurm or slurm:local", repr(on), "Correct it.")
    if workers is not None:
        raise DataError(
            "--workers",
            f"none with --on {on}",
            workers,
            "Start one `dask worker` per concurrent run.",
        )
    host, _, port = on.removeprefix(DASK).rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or len(port) > 5 or int(port) > 65_535:
        raise DataError("--on", "dask://HOST:PORT", repr(on), "Give both.")


class Call(Protocol):
    """A call that runs elsewhere."""

    def done(self) -> bool:
        """Whether it has ended, successfully or not."""
        ...

    def result(self) -> object:
        """What it returned; raises what it raised."""
        ...

    def cancel(self) -> None:
        """Ends it."""
        ...


class Watched(ThreadPoolExecutor):
    """Calls that run elsewhere, some at a time, each watched by a thread; leaving the context ends those in progress.

    A call whose worker dies fails alone, whereas in a pool of processes it takes all the others with it.
    """

    def __init__(self, at_a_time: int, start: Callable[[Callable[[], object]], Call]) -> None:
        super().__init__(at_a_time)
        self._start = start
        self._ending = threading.Event()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Starts the call as soon as there is room for it."""
        return super().submit(self._watch, partial(fn, *args, **kwargs))

    def __exit__(self, *error: object) -> None:
        self._ending.set()
        self.shutdown(cancel_futures=True)

    def _watch(self, work: Callable[[], R]) -> R:
        call = self._start(work)
        while not call.done():
            if self._ending.wait(POLL):
                call.cancel()
                raise CancelledError
        return cast(R, call.result())


class OwnProcess:
    """A call in a new process, which ends with this one."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._pool = ProcessPoolExecutor(1, _processes(), _begin, (dict(os.environ),))
        _deafen()
        self._pid = self._pool.submit(os.getpid).result()
        self._future = self._pool.submit(work)

    def done(self) -> bool:
        """Whether it has ended, successfully or not."""
        return self._future.done()

    def result(self) -> object:
        """What it returned; raises what it raised, or BrokenProcessPool if the process died."""
        self._pool.shutdown()
        return self._future.result()

    def cancel(self) -> None:
        """Ends the process, which may be ended at any moment."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM)
        self._pool.shutdown()


def _processes() -> BaseContext:
    """On Linux, forked from a process that has imported what every run needs: a new process needs seconds for that."""
    if sys.platform != "linux":
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    return context


def _deafen() -> None:
    """Ctrl-C reaches every process of a terminal; those that this thread starts from now on leave it to us."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _begin(environment: dict[str, str]) -> None:
    """In a worker: makes it end with its parent, because nobody would wait for it once the parent was killed.

    Ctrl-C is left to the parent, and the environment is the parent's: the process that this one was forked from may be
    older.
    """
    _deafen()
    os.environ.clear()
    os.environ.update(environment)

    def follow() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


@contextmanager
def slurm(cluster: str, at_a_time: int, threads: int, logs: Path) -> Iterator[Executor]:
    """Each call as a Slurm job, or as one of submitit's stand-in for Slurm if the cluster is `local`."""
    submitit = extra("run(--on)", "submitit", "slurm")
    try:
        jobs = submitit.AutoExecutor(logs / "%j", cluster)
    except RuntimeError as error:
        raise DataError(
            "--on",
            "a machine that can submit to Slurm",
            f"none ({error})",
            "Log in to the cluster's, or try --on slurm:local.",
        ) from error
    jobs.update_parameters(name="gnomon", timeout_min=DAY, cpus_per_task=threads)
    one_by_one = threading.Lock()

    def start(work: Callable[[], object]) -> Call:
        _deafen()
        with one_by_one:
            return jobs.submit(work)

    with Watched(at_a_time, start) as executor:
        yield executor


@contextmanager
def dask(address: str) -> Iterator[Executor]:
    """The executor of a dask cluster, whose scheduler and workers are not ours and keep running."""
    distributed = extra("run(--on)", "distributed", "dask")
    host, _, port = address.rpartition(":")
    try:
        # First, since a client without a scheduler may wait endlessly for its own loop when it is garbage-collected.
        socket.create_connection((host, int(port)), SECONDS_TO_ANSWER).close()
        client = distributed.Client(f"tcp://{address}", timeout=SECONDS_TO_ANSWER, set_as_default=False)
    except OSError as error:
        raise DataError(
            "--on", f"a dask scheduler at {address}", error, "Start `dask scheduler`, or correct it."
        ) from error
    with client:
        if not client.nthreads():
            raise DataError(
                "--on", f"dask workers at {address}", "none", f"Start `dask worker {address} --nthreads 1`."
            )
        yield client.get_executor(pure=False)
