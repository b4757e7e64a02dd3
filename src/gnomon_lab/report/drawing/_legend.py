"""The legend above a figure: how wide an entry is, how many are side by side, how high it gets. Pure."""

import math
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

ROW = 22
"""The height of a row (pixels)."""


@runtime_checkable
class Mark(Protocol):
    """What the legend explains: points, lines or faces of one kind."""

    @property
    def label(self) -> str:
        """What they are."""

    @property
    def colour(self) -> int:
        """Their place in the palette."""


Kind = TypeVar("Kind", bound=Mark)


def key(mark: Mark) -> tuple[type, str, int]:
    """What all marks of one entry share."""
    return type(mark), mark.label, mark.colour


def kinds(marks: Iterable[Kind]) -> tuple[Kind, ...]:
    """The first mark of each entry."""
    first: dict[tuple[type, str, int], Kind] = {}
    for mark in marks:
        first.setdefault(key(mark), mark)
    return tuple(first.values())


def entry_px(labels: Sequence[str]) -> int:
    """The width to reserve for the longest entry (pixels)."""
    return 62 + 7 * max((len(label) for label in labels), default=0)


def columns(labels: Sequence[str], width: int) -> int:
    """How many entries to set side by side in `width` pixels, with rows as even as possible."""
    entries = max(1, len(labels))
    fit = max(1, min(entries, width // entry_px(labels)))
    return math.ceil(entries / math.ceil(entries / fit))


def height(labels: Sequence[str], width: int) -> int:
    """The height of a legend `width` pixels wide, with room below; a legend without entries has one empty row."""
    return -(-max(1, len(labels)) // columns(labels, width)) * ROW + 8
