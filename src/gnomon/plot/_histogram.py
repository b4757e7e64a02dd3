"""How many samples have which value."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from gnomon._words import number
from gnomon.plot import _legend, scales, style
from gnomon.plot._values import Numbers


def histogram(
    axes: Axes, groups: Mapping[str, Numbers], *, bins: int = 30, log: bool = False, share: bool = False
) -> None:
    """Draws groups of finite values in the same bins, and the mean of each as a line.

    Args:
        axes: where to draw.
        groups: the values, by their names in the legend.
        bins: the number of bins.
        log: whether the values' axis is logarithmic, if they are above 0 and span a decade.
        share: whether bars are the share of their group, in percent, instead of the number of samples.
    """
    together = np.concatenate(list(groups.values()))
    low, high = together.min(), together.max()
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        low, high, bins = low - 0.5, high + 0.5, bins | 1  # all in the middle one
    log = log and 0 < 10 * low < high
    edges = np.geomspace(low, high, bins + 1) if log else np.linspace(low, high, bins + 1)
    for place, (name, values) in enumerate(groups.items()):
        counts, tint = np.histogram(values, edges)[0], style.colour(place)
        heights = 100 * counts / len(values) if share else counts
        axes.stairs(heights, edges, color=tint, alpha=0.25, fill=True)
        axes.stairs(heights, edges, color=tint, linewidth=1.2)
        axes.axvline(float(values.mean()), **style.line(place), label=_legend.label(with_mean(name, values)))
    if log:
        scales.logarithmic(axes, "x", low, high)
    else:
        scales.linear(axes, "x", 6)
    scales.linear(axes, "y", 5)
    style.frame(axes)
    axes.set_ylabel("% of samples" if share else "samples")


def with_mean(name: str, values: Numbers) -> str:
    """A group's name in the legend, where its line stands for the mean."""
    mean = f"mean {number(float(values.mean()))}"
    return f"{name}: {mean}" if name else mean
