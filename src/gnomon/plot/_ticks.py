"""Ticks of an axis: as many as their labels have room for."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axis import Axis
from matplotlib.cbook import is_math_text
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path
from matplotlib.ticker import Locator

GAP = 0.8
"""Between two labels, in font sizes: about a digit, so that two numbers are not read as one."""


class Fitting(Locator):
    """The first of several locators whose labels have room side by side on a horizontal axis, each time it is drawn.

    Where there is none with two ticks or more, it takes the ends of the first, a single tick, or every second tick of
    the last, or every third, and so on.

    Args:
        choices: from the most ticks to the fewest.
    """

    axis: Axis

    def __init__(self, choices: Sequence[Locator]) -> None:
        self.choices = choices

    def set_axis(self, axis: Any) -> None:  # noqa: ANN401 - matplotlib's own type leaves one out
        """The axis, also of the choices: a logarithmic one asks for the data's ends."""
        super().set_axis(axis)
        for choice in self.choices:
            choice.set_axis(axis)

    def __call__(self) -> Sequence[float]:
        """The ticks of the axis as it is now."""
        return self.tick_values(*self.axis.get_view_interval())

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        """The ticks between these ends."""
        low, high = sorted((vmin, vmax))
        rounding = 1e-10 * (high - low)
        offered = [
            [tick for tick in choice.tick_values(low, high) if low - rounding <= tick <= high + rounding]
            for choice in self.choices
        ]
        several, single = ([ticks for ticks in offered if (len(ticks) > 1) is many] for many in (True, False))
        ends = [[ticks[0], ticks[-1]] for ticks in several[:1]]  # one number alone does not tell the scale
        fewest = offered[-1]
        thinned = [fewest[::every] for every in range(2, len(fewest) + 1)]
        return next(ticks for ticks in (*several, *ends, *single, *thinned) if self.fits(ticks, low, high))

    def nonsingular(self, v0: float, v1: float) -> tuple[float, float]:
        """The ends of the axis around equal values."""
        return self.choices[0].nonsingular(v0, v1)

    def fits(self, ticks: list[float], low: float, high: float) -> bool:
        """Whether no label of these reaches into the next."""
        if len(ticks) < 2:
            return True
        start, end, *places = self.axis.get_transform().transform(np.array([low, high, *ticks]))
        axes, font = self.axis.axes, self.axis.get_major_ticks(1)[0].label1.get_fontproperties()
        gaps = np.diff(places) / (end - start) * 72 * axes.bbox.width / axes.figure.dpi
        words = self.axis.get_major_formatter().format_ticks(ticks)
        half = np.array([width(word, font, math=is_math_text(word)) for word in words]) / 2
        return bool((gaps >= half[1:] + half[:-1] + GAP * font.get_size_in_points()).all())


def width(words: str, font: FontProperties, *, math: bool = False) -> float:
    """The width of one line, or of a formula, in points, without drawing it."""
    return text_to_path.get_text_width_height_descent(words, font, math)[0]
