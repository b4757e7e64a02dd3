"""Every error that gnomon raises on purpose; each says `where(argument): expected X, got Y. Do Z.`."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class GnomonError(Exception):
    """The base class of all gnomon errors: `except GnomonError` catches whatever gnomon found wrong.

    Attributes:
        argument: the argument it is about; None if that is all arguments together.
        expected: what would be right.
        got: what there is; None if `expected` already says it.
        advice: what to do; `{where}` in it becomes the name of the function.
        where: the public function that was called, which adds its name: inner ones do not know it.
    """

    def __init__(
        self, argument: object, expected: object, got: object, advice: str = "", *, where: str | None = None
    ) -> None:
        super().__init__(argument, expected, got, advice)
        self.argument = None if argument is None else str(argument)
        self.expected = str(expected)
        self.got = None if got is None else str(got)
        self.advice = advice
        self.where = where

    def __str__(self) -> str:
        place = (self.where or "gnomon") + ("" if self.argument is None else f"({self.argument})")
        sentence = f"{place}: expected {self.expected}"
        if self.got is not None:
            sentence += ", got" + self.got if self.got.startswith("\n") else f", got {self.got}"
        end = "" if sentence.endswith((".", "?")) else "."
        return f"{sentence}{end} {self.advice}".rstrip()


class ShapeError(GnomonError, ValueError):
    """A tensor has the wrong shape, or two tensors disagree."""


class EmptyError(GnomonError, ValueError):
    """There is nothing to measure: no samples, no records, no quantities."""


class RangeError(GnomonError, ValueError):
    """A number lies outside the range in which the result has a meaning; this includes NaN and infinity."""


class ArgumentTypeError(GnomonError, TypeError):
    """An argument is of a type that the function does not accept."""


class DataError(GnomonError):
    """A data set, a records file or a configuration cannot be read as what it should be."""


class UnsupportedModuleError(GnomonError):
    """The network has a part for which the quantity is not defined or not computable."""


class ConvergenceError(GnomonError):
    """An iteration ended without reaching its tolerance."""


class CheckpointError(GnomonError):
    """A checkpoint is missing, damaged or of another run."""


class MissingExtraError(GnomonError, ImportError):
    """An optional package is missing or broken; the message names the extra and, if broken, the cause.

    Args:
        package: what is imported.
        extra: the extra that installs it.
        cause: what importing it raised; None if it is not installed.
    """

    def __init__(self, package: str, extra: str, cause: str | None = None, *, where: str | None = None) -> None:
        # From the sources, since no package index has gnomon.
        advice = f"pip install '.[{extra}]' in the folder of gnomon's sources"
        super().__init__(None, package, cause, "Install it again." if cause else advice, where=where)
        self.args = (package, extra, cause)

    def __str__(self) -> str:
        if self.got is None:
            return f"{self.where} needs {self.expected}: {self.advice}."
        return f"{self.where} needs {self.expected}, which is installed but does not import ({self.got}). {self.advice}"


@contextmanager
def within(where: str) -> Iterator[None]:
    """Adds the function's name to errors that are raised inside without one."""
    try:
        yield
    except GnomonError as error:
        if error.where is None:
            error.where = where
            error.advice = error.advice.replace("{where}", where)
        raise


def public(function: Callable[P, R]) -> Callable[P, R]:
    """The function, named in the errors that are raised inside without a name; a constructor is named by its class."""
    return within(re.sub(r"\.__\w+__$", "", function.__qualname__))(function)
