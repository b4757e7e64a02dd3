"""Arguments from dataclasses, by tyro; its boxed errors as one line."""

import contextlib
import io
import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

import tyro

from gnomon.errors import DataError

T = TypeVar("T")


def parse(target: Callable[..., T], arguments: Sequence[str], prog: str, description: str | None = None) -> T:
    """Calls `target` with the arguments; `--help` prints and exits as usual.

    Raises:
        DataError: one sentence, if the arguments are wrong.
    """
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.cli(target, prog=prog, args=list(arguments), description=description)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise DataError(
            None, "other arguments", one_line(said.getvalue()), f"See `{prog} --help`.", where=prog
        ) from None


def one_line(box: str) -> str:
    """What tyro says in its box, up to the first rule, and the option that it suggests."""
    lines = [line.strip(" │") for line in box.splitlines() if not line.startswith(("╭", "╰"))]
    if "╭" not in box:  # where the terminal has no characters to draw it with, its title is above a rule
        lines = lines[2:]
    rule = next((place for place, line in enumerate(lines) if line.startswith(("──", "-" * 20))), len(lines))
    words = " ".join(" ".join(lines[:rule]).split()).rstrip(".") + "."
    for line, below in itertools.pairwise(lines):
        if line.startswith("Perhaps you meant") and below:
            words += f" Did you mean {below.split()[0]}?"
    return words
