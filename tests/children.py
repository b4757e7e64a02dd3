"""Code in a process of its own, forked from one that has imported torch and gnomon, which takes seconds."""

import ctypes
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

FORKED = get_context("forkserver")
FORKED.set_forkserver_preload(["torch._dynamo", "torch.distributed.fsdp", "sklearn.datasets", "gnomon_lab.report"])
M_MMAP_THRESHOLD = -3


def child(work, *arguments, seconds=120):
    """Its exit code and what it said; `work` is a function that another process can import."""
    with started(work, *arguments) as (process, said):
        process.join(seconds)
        process.kill()
        process.join()
        return subprocess.CompletedProcess(arguments, process.exitcode, *said())


@contextmanager
def started(work, *arguments):
    """The process while it works, which ends with the context, and a function: what it said so far."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("out", "err")]
        process = FORKED.Process(target=_quietly, args=(paths, work, arguments))
        process.start()
        try:
            yield process, lambda: [path.read_text() for path in paths]
        finally:
            process.kill()
            process.join()


def printed(code, *arguments):
    """What a program prints, as one of `python -c`; its blocks above 64 KiB go back to the system when they are freed,
    so that the peak of its memory is that of living tensors.
    """
    done = child(_program, code, arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _program(code, arguments):
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 65536)
    sys.argv = ["-c", *map(str, arguments)]
    exec(compile(code, "program", "exec"), {"__name__": "__main__"})


def _quietly(said, work, arguments):
    for number, path in enumerate(said, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    work(*arguments)
