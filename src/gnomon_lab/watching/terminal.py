"""The curves on a terminal, redrawn again and again; where there is none, the latest reading as a line now and then."""

import math
import string
import time
from collections.abc import Iterable, Iterator

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gnomon._words import number, shortened
from gnomon_lab.runs import duration
from gnomon_lab.watching.braille import axis_of_steps, axis_of_values, drawn
from gnomon_lab.watching.curves import Numbers, Steps
from gnomon_lab.watching.folder import Curve, Watched

SECONDS, QUIET, BETWEEN_LINES = 4.0, 10.0, 10.0
COLOURS = ("bright_blue", "bright_red", "green", "magenta", "yellow", "cyan", "white")
MARKS = string.ascii_letters + string.digits
"""What stands at the end of each curve, and before the run's name, where there are no colours."""
NARROWEST, ROWS = 44, 6
"""The fewest characters across a chart, and the rows of its axes."""
LABEL = 10
"""The characters before a chart: those of a number, and a blank."""
POINTS = 400


def follow(watched: Watched, console: Console, *, once: bool = False) -> None:
    """Draws until Ctrl-C, or once."""
    whole = watched.look(math.inf if once else 1.0)
    if once:
        console.print(picture(watched, console, None))
    elif console.is_terminal:
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                live.update(picture(watched, console, console.height), refresh=True)
                whole = await_news(watched, whole=whole)
    else:
        for line in lines(watched):
            console.print(line, soft_wrap=True)


def await_news(watched: Watched, *, whole: bool) -> bool:
    """Waits until something is new, or so long that this should be said; returns whether all of it is read."""
    before, until = watched.version, time.monotonic() + QUIET
    while watched.version == before and time.monotonic() < until:
        time.sleep(SECONDS if whole else 0)
        whole = watched.look()
    return whole


def lines(watched: Watched) -> Iterator[str]:
    """The latest reading, now and whenever something was added since; or that none is as wanted; endless."""
    shown, said = 0, ""
    while True:
        news = [curve for curve in watched.curves() if curve.version > shown and curve.curves.names]
        shown = watched.version
        if news:
            latest = max(news, key=lambda curve: curve.version)
            others = f" (and {len(news) - 1} more)" if len(news) > 1 else ""
            yield f"{latest.label}: {_numbers(latest)}{others}"
        elif (why := watched.unmatched()) and why != said:
            said = why
            yield f"{watched.path}: {why}"
        time.sleep(BETWEEN_LINES)
        watched.look()


