"""Tables of numbers on a terminal of any width."""

import re
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table

GAP = EDGES = 2
"""Characters between two columns of a table, and at both of its edges together."""
WIDE = 1000
"""A width, in columns of the screen, that holds any table."""
TALL = 4
"""Lines per row, the header being one, above which parts without wrapping are better than a table of wrapped words."""


def laid_out(columns: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> RenderableType:
    """The table in a form that fits: as it is, words wrapped, transposed, or in parts that repeat the rows' names.

    No number and no name is cut off, whatever the width.
    """
    table = tabled(columns, rows)
    if width(table, console).maximum > console.width:
        # All columns but the names wrap between words, and the names get the width that is left.
        for place, column in enumerate(columns):
            words = " ".join([column, *(row[place] for row in rows)]).split()
            table.columns[place].width = max(map(len, words)) if column else None
    parts = in_parts(columns, rows, console)
    if width(table, console).minimum > console.width:
        first, *others = zip(columns, *rows, strict=True)
        turned = tabled(first, others)
        return turned if width(turned, console).minimum <= console.width else Group(*parts)
    tall = len(console.render_lines(table)) > TALL * (len(rows) + 1)
    return Group(*parts) if tall and all(width(part, console).maximum <= console.width for part in parts) else table


def in_parts(columns: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> list[Table]:
    """Tables below each other, each with the first column and as many of the others as fit, at least one."""
    parts: list[Table] = []
    since = 1
    for end in range(2, len(columns) + 1):
        part = tabled(*taken(columns, rows, since, end))
        if end > since + 1 and width(part, console).maximum > console.width:
            since = end - 1
            parts.append(tabled(*taken(columns, rows, since, end)))
        else:
            parts[-1:] = [part]
    return parts


def taken(
    columns: Sequence[str], rows: Sequence[Sequence[str]], since: int, end: int
) -> tuple[list[str], list[list[str]]]:
    """The first column and those of a range."""
    return [columns[0], *columns[since:end]], [[row[0], *row[since:end]] for row in rows]


def tabled(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """The table at its natural width; the column without a name holds the names of the rows."""
    table = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column else "left")
    for row in rows:
        table.add_row(*row)
    return table


def width(table: Table, console: Console) -> Measurement:
    """The smallest and the largest width of the table, in columns of the screen."""
    return Measurement.get(console, console.options.update(width=WIDE), table)


def folded(name: str, room: int) -> str:
    """A name on as many lines as it takes, where possible broken behind an underscore."""
    room = max(room, 1)
    return "\n".join(re.findall(rf".{{1,{room}}}$|.{{0,{room - 1}}}_|.{{1,{room}}}", name))
