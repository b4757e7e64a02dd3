"""A quantity against the step of training, as numbers and as a line with its band."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.markers import CARETDOWN

from gnomon.errors import RangeError
from gnomon.plot import _legend, scales
from gnomon.plot._drawn import Series
from gnomon.plot._values import Numbers, numbers

Look = dict[str, Any]
FEW = 6
"""More bands than these hide the lines, and one another."""


@dataclass(frozen=True)
class Curve:
    """One number per step at which it was read.

    Attributes:
        steps: the steps of training, or the places in a spectrum, increasing.
        means: the means over the samples, NaN where there is none.
        band: the quartiles, between which the middle half of the samples lies; None where there is only one value, or
            where each sample is right or wrong, 1 or 0.
    """

    steps: Numbers
    means: Numbers
    band: tuple[Numbers, Numbers] | None

    def above_zero(self) -> "Curve":
        """What a logarithmic axis can show: NaN for everything else."""
        low, high = map(positive, self.band or (self.means, self.means))
        return Curve(self.steps, positive(self.means), None if self.band is None else (low, high))

    def where(self, kept: Any) -> "Curve":  # noqa: ANN401 - a mask of NumPy's
        """The curve at these steps only."""
        band = None if self.band is None else (self.band[0][kept], self.band[1][kept])
        return Curve(self.steps[kept], self.means[kept], band)


def positive(values: Numbers) -> Numbers:
    """The values above 0, and NaN instead of the others."""
    return np.where(values > 0, values, np.nan)


def of_history(history: Series, name: str) -> Curve:
    """The curve of a quantity; raises RangeError if the history does not have it."""
    if name not in history.names:
        there = ", ".join(history.quantities) or "none"
        raise RangeError("names", f"some of {there}", repr(name), "Ask the probe for it.")
    steps, means = np.array(history.steps, float), numbers(history[name])
    read = np.isin(history.steps, history.steps_of(name))
    ends = [f"{name}{end}" for end in (".min", ".max", ".q25", ".q75")]
    if not set(ends) <= {*history.names}:
        return Curve(steps, means, None).where(read)
    least, most, low, high = (numbers(history[end]) for end in ends)
    known = np.isfinite(least) & np.isfinite(most)
    shares = np.isin(least[known], (0, 1)).all() and np.isin(most[known], (0, 1)).all()
    return Curve(steps, means, None if shares else (low, high)).where(read)


def draw(axes: Axes, curves: Collection[tuple[Curve, Look, str]], *, log: bool, ticks: int = 6) -> None:
    """The lines, by their looks and names, the value axis with at most so many steps, and the bands, if they are few.

    A line without a marker in its look has dots where it has a single point. A value that is not above 0 is a triangle
    at the lower end of a logarithmic axis, and a gap in the line; a band whose lower quartile is not ends there.
    """
    if sum(own.band is not None for own, _, _ in curves) > FEW:
        curves = [(replace(own, band=None), look, name) for own, look, name in curves]
    shown = [(own.above_zero() if log else own, look, name) for own, look, name in curves]
    for own, look, name in shown:
        for edge in own.band or ():
            axes.update_datalim(np.stack([own.steps, edge], 1)[np.isfinite(edge)])
        marks = {} if "marker" in look else dots(own.means)
        axes.plot(own.steps, own.means, **look, **marks, label=_legend.label(name))
    for own, look, _ in curves if log else ():
        low = own.steps[own.means <= 0]
        if len(low):
            marks = {"linestyle": "", "marker": CARETDOWN, "markersize": 7, "color": look["color"], "label": "_"}
            axes.plot(low, np.zeros(len(low)), transform=axes.get_xaxis_transform(), **marks)
    scales.values(axes, ticks, log=log)
    floor = min(axes.get_ylim())
    for own, look, _ in shown:
        if own.band is not None:
            low, high = own.band
            band = axes.fill_between(
                own.steps, np.where(np.isnan(low), floor, low), high, color=look["color"], alpha=0.16, linewidth=0
            )
            if np.isnan(low).any():
                band.sticky_edges.y.append(floor)  # the axis still ends there


def cross_ends(axes: Axes, curves: Collection[tuple[Curve, Look, str]]) -> None:
    """A cross at the end of each line after which nothing finite was read, unlike one that ended with its readings."""
    for own, look, _ in curves:
        drawn = np.flatnonzero(np.isfinite(own.means) & ((own.means > 0) | (axes.get_yscale() != "log")))
        if len(drawn) and not np.isfinite(own.means[-1]):
            marks: Look = {"linestyle": "", "marker": "x", "markersize": 7, "markeredgewidth": 1.8, "label": "_"}
            axes.plot(own.steps[drawn[-1:]], own.means[drawn[-1:]], color=look["color"], **marks)


def dots(values: Numbers) -> dict[str, Any]:
    """Markers at the points which no line joins: those without a neighbour."""
    there = np.pad(np.isfinite(values), 1)
    alone = np.flatnonzero(there[1:-1] & ~there[:-2] & ~there[2:])
    return {"marker": "o", "markevery": alone} if len(alone) else {}
