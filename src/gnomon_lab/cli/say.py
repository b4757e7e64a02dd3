"""What the command line prints: lines in which every name is printed as it is, and nothing controls the terminal."""

import contextlib
import io
import os
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from gnomon_lab.cli.terminal import Terminal


def plain(words: str) -> str:
    r"""The words on one line: unprintable characters are written out, such as `\x1b` for an escape."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in words)


def say(line: str, terminal: "Terminal | None" = None, *, style: str = "") -> None:
    """Prints one line as it is, on stdout or on the given terminal, there in one of rich's styles such as red."""
    if terminal is None:
        print(plain(line))
    else:
        terminal.print(plain(line), style=style or None, soft_wrap=True)


def say_below(first: str, *others: str) -> None:
    """Prints a line on stdout, and below it the others, indented."""
    say(first)
    for line in others:
        say(f"    {line}")


@contextlib.contextmanager
def warnings_said(console: "Terminal") -> Iterator[None]:
    """Prints each of gnomon's warnings inside as one line, and only once."""
    with warnings.catch_warnings():
        warnings.simplefilter("default", RuntimeWarning)
        warnings.filterwarnings("default", "Probe: ", UserWarning)
        warnings.showwarning = lambda message, *rest: say(str(message), console)
        yield


def take_any_letter() -> None:
    r"""Writes out characters that the terminal's encoding lacks, such as `\u2026`, where Python would raise.

    If stdout is closed, what is printed is lost: Python has None there, and tyro asks it for its encoding.
    """
    if sys.stdout is None:
        sys.stdout = io.StringIO()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write_nowhere(*streams: TextIO | None) -> None:
    """Discards what is still to be written: nobody reads it, and Python would raise once more when it exits."""
    for stream in filter(None, streams):
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except io.UnsupportedOperation:  # there is no file behind it
            continue
