"""The curves on a terminal, redrawn again and again; where there is none, the latest reading as a line now and then."""

import math
import time
from collections.abc import Iterable, Iterator

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gnomon_lab.watching.braille import Axis, axis_of_steps, axis_of_values, drawn
from gnomon_lab.watching.curves import Numbers, Steps
from gnomon_lab.watching.folder import Curve, Watched

SECONDS, QUIET, BETWEEN_LINES = 4.0, 10.0, 10.0
COLOURS = ("bright_blue", "bright_red", "green", "magenta", "yellow", "cyan", "white")
NARROWEST, ROWS = 44, 6
"""The fewest characters across a chart, and the rows of its axes."""
LABEL = 9
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
    if not names:
        return console.render_str(f"{watched.path}: {watched.unmatched() or 'no readings yet'}")
    abreast = max(1, min(len(names), console.width // NARROWEST))
    legend = [_of_run(curve, watched, console) for curve in curves]
    places = len(names)
    if height is not None:
        legend = _cut(legend, max(1, height // 4))
        places = max(1, (height - len(legend) - 2) // (ROWS + 2)) * abreast
    thinned = [(curve.place, *curve.curves.thinned(POINTS)) for curve in curves]
    longest = max((curve.curves for curve in curves), key=len)
    across = axis_of_steps([steps for _, steps, _ in thinned], early=longest.early)
    charts = [_chart(name, thinned, across, console, console.width // abreast - 1) for name in names[:places]]
    grid = Table.grid(padding=(0, 1, 0, 0))
    for first in range(0, len(charts), abreast):
        grid.add_row(*charts[first : first + abreast])
    more = f"{len(names) - places} more: enlarge the window, or name some with --only"
    return Group(*legend, grid, *([Text(more, "dim")] if len(names) > places else []))


def in_order(names: Iterable[str]) -> list[str]:
    """Each name once, in order of appearance, without quartiles; those that differ in split or layer alone together."""
    groups: dict[str, dict[str, None]] = {}
    for name in names:
        if not name.endswith((".q25", ".q75")):
            groups.setdefault(name.rpartition("/")[2], {})[name] = None
    return [name for group in groups.values() for name in group]


def _of_run(curve: Curve, watched: Watched, console: Console) -> Text:
    quiet = max(0, time.time() - curve.changed)  # another machine's clock may be ahead
    when = "finished" if curve.finished else f"nothing for {quiet:,.0f} s" if quiet >= 60 else f"last {quiet:.0f} s ago"
    when = when if watched.there else f"there is no {watched.path} any more"
    words = console.render_str(f"{curve.label}: step {curve.curves.last_step:,}, {when}")
    return Text("━━ ", _colour(curve.place)).append_text(words)


def _cut(rows: list[Text], most: int) -> list[Text]:
    """The first of them, and how many more there are."""
    return rows if len(rows) <= most else [*rows[: most - 1], Text(f"{len(rows) - most + 1} more", "dim")]


def _chart(
    name: str, curves: list[tuple[int, Steps, dict[str, Numbers]]], across: Axis, console: Console, width: int
) -> Text:
    """A title, the axes, and below them the steps."""
    there = [
        (place, steps[first:], columns[name][first:])
        for place, steps, columns in curves
        if name in columns
        for first in [int(np.searchsorted(steps, 1)) if across.log else 0]  # what has no place on the axis
    ]
    up = axis_of_values([numbers for *_, numbers in there])
    if up is None:
        return console.render_str(f"{name}\nno number yet" + "\n" * ROWS)
    room = max(1, width - LABEL)
    title = f"{name}, logarithmic" if up.log else name
    text = console.render_str(f"{title[:width]}\n")
    text.no_wrap = True
    rows = drawn([(steps, numbers) for _, steps, numbers in there], across, up, room, ROWS)
    for at, row in enumerate(rows):
        label = {0: f"{up.high:.3g}", ROWS - 1: f"{up.low:.3g}"}.get(at, "")
        text.append(f"{label:>{LABEL - 1}} ", "dim")
        for sign, owner in row:
            text.append(sign, _colour(there[owner][0]) if owner >= 0 else "")
        text.append("\n")
    low, high = f"{across.low:,.0f}", f"{across.high:,.0f}"
    return text.append(f"{' ' * LABEL}{low}{high:>{max(1, room - len(low))}}", "dim")


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def _numbers(curve: Curve) -> str:
    """The last step with a quantity that is wanted, and its numbers."""
    step, last = curve.curves.last()
    numbers = {name: f"{value:.4g}" if math.isfinite(value) else "–" for name, value in last.items()}
    listed = ", ".join(f"{name} {value}" for name, value in numbers.items() if not name.endswith((".q25", ".q75")))
    return f"step {step:,}: {listed}"