def picture(watched: Watched, console: Console, height: int | None) -> RenderableType:
    """The runs, and a chart for each quantity: all, or what fits in so many rows."""
    curves = [curve for curve in watched.curves() if len(curve.curves)]
    names = in_order(name for curve in curves for name in curve.curves.names)
    left_out = _left_out(watched, console)
    if not names and left_out and not watched.unmatched():
        return left_out
    if not names:
        return console.render_str(f"{watched.path}: {watched.unmatched() or 'no readings yet'}")
    abreast = max(1, min(len(names), console.width // NARROWEST))
    legend = [_of_run(curve, watched, console) for curve in curves]
    places = len(names)
    if height is not None:
        legend = _cut(legend, max(1, height // 4))
        places = max(1, (height - len(legend) - 2 - bool(left_out)) // (ROWS + 2)) * abreast
    thinned = [(curve, *curve.curves.thinned(POINTS)) for curve in curves]
    charts = [_chart(name, thinned, console, console.width // abreast - 1) for name in names[:places]]
    grid = Table.grid(padding=(0, 1, 0, 0))
    for first in range(0, len(charts), abreast):
        grid.add_row(*charts[first : first + abreast])
    more = f"{len(names) - places} more: enlarge the window, or name some with --only"
    below = [*([left_out] if left_out else []), *([Text(more)] if len(names) > places else [])]
    for row in below:
        row.stylize("dim")
    return Group(*legend, grid, *below)


def in_order(names: Iterable[str]) -> list[str]:
    """Each name once, in order of appearance, without quartiles; those that differ in split or layer alone together."""
    groups: dict[str, dict[str, None]] = {}
    for name in names:
        if not name.endswith((".q25", ".q75")):
            groups.setdefault(name.rpartition("/")[2], {})[name] = None
    return [name for group in groups.values() for name in group]


def _left_out(watched: Watched, console: Console) -> Text:
    """What is not drawn, and why, in one row; empty if all is."""
    first, *others = watched.left_out() or [""]
    row = console.render_str(f"{first} (and {len(others)} more)" if others else first)
    row.no_wrap, row.overflow = True, "ellipsis"
    return row


def _of_run(curve: Curve, watched: Watched, console: Console) -> Text:
    """How the run is drawn, its name, its last step and when that came, in one row."""
    quiet = max(0, time.time() - curve.changed)  # another machine's clock may be ahead
    quiet_for = f"last {quiet:.0f} s ago" if quiet < 60 else f"nothing for {duration(quiet)}"
    when = "finished" if curve.finished else quiet_for
    when = when if watched.there else f"there is no {watched.path} any more"
    look = Text(f"{_mark(curve.place)}  ") if _colourless(console) else Text("━━ ", _colour(curve.place))
    after = console.render_str(f": step {curve.curves.last_step:,}, {when}")
    name = shortened(console.render_str(curve.label).plain, console.width - len(look) - len(after))
    row = look.append(name).append_text(after)
    row.no_wrap, row.overflow = True, "ellipsis"
    return row


def _cut(rows: list[Text], most: int) -> list[Text]:
    """The first of them, and how many more there are."""
    return rows if len(rows) <= most else [*rows[: most - 1], Text(f"{len(rows) - most + 1} more", "dim")]


def _chart(name: str, curves: list[tuple[Curve, Steps, dict[str, Numbers]]], console: Console, width: int) -> Text:
    """A title, the axes, and below them the steps, which are those of the curves that have the quantity."""
    having = [(curve, steps, columns[name]) for curve, steps, columns in curves if name in columns]
    furthest = max((curve.curves for curve, *_ in having), key=lambda curves: (curves.last_step, len(curves)))
    across = axis_of_steps([steps for _, steps, _ in having], early=furthest.early)
    there = [
        (curve.place, steps[first:], numbers[first:])
        for curve, steps, numbers in having
        for first in [int(np.searchsorted(steps, 1)) if across.log else 0]  # what has no place on the axis
    ]
    up = axis_of_values([numbers for *_, numbers in there])
    if up is None:
        return console.render_str(f"{name}\nno number yet" + "\n" * ROWS)
    ends = {0: number(up.high, up.high - up.low), ROWS - 1: number(up.low, up.high - up.low)}
    left = max(LABEL, 1 + max(map(len, ends.values())))
    room = max(1, width - left)
    title = f"{name}, logarithmic" if up.log else name
    text = console.render_str(f"{shortened(title, width)}\n")
    text.no_wrap = True
    rows = drawn([(steps, numbers) for _, steps, numbers in there], across, up, room, ROWS)
    if _colourless(console):
        _name_ends(rows, [place for place, *_ in there])
    for at, row in enumerate(rows):
        text.append(f"{ends.get(at, ''):>{left - 1}} ", "dim")
        for sign, owner in row:
            text.append(sign, _colour(there[owner][0]) if owner >= 0 else "")
        text.append("\n")
    low, high = f"{across.low:,.0f}", f"{across.high:,.0f}"
    return text.append(f"{' ' * left}{low}{high:>{max(1, room - len(low))}}", "dim")


def _name_ends(rows: list[list[tuple[str, int]]], places: list[int]) -> None:
    """Puts each run's mark on the last character in which its curve is seen."""
    for owner, place in enumerate(places):
        seen = [(column, at) for at, row in enumerate(rows) for column, (_, one) in enumerate(row) if one == owner]
        if seen:
            column, at = max(seen)
            rows[at][column] = (_mark(place), owner)


def _colourless(console: Console) -> bool:
    return console.color_system is None or console.no_color


def _mark(place: int) -> str:
    return MARKS[place % len(MARKS)]


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def _numbers(curve: Curve) -> str:
    """The last step with a quantity that is wanted, and its numbers."""
    step, last = curve.curves.last()
    numbers = {name: f"{value:.4g}" if math.isfinite(value) else "–" for name, value in last.items()}
    listed = ", ".join(f"{name} {value}" for name, value in numbers.items() if not name.endswith((".q25", ".q75")))
    return f"step {step:,}: {listed}"
