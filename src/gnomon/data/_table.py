"""The table of a split of images before they are decoded, wherever it comes from."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gnomon.errors import DataError


class Table(NamedTuple):
    """A split before decoding: `batches(columns)` yields pyarrow record batches in the order of the rows.

    Attributes:
        files: the files from which they come; none for what the hub's own library keeps.
    """

    where: str
    rows: int
    columns: list[str]
    batches: Callable[[Sequence[str]], Iterator[Any]]
    files: tuple[Path, ...] = ()


def line(cause: Exception) -> str:
    """The first line of an error's message, without its full stop."""
    text = str(cause).strip() or type(cause).__name__
    return text.splitlines()[0].rstrip(".")


def no_split(folder: Path, split: str, splits: Iterable[str], missing: str) -> DataError:
    """The error for a split that is not in a folder, and what would have to be added for it."""
    advice = f"Choose one of them, or add {missing} to {str(folder)!r}."
    return DataError("split", f"one of {', '.join(splits)}", repr(split), advice)
