"""Arguments from dataclasses, by tyro; its boxed errors as one line."""

import contextlib
import io
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import tyro

from gnomon.errors import DataError

T = TypeVar("T")
MISSING_FIRST = "none for"
"""How an error about missing arguments begins: tyro then says nothing of others."""


def parse(target: Callable[..., T], arguments: Sequence[str], prog: str, description: str | None = None) -> T:
    """Calls `target` with the arguments; `--help` prints and exits as usual.

    Raises:
        DataError: one sentence, if the arguments are wrong.
    """
    stderr = io.StringIO()
    if is_dataclass(target):
        without_none(target)
    try:
        with contextlib.redirect_stderr(stderr):
            return tyro.cli(target, prog=prog, args=list(arguments), description=description)
    except SystemExit as stop:
        if not stop.code:
            raise
        words = one_line(stderr.getvalue())
        if words.startswith(MISSING_FIRST) and is_dataclass(target):
            words += mistyped(target, arguments)
        raise DataError(None, "valid arguments", words, f"See `{prog} --help`.", where=prog) from None


def without_none(options: type) -> type:
    """The type of options, whose help does not show None, False and empty tuples as values."""
    hints = get_type_hints(options)
    for field in fields(options):
        if field.default is None:
            kinds = (kind for kind in get_args(hints[field.name]) if kind is not NoneType)
            shown = tyro.conf.arg(help_behavior_hint="", metavar="|".join(map(_metavar, kinds)))
            options.__annotations__[field.name] = Annotated[field.type, shown]
        elif field.default is False or (field.default in ((), MISSING) and get_origin(hints[field.name]) is tuple):
            options.__annotations__[field.name] = Annotated[field.type, tyro.conf.arg(help_behavior_hint="")]
    return options


def _metavar(kind: type) -> str:
    """The placeholder for a value of this type, as tyro writes it."""
    return f"{{{','.join(get_args(kind))}}}" if get_origin(kind) is Literal else kind.__name__.upper()


def mistyped(options: Any, arguments: Sequence[str]) -> str:  # noqa: ANN401 - a dataclass
    """Which option is meant by one that there is not."""
    known = [f"--{field.name.replace('_', '-')}" for field in fields(options)]
    given = (argument.partition("=")[0] for argument in arguments if argument.startswith("--"))
    near = ((name, get_close_matches(name, known, 1)) for name in given if name not in known)
    return "".join(f" For {name}, did you mean {found[0]}?" for name, found in near if found)


def one_line(box: str) -> str:
    """What tyro says in its box, up to the first rule, and the option that it suggests."""
    lines = [line.strip(" │") for line in box.splitlines() if not line.startswith(("╭", "╰"))]
    if "╭" not in box:  # where the terminal has no characters to draw it with, its title is above a rule
        lines = lines[2:]
    rule = next((place for place, line in enumerate(lines) if line.startswith(("──", "-" * 20))), len(lines))
    words = " ".join(" ".join(lines[:rule]).split()).rstrip(".") + "."
    if words.startswith("Missing from"):  # and what the option means, run together
        words = f"{MISSING_FIRST} {', '.join(re.findall(r'(?<= )--[a-z-]+|(?<=: )[A-Z]+', words))}."
    for line, below in itertools.pairwise(lines):
        if line.startswith("Perhaps you meant") and below:
            words += f" Did you mean {below.split()[0]}?"
    return words
