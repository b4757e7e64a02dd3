"""Readings and histories in a terminal."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnomon._words import number
from gnomon.probe._table import Course, TableRow, heights, rows_by_quantity, span

if TYPE_CHECKING:
    from gnomon.probe._history import History

BLOCKS = "▁▂▃▄▅▆▇█"
WIDTH = 24
"""Characters in a course."""


def in_words(title: str, histories: Mapping[str, "History"]) -> str:
    """One line per quantity: its last mean, the middle half of the samples, its course, its range and its unit."""
    courses = any(len(history) > 1 for history in histories.values())
    lines = [
        [f"{row.prefix}{row.name}", *columns(name, one, row, courses=courses), range_and_unit(row)]
        for group in rows_by_quantity(histories)
        for row in group
        for name, one in zip(histories, row.courses, strict=True)
        if one is not None
    ]
    heads = ["quantity", *(["run"] if any(histories) else []), "mean", "middle half"]
    table = [[*heads, *(["course"] if courses else []), "range, unit"], *lines]
    widths = [max(len(line[place]) for line in table) for place in range(len(table[0]))]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
    return "\n".join([title, *(shown if lines else [])])


def columns(run: str, one: Course, row: TableRow, *, courses: bool) -> list[str]:
    """The columns between the quantity's name and its range and unit."""
    middle = "" if one.middle is None else " to ".join(map(number, one.middle))
    named, line = [run] if run else [], [in_blocks(one, row)] if courses else []
    return [*named, one.in_words, middle, *line]


def range_and_unit(row: TableRow) -> str:
    """Range and unit."""
    return ", ".join(filter(None, (row.about.range, row.about.unit)))


def in_blocks(one: Course, row: TableRow) -> str:
    """The course as blocks from low to high; a space where there is none.

    A character stands for one of the steps at which any of the histories has the quantity, or for several. Where this
    one has no reading there, it is that of the reading before.
    """
    low, high, log = span(row)
    steps = sorted({step for course in row.courses if course for step in course.steps})
    width = min(WIDTH, len(steps))
    places = {step: round(place * (width - 1) / max(1, len(steps) - 1)) for place, step in enumerate(steps)}
    own = [places[step] for step in one.steps]
    letters = [" "] * width
    for place, after, height in zip(own, [*own[1:], 0], heights(one.means, low, high, log=log), strict=True):
        if math.isfinite(height):
            end = max(place + 1, after)
            letters[place:end] = BLOCKS[round(height * (len(BLOCKS) - 1))] * (end - place)
    return "".join(letters)
