"""How a quantity is spread over the samples at one step."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gnomon import _checks
from gnomon.errors import EmptyError, RangeError, public
from gnomon.plot import style
from gnomon.plot._drawn import Read
from gnomon.plot._histogram import histogram, with_mean
from gnomon.plot._values import by_name, require, value_of


@public
def reading(
    readings: Read | Mapping[str, Read], quantity: str, *, ax: Axes | None = None, bins: int = 30
) -> tuple[Figure, Axes]:
    """Draws the histogram of a quantity over the samples, and its mean as a line.

    Args:
        readings: one `gnomon.Reading`, or several by the names that the legend shows; all are counted in the same bins.
        quantity: its name in the readings, such as `centroid_alignment` or `test/accuracy`.
        ax: where to draw; default: the axes of a new figure.
        bins: the number of bins.

    Returns:
        The figure and its axes.

    Raises:
        ArgumentTypeError: if what is passed is no reading.
        EmptyError: if there is no reading.
        RangeError: if a reading does not have the quantity, or has NaN or infinity, or `bins` is not a positive
            whole number.
    """
    if not _checks.whole(bins, 1):
        raise RangeError("bins", "a whole number, at least 1", bins, "Leave it out for 30.")
    for one in by_name(readings).values():
        require(Read, "a Reading", "Pass what probe.read returned.", readings=one)
    found = {name: value_of(one, quantity) for name, one in by_name(readings).items()}
    if not found:
        raise EmptyError("readings", "at least one reading", "none", "Read the probe.")
    if not all(np.isfinite(values).all() for values in found.values()):
        raise RangeError(quantity, "finite values", "others", "See what the reading says in `missing`.")
    with style.canvas(ax, names=[with_mean(*group) for group in found.items()]) as (figure, axes):
        histogram(axes, found, bins=bins)
        axes.set_xlabel(style.words(quantity), parse_math=False)
        style.legend(axes)
    return figure, axes
