"""Keeps a process of the soak to its folder: no network, no file opened for writing or removed elsewhere."""

import os
import resource
import sys
from os import open as os_open
from os import write as os_write  # as they are: soak.faults changes those of `os`
from pathlib import Path
from typing import NoReturn

GIB = 2**30
OPENED_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
DEVICES = ("/dev/null", "/dev/tty", "/proc/")
NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "webbrowser.open")
CHANGES = {
    "os.remove": (1, 1),
    "os.rename": (2, 2),
    "os.link": (2, 2),
    "os.rmdir": (1, 1),
    "os.mkdir": (1, 2),
    "os.chmod": (1, 2),
    "os.truncate": (1, None),
}
"""Events: how many of their arguments are paths, and which is the folder that these are relative to, if any."""


HELD: dict[str, str] = {}
"""The folder that this process is kept to, and the file that gets a line for each try to leave it."""


def guard(folder: Path, noted: Path) -> None:
    """From here on, for good: OSError for what lies outside, and for more memory or disk than a case may need.

    Whoever catches the error is found out by `violations`. A second call names another folder.
    """
    resource.setrlimit(resource.RLIMIT_AS, (6 * GIB, 6 * GIB))
    resource.setrlimit(resource.RLIMIT_FSIZE, (GIB // 4, GIB // 4))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    first = not HELD
    HELD.update(SOAK_FOLDER=f"{folder.resolve()}/", SOAK_NOTED=str(noted.resolve()))
    if first:
        sys.addaudithook(watch)


def guard_again() -> None:
    """In a process that was started with `environment`; the limits of memory and disk are inherited."""
    if "SOAK_FOLDER" in os.environ:
        HELD.update((name, os.environ[name]) for name in ("SOAK_FOLDER", "SOAK_NOTED"))
        sys.addaudithook(watch)


def environment() -> dict[str, str]:
    """For another Python: it finds all that this one finds, and is guarded as this one is."""
    here = Path(__file__).parent
    paths = [str(here / "children"), str(here.parent), *sys.path]
    return {**os.environ, **HELD, "PYTHONPATH": os.pathsep.join(paths)}


def violations() -> str:
    """What was tried outside the folder since the last call."""
    path = Path(HELD.get("SOAK_NOTED", "nothing is guarded"))
    if not path.exists():
        return ""
    said = path.read_text(encoding="utf-8", errors="replace")
    path.unlink()
    return said


def watch(event: str, arguments: tuple[object, ...]) -> None:
    """Called by Python before each event; raises for what is not allowed, and notes it."""
    if event in NETWORK and not local(arguments):
        refuse(f"the soak allows no network: {event} {arguments!r}")
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & OPENED_TO_WRITE and outside(arguments[0]):
        refuse(f"the soak writes only into its folder: {arguments[0]!r}")
    paths, base = CHANGES.get(event, (0, None))
    relative = base is not None and paths and arguments[base] != -1  # to a folder that was opened, as rmtree does
    if not relative and any(map(outside, arguments[:paths])):
        refuse(f"the soak changes only its folder: {event} {arguments[:2]!r}")


def refuse(what: str) -> NoReturn:
    """Notes it and raises."""
    file = os_open(HELD["SOAK_NOTED"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os_write(file, ascii(what[:500]).encode() + b"\n")
    os.close(file)
    raise PermissionError(what)


def outside(path: object) -> bool:
    """Whether a path is one of others."""
    if not isinstance(path, str | bytes | os.PathLike):
        return False  # a file that was opened before
    return not f"{os.path.realpath(os.fsdecode(path))}/".startswith((HELD["SOAK_FOLDER"], *DEVICES))


def local(arguments: tuple[object, ...]) -> bool:
    """Whether a socket is one of this machine's own files."""
    return len(arguments) == 2 and isinstance(arguments[1], str | bytes)
