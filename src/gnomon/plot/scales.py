"""The scales of axes, their ticks and the numbers at these."""

import math
from collections.abc import Collection

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, Formatter, Locator, LogLocator, MaxNLocator, NullFormatter, NullLocator

from gnomon.plot._ticks import Fitting

ROUND = (1, 2, 2.5, 5, 10)
"""Steps from tick to tick."""
BETWEEN = (1.0, 2.0, 5.0)
"""Ticks of a short logarithmic axis, times the powers of ten."""
FEWEST = 3
"""Ticks by which a logarithmic axis is told from a linear one: two of them are any distance apart."""


def few(low: float | int, high: float | int) -> bool:
    """Whether a logarithmic axis needs numbers between the powers of ten, 2 and 5: it is short, or has only one."""
    if low <= 0:
        return False
    return bool(high < 30 * low or high < 10.0 ** (math.ceil(math.log10(low)) + 1))  # not NumPy's


def short(low: float | int, high: float | int) -> bool:
    """Whether a logarithmic axis is so short that its ticks are those of a linear one."""
    return bool(low < high < 3 * low)


def logarithmic(axes: Axes, name: str, low: float | int, high: float | int) -> None:
    """Makes an axis, "x" or "y", logarithmic, with plain numbers for data from `low` to `high`."""
    axes.set(**{f"{name}scale": "log"})
    axis = axes.xaxis if name == "x" else axes.yaxis
    axis.set_major_locator(locator(low, high) if name == "y" else side_by_side(low, high))
    axis.set_major_formatter(Plain() if short(low, high) else Plain(1e6))  # no room for powers of ten in full
    axis.set_minor_formatter(NullFormatter())


def steps(axes: Axes, low: float | int, high: float | int, *, zero: bool) -> None:
    """The step axis, after 0 from `low` to `high`: logarithmic over two decades or more, with 0 at its left end."""
    if high < 100 * low:
        whole(axes, 5)
        axes.xaxis.set_major_formatter(Plain())
    elif not zero:
        logarithmic(axes, "x", low, high)
    else:
        axes.set_xscale("symlog", linthresh=low, linscale=0.4)
        powers = 10.0 ** np.arange(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
        strides = range(-(-len(powers) // 5), len(powers) + 1)
        places = [[0, *powers[start::every]] for every in strides for start in range(every + 1)]
        axes.xaxis.set_major_locator(Fitting([*map(FixedLocator, places)]))
        axes.xaxis.set_major_formatter(Plain(1e6))
        axes.xaxis.set_minor_locator(NullLocator())


def linear(axes: Axes, name: str, ticks: int = 6) -> None:
    """Plain numbers on an axis, "x" or "y", in at most so many steps, or fewer where they would run into each other."""
    axis = axes.xaxis if name == "x" else axes.yaxis
    choices = [MaxNLocator(most, steps=ROUND) for most in range(ticks, 0, -1)]
    axis.set_major_locator(Fitting(choices) if name == "x" else choices[0])
    axis.set_major_formatter(Plain())


def whole(axes: Axes, ticks: int) -> None:
    """Whole numbers along the horizontal axis, of steps or of places in a row, in at most so many steps."""
    # With two of them at least, it takes fractions around one.
    choices = [MaxNLocator(most, steps=ROUND, integer=True, min_n_ticks=1) for most in range(ticks, 0, -1)]
    axes.xaxis.set_major_locator(Fitting(choices))


def values(axes: Axes, ticks: int = 6, *, log: bool) -> None:
    """The value axis, logarithmic over what is drawn with at least three ticks, or linear in at most so many steps."""
    if not log:
        linear(axes, "y", ticks)
        return
    low, high = axes.dataLim.intervaly
    logarithmic(axes, "y", low, high)
    axes.autoscale_view(scalex=False)  # with the ends of this locator
    axes.yaxis.set_major_locator(enough(axes.yaxis.get_major_locator(), low, high, axes.get_ylim()))


def enough(own: Locator, low: float | int, high: float | int, view: tuple[float, float]) -> Locator:
    """A logarithmic scale's ticks for data from `low` to `high`, or closer ones if fewer than three are in the view."""
    start, end = sorted(view)
    if sum(start <= tick <= end for tick in own.tick_values(start, end)) >= FEWEST:
        return own
    return MaxNLocator(4, steps=ROUND, min_n_ticks=FEWEST) if few(low, high) else LogLocator(subs=BETWEEN)


def locator(low: float | int, high: float | int) -> Locator:
    """The ticks of a logarithmic scale from `low` to `high`: powers of ten; where these are few, 2 and 5 times them."""
    if low == high:
        return Around(4, steps=ROUND, min_n_ticks=FEWEST)
    if short(low, high):
        return MaxNLocator(4, steps=ROUND)
    return LogLocator(base=10, subs=BETWEEN if few(low, high) else (1.0,), numticks=8)


def side_by_side(low: float | int, high: float | int) -> Locator:
    """The ticks of a logarithmic scale along which there is less room."""
    if short(low, high):
        return Fitting([MaxNLocator(most, steps=ROUND) for most in (4, 3, 2, 1)])
    if few(low, high):
        return Fitting([LogLocator(subs=subs) for subs in (BETWEEN, (1.0, 3.0), (1.0,))])
    return Fitting([LogLocator(numticks=most) for most in (4, 3, 2)])


class Around(MaxNLocator):
    """The ticks of a logarithmic scale around one value, which would otherwise end at powers of ten."""

    def nonsingular(self, v0: float, v1: float) -> tuple[float, float]:
        """The ends of the axis: the value in its middle."""
        return (v0 / 2, 2 * v0) if v0 == v1 > 0 else super().nonsingular(v0, v1)


class Plain(Formatter):
    """Numbers as they are written: 0.01, 1,000; ticks with as many digits as tell them apart.

    Args:
        whole: up to where whole numbers are written in full.
    """

    def __init__(self, whole: float | int = 1e9) -> None:
        self.whole = whole

    def format_ticks(self, values: Collection[float | int]) -> list[str]:
        """The words at these ticks."""
        gaps = [min((abs(other - value) for other in values if other != value), default=0) for value in values]
        return [self.written(value, gap) for value, gap in zip(values, gaps, strict=True)]

    def __call__(self, value: float | int, pos: int | None = None) -> str:
        """The words at one place."""
        return self.written(value, 0)

    def written(self, value: float | int, gap: float | int) -> str:
        """A number in six digits, or in so many more that one by `gap` larger is written differently."""
        if float(value).is_integer() and abs(value) < self.whole:
            return f"{round(value):,}"
        digits = 3 + math.floor(math.log10(abs(value) / gap)) if gap and value else 0
        return f"{value:,.{max(6, digits)}g}"
