"""Children of a worker: what a case kills is one of these."""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

POLL = 0.001


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit code, or minus the signal; None if it hung. And what it said."""

    code: int | None
    out: str
    err: str


def forked(work: Callable[[], object], seconds: float = 60.0, kill_after: float | None = None) -> Ended:
    """Calls `work` in a child, in the current folder; it may be killed after so many seconds."""
    said = (Path("out").absolute(), Path("err").absolute())
    pid = os.fork()
    if pid == 0:
        child(work, said)
    begun, killed, status = time.monotonic(), False, None
    while status is None:
        ended, code = os.waitpid(pid, os.WNOHANG)
        if ended:
            status = os.waitstatus_to_exitcode(code)
            break
        passed = time.monotonic() - begun
        if passed > seconds or (kill_after is not None and passed > kill_after and not killed):
            os.kill(pid, signal.SIGKILL)
            killed = passed <= seconds
            if not killed:
                os.waitpid(pid, 0)
                break
        time.sleep(POLL)
    texts = (path.read_text(errors="replace") if path.exists() else "" for path in said)
    return Ended(status, *texts)


def child(work: Callable[[], object], said: tuple[Path, Path]) -> None:
    """In the child: never returns."""
    code: object = 0
    try:
        for number, path in enumerate(said, 1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdout, sys.stderr = (open(number, "w", closefd=False, errors="replace") for number in (1, 2))  # noqa: SIM115
        work()
    except SystemExit as ending:
        code = 0 if ending.code is None else ending.code
    except BaseException:  # noqa: BLE001 - whatever it is, it is what the case shows
        traceback.print_exc()
        code = 70
    for file in (sys.stdout, sys.stderr):
        file.flush()
    os._exit(code if isinstance(code, int) else 70)
