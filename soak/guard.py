"""Keeps a process of the soak to its folder: no network, no file opened for writing or removed elsewhere."""

import os
import resource
import sys
from pathlib import Path

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


def guard(folder: Path) -> None:
    """From here on, for good: OSError for what lies outside, and for more memory or disk than a case may need."""
    resource.setrlimit(resource.RLIMIT_AS, (6 * GIB, 6 * GIB))
    resource.setrlimit(resource.RLIMIT_FSIZE, (GIB // 4, GIB // 4))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    allowed = (f"{folder.resolve()}/", *DEVICES)

    def outside(path: object) -> bool:
        if not isinstance(path, str | bytes | os.PathLike):
            return False  # a file that was opened before
        return not os.path.realpath(os.fsdecode(path)).startswith(allowed)

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event in NETWORK and not local(arguments):
            raise OSError(f"the soak allows no network: {event}")
        if (
            event == "open"
            and isinstance(arguments[2], int)
            and arguments[2] & OPENED_TO_WRITE
            and outside(arguments[0])
        ):
            raise PermissionError(f"the soak writes only into its folder: {arguments[0]!r}")
        paths, base = CHANGES.get(event, (0, None))
        relative = base is not None and paths and arguments[base] != -1  # to a folder that was opened, as rmtree does
        if not relative and any(map(outside, arguments[:paths])):
            raise PermissionError(f"the soak changes only its folder: {event} {arguments[:2]!r}")

    sys.addaudithook(watch)


def local(arguments: tuple[object, ...]) -> bool:
    """Whether a socket is one of this machine's own files."""
    return len(arguments) == 2 and isinstance(arguments[1], str | bytes)
