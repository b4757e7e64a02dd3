"""What both renderers share: colours, pixel sizes, where each panel and each label goes. Pure."""

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.ticker import MaxNLocator

from gnomon.plot import scales, style
from gnomon_lab.figures import Curves, ImageSlider, Line, Mark, Panel

# Sizes in CSS pixels (1/96 inch).
WIDTH = 860
PANEL_TITLE, FLAG, GAP, X_AXIS = 26, 17, 18, 52
RISE = 7
"""From the upper end of a panel to its title, which leaves room for half of a number there."""
LABEL_CHARACTER = 6.8
Y_TICKS, FULL = 5, 1e6
"""How many steps a linear y axis has, and up to where whole numbers are written in full."""


def shown(line: Line, log_x: bool) -> tuple[list[float], list[float]]:
    """The points of a line that the axis can show: on a logarithmic one those at x > 0."""
    points = [(x, y) for x, y in zip(line.x, line.y, strict=True) if x > 0 or not log_x]
    return [x for x, _ in points], [y for _, y in points]


def x_span(curves: Curves) -> tuple[float, float]:
    """Both ends of the x axis: all points and marks that can be shown, and 2 % on either side."""
    lines = [x for panel in curves.panels for line in panel.lines for x in shown(line, curves.log_x)[0]]
    marks = [m.x for panel in curves.panels for m in panel.marks if m.x > 0 or not curves.log_x]
    low, high = min(lines + marks), max(lines + marks)
    return padded(low, high, 0.02, log=curves.log_x)


def padded(low: float, high: float, share: float, *, log: bool) -> tuple[float, float]:
    """Both ends of an axis, this share of it beyond the lowest and the highest value; around a single one, a half."""
    if log:
        pad = share * math.log10(high / low) or 0.5
        return low / 10**pad, high * 10**pad
    pad = share * (high - low) or 0.5
    return low - pad, high + pad


def distinct(low: float, high: float) -> tuple[float, float]:
    """Both ends of a colour bar; half a unit further out if they are the same."""
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def y_span(panel: Panel) -> tuple[float, float]:
    """The lowest and the highest value that a panel shows."""
    heights = panel.y_range or [y for line in panel.lines for y in line.y]
    return min(heights), max(heights)


def wider(curves: Curves, characters: int) -> int:
    """By how many pixels the longest number at a linear y axis exceeds so many characters."""
    longest = max(
        (len(word) for panel in curves.panels if not panel.log_y for word in _numbers(*y_span(panel))), default=0
    )
    return math.ceil(LABEL_CHARACTER * max(0, longest - characters))


def _numbers(low: float, high: float) -> list[str]:
    """Those at an axis that shows both."""
    low, high = padded(low, high, 0.05, log=False)
    ticks = [tick for tick in MaxNLocator(Y_TICKS).tick_values(low, high) if low <= tick <= high]
    return scales.Plain(FULL).format_ticks(ticks)


@dataclass(frozen=True)
class Flag:
    """A mark with the row, counted upwards from the panel, of its label; -1 means that it has no label here.

    A mark that several panels share is labelled only in the first of them.
    """

    mark: Mark
    level: int


def flags(curves: Curves) -> tuple[tuple[Flag, ...], ...]:
    """For each panel its flags, from left to right.

    Every label has its own row, so labels cannot overlap at any width; they are to the right of their poles and descend
    from left to right, so no pole runs through a label that has room.
    """
    seen: set[Mark] = set()
    panels = []
    for panel in curves.panels:
        marks = sorted({m for m in panel.marks if m.x > 0 or not curves.log_x}, key=lambda m: (m.x, m.label))
        fresh = [m for m in marks if m not in seen]
        seen.update(fresh)
        level = {m: i for i, m in enumerate(reversed(fresh))}
        panels.append(tuple(Flag(m, level.get(m, -1)) for m in marks))
    return tuple(panels)


def overhang(curves: Curves, mark: Mark, inner: int, room: int) -> int:
    """By how many pixels a mark's label, right of its pole, would exceed `room` pixels, if the axes have `inner`."""
    low, high = x_span(curves)
    across = math.log(mark.x / low) / math.log(high / low) if curves.log_x else (mark.x - low) / (high - low)
    return max(0, round(across * inner + 4 + LABEL_CHARACTER * len(mark.label) - room))


def levels(panel_flags: tuple[Flag, ...]) -> int:
    """How many rows of labels there are above the panel."""
    return max((f.level for f in panel_flags), default=-1) + 1


def stack(curves: Curves) -> tuple[int, tuple[int, ...]]:
    """The height of all panels together, and the top edge of each panel's axes, measured from the top (pixels)."""
    tops, y = [], 0
    for panel_flags in flags(curves):
        y += PANEL_TITLE + FLAG * levels(panel_flags)
        tops.append(y)
        y += curves.panel_height + GAP
    return y - GAP, tuple(tops)


def legend(curves: Curves) -> tuple[Line, ...]:
    """The first line of each legend entry: lines of one label, colour and dash share one, if the axis shows a point."""
    first: dict[tuple[str, int, bool], Line] = {}
    for panel in curves.panels:
        for line in panel.lines:
            if shown(line, curves.log_x)[0]:
                first.setdefault((line.label, line.colour, line.dashed), line)
    return tuple(first.values())


def dash(line: Line) -> int:
    """A line's place in `style.DASHES`: where the palette begins again, solid and dashed lines both look different."""
    return (line.dashed + 2 * (line.colour // len(style.PALETTE))) % len(style.DASHES)


def constant_rows(figure: ImageSlider) -> tuple[bool, ...]:
    """For each row, whether it is the same in all frames, and therefore needs to be shown only once."""
    first = figure.frames[0].rows
    return tuple(
        all(np.array_equal(frame.rows[i].images, row.images) for frame in figure.frames) for i, row in enumerate(first)
    )


def exponents(*values: float) -> tuple[float, ...]:
    """Base-10 logarithms: places on a logarithmic axis."""
    return tuple(math.log10(v) for v in values)
