"""`gnomon watch DIR`: follow runs and histories while they grow."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from gnomon.errors import DataError
from gnomon_lab.cli.outputs import refuse
from gnomon_lab.cli.parse import parse
from gnomon_lab.cli.say import say

if TYPE_CHECKING:
    from gnomon_lab.watching.folder import Watched


PAGE = Path("watch.html")
"""The page that --once writes unless --out names another."""


@dataclass(frozen=True)
class Options:
    """Follow runs and histories while they grow: a page, for this machine only, that draws each quantity's curve.

    Ctrl-C ends it. Training never waits for it: files are read, never locked.
    """

    path: tyro.conf.Positional[tuple[Path, ...]] = (Path("runs"),)
    """A run's folder, a folder of any number of runs or histories, or one file of readings."""
    only: tuple[str, ...] = ()
    """Draw only these quantities: names, or patterns such as 'test/*'."""
    port: int = 0
    """The port on 127.0.0.1 at which the page is served; 0: any free port."""
    open: tyro.conf.FlagCreatePairsOff[bool] = False
    """Open the page in the browser."""
    once: tyro.conf.FlagCreatePairsOff[bool] = False
    """Draw what is there now, and exit: into a page that needs no server or, with --terminal, here."""
    out: Path | None = None
    """The page that --once writes; default: watch.html."""
    terminal: tyro.conf.FlagCreatePairsOff[bool] = False
    """Draw the curves here; where there is no terminal, print the latest reading as a line now and then."""


def main(arguments: Sequence[str]) -> int:
    """Follows until Ctrl-C."""
    options = parse(Options, arguments, "gnomon watch")
    require_names(options.only)
    require_used(options)
    watched = checked(options)
    try:
        if options.terminal:
            from gnomon_lab.cli.terminal import Terminal
            from gnomon_lab.watching.terminal import follow

            if options.once and (why := watched.unmatched()):
                raise DataError("--only", "quantities that were read", why, "Correct it.")
            follow(watched, Terminal(), once=options.once)
        elif options.once:
            write(watched, options.out or PAGE)
        else:
            serve(watched, options)
    except KeyboardInterrupt:
        say("")
    return 0


def require_names(only: Sequence[str]) -> None:
    """Raises DataError if --only was given what belongs before it."""
    if paths := [name for name in only if os.access(name, os.F_OK)]:
        got = f"{paths[0]!r}, which is a file or folder"
        raise DataError("--only", "quantities", got, "Name the path first, before the options.")


def require_used(options: Options) -> None:
    """Raises DataError if an option would be ignored: some are for the page that is written, others for the server."""
    instead = "--terminal" if options.terminal else "--once" if options.once else None
    out = None if options.out is None else repr(str(options.out))
    if instead is None and out is not None:
        raise DataError("--out", "none without --once", out, "Add --once.")
    unused = {"out": options.terminal and out, "port": options.port, "open": options.open}
    for name, value in unused.items():
        if instead is not None and value:
            got = None if value is True else value
            raise DataError(f"--{name}", f"none beside {instead}", got, f"Leave out --{name} or {instead}.")


def checked(options: Options) -> "Watched":
    """What is to be watched.

    Raises:
        DataError: if there is no such folder or file, or several, or the file holds no readings; if the port is
            invalid; or if the page would overwrite readings or a run's file.
    """
    from gnomon_lab.watching.folder import Watched

    if len(options.path) != 1:
        advice = "Put them into one folder, and name that."
        raise DataError("DIR", "one folder, or one file of readings", f"{len(options.path)} paths", advice)
    (path,) = options.path
    if not (path.is_dir() or path.is_file()):
        got = f"{str(path)!r}, which is {'neither' if path.exists() else 'not there'}"
        raise DataError("DIR", "a folder, or a file of readings", got, "Name one; runs in it may come later.")
    if not 0 <= options.port < 1 << 16:
        raise DataError("--port", "a port, 0 to 65535", options.port, "Leave it out for a free one.")
    watched = Watched(path, options.only)
    if path.is_file() or options.once:
        watched.look()
    if options.once and not options.terminal:
        refuse({"out": options.out or PAGE}, watched.files)
    if path.is_file() and (left_out := watched.left_out()):
        raise DataError("DIR", "a file with one reading per line", left_out[0], "Name a run's records.jsonl.")
    return watched


def write(watched: "Watched", path: Path) -> None:
    """Writes the page with all its numbers."""
    from gnomon_lab.runs.files import replace_text
    from gnomon_lab.watching.answer import answer
    from gnomon_lab.watching.page import page

    replace_text(path, page(watched.path, answer(watched, seconds=float("inf"))))
    say(str(path))
    if why := watched.unmatched():
        raise DataError("--only", "quantities that were read", why, f"Correct it; {path} has no curves.")
    if not any(curve.curves.names for curve in watched.curves()):
        for sentence in watched.left_out() or [f"no readings in {watched.path} yet"]:
            say(sentence)


def serve(watched: "Watched", options: Options) -> None:
    """Serves the page.

    Raises:
        DataError: if the port is taken.
    """
    from gnomon_lab.watching.server import Server

    try:
        server = Server(watched, options.port)
    except OSError as error:
        raise DataError("--port", "a free port", f"{options.port}: {error.strerror}", "Leave it out.") from error
    with server:
        say(f"{server.url} follows {watched.path}; Ctrl-C ends it.")
        sys.stdout.flush()
        if options.open:
            import webbrowser

            webbrowser.open(server.url)
        server.serve_forever()
