"""Readings and histories in a notebook: one self-contained table, for light and dark mode."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from gnomon._words import number
from gnomon.probe._table import Course, TableRow, heights, rows_by_quantity, span

if TYPE_CHECKING:
    from gnomon.probe._history import History

WIDE, HIGH, EDGE = 120, 26, 3
"""The size of a course, in pixels, and the margin around it."""
STYLE = """
.gnomon-table{--ink:#1f2933;--muted:#5b6875;--grid:#e3e7ec;--page:#fff;--line:#0072b2;color-scheme:light dark;
background:var(--page);color:var(--ink);font:13px/1.4 system-ui,sans-serif;padding:8px 10px;overflow-x:auto}
@media(prefers-color-scheme:dark){.gnomon-table{--ink:#e6e9ed;--muted:#9aa5b1;--grid:#38424d;--page:#16191d;
--line:#56b4e9}}
.gnomon-table.gnomon-table table{border-collapse:collapse;margin:0;border:0;font-size:inherit;color:inherit}
.gnomon-table.gnomon-table caption{caption-side:top;text-align:left;font-weight:600;padding:0 8px 6px 0;color:inherit}
.gnomon-table.gnomon-table tr.gnomon-row{background:none}
.gnomon-table.gnomon-table th,.gnomon-table.gnomon-table td{text-align:left;vertical-align:top;padding:3px 14px 3px 0;
border:0;border-top:1px solid var(--grid);white-space:nowrap;max-width:none;background:none;color:inherit}
.gnomon-table.gnomon-table th{font-weight:400;color:var(--muted);border-top:0}
.gnomon-table.gnomon-table td.gnomon-more{border-top:0}
.gnomon-table.gnomon-table td.gnomon-sentence{white-space:normal;min-width:14em;max-width:30em;color:var(--muted)}
.gnomon-table.gnomon-table td.gnomon-number{text-align:right;font-variant-numeric:tabular-nums}
.gnomon-table i{font-style:normal;color:var(--muted)}
.gnomon-table svg{display:block;max-width:none}
.gnomon-table polyline{fill:none;stroke:var(--line);stroke-width:1.6;stroke-linejoin:round;stroke-linecap:round}
.gnomon-table circle{fill:var(--line)}
"""


@dataclass(frozen=True)
class Columns:
    """What is shown of each history.

    Attributes:
        middle: whether the middle half of the samples is shown, for which several histories leave no room.
        course: whether the course is shown, which a single reading does not have.
    """

    middle: bool
    course: bool

    @property
    def heads(self) -> list[str]:
        """The column headings."""
        return [
            "last mean" if self.course else "mean",
            *(["middle half"] if self.middle else []),
            *(["course"] if self.course else []),
        ]


def table(title: str, histories: Mapping[str, "History"]) -> str:
    """The table as HTML, with all names and sentences escaped."""
    groups = rows_by_quantity(histories)
    columns = Columns(len(histories) < 2, any(len(history) > 1 for history in histories.values()))
    above = "".join(f'<th colspan="{len(columns.heads)}">{escape(name)}</th>' for name in histories if name)
    over = f'<tr class="gnomon-row"><th></th>{above}<th colspan="2"></th></tr>' if above else ""
    words = ["quantity", *columns.heads * len(histories), "what it is", "range, unit"]
    head = f'{over}<tr class="gnomon-row">{"".join(f"<th>{word}</th>" for word in words)}</tr>'
    body = "".join(line for group in groups for line in lines(group, columns))
    inner = f"<thead>{head}</thead><tbody>{body}</tbody>" if groups else ""
    return (
        f'<div class="gnomon-table"><style>{STYLE}</style>'
        f"<table><caption>{escape(title)}</caption>{inner}</table></div>"
    )


def lines(group: list[TableRow], columns: Columns) -> list[str]:
    """The rows of one quantity; what it says about itself is there once."""
    found = []
    for place, row in enumerate(group):
        more = " gnomon-more" if place else ""
        name = f'<td class="{more}"><i>{escape(row.prefix)}</i>{escape(row.name)}</td>'
        numbers = "".join(cells(one, row, columns, more) for one in row.courses)
        found.append(f'<tr class="gnomon-row">{name}{numbers}{"" if place else about(row, len(group))}</tr>')
    return found


def about(row: TableRow, height: int) -> str:
    """What the quantity says about itself, next to all its rows."""
    beside = f"{escape(row.about.range)} <i>{escape(row.about.unit)}</i>"
    sentence = f'<td class="gnomon-sentence" rowspan="{height}">{escape(row.about.sentence)}</td>'
    return f'{sentence}<td rowspan="{height}">{beside}</td>'


def cells(one: Course | None, row: TableRow, columns: Columns, more: str) -> str:
    """The last mean, the middle half and the course in one history; empty if it does not have the quantity."""
    last = "" if one is None else one.in_words
    middle = "" if one is None or one.middle is None else " to ".join(map(number, one.middle))
    course = "" if one is None or not columns.course else line(one, row)
    return (
        f'<td class="gnomon-number{more}">{last}</td>'
        + (f'<td class="{more}">{middle}</td>' if columns.middle else "")
        + (f'<td class="{more}">{course}</td>' if columns.course else "")
    )


def line(one: Course, row: TableRow) -> str:
    """The course as a line, no finer than half a pixel; a reading without neighbours is a dot, and so is the last."""
    low, high, log = span(row)
    found = heights(one.means, low, high, log=log)
    places = [
        (EDGE + WIDE * round(2 * WIDE * x) / (2 * WIDE), EDGE + HIGH * (1 - y))
        for x, y in zip(one.places, found, strict=True)
    ]
    parts = [[*part] for known, part in groupby(places, key=lambda place: math.isfinite(place[1])) if known]
    drawn = "".join(polyline(list(dict(part).items())) for part in parts)
    words = escape(f"{row.prefix}{row.name}: {number(low)} to {number(high)}")
    width, height = WIDE + 2 * EDGE, HIGH + 2 * EDGE
    return (
        f'<svg role="img" width="{width}" height="{height}" viewBox="0 0 {width} {height}" aria-label="{words}">'
        f"<title>{words}</title>{drawn}</svg>"
    )


def polyline(places: list[tuple[float, float]]) -> str:
    """A line through these places, and its end."""
    x, y = places[-1]
    along = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline points="{along}"/><circle cx="{x:.1f}" cy="{y:.1f}" r="2.2"/>'
