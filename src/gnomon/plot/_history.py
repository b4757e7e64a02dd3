"""A quantity while a network trains."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gnomon.errors import EmptyError, RangeError, public
from gnomon.plot import style
from gnomon.plot._values import by_name, in_order, spread, value_of
from gnomon.probe import Reading


@public
def history(
    readings: Sequence[Reading] | Mapping[str, Sequence[Reading]],
    quantity: str,
    *,
    ax: Axes | None = None,
    log_y: bool = False,
    band: bool = True,
) -> tuple[Figure, Axes]:
    """Draws a quantity against the step of training, on a logarithmic axis: its mean over the samples.

    Args:
        readings: of one run, or of several by the names that the legend shows. That at step 0 has no place on the axis.
        quantity: its name in the readings, such as `jacobian_norm`, `test/accuracy` or `mse_decomposition.total`.
        ax: where to draw; default: the axes of a new figure.
        log_y: whether the quantity's axis is logarithmic too.
        band: whether the middle half of the samples is shaded; there is none where each is right or wrong, 1 or 0.

    Returns:
        The figure and its axes.

    Raises:
        EmptyError: if a run has no reading after step 0.
        RangeError: if the readings do not have the quantity, or it is not above 0 where the axis is logarithmic.
    """
    figure, axes = style.canvas(ax)
    ends: list[float] = []
    for place, (run, own) in enumerate(by_name(readings).items()):
        later = [reading for reading in in_order(own, run) if reading.step > 0]
        if not later:
            raise EmptyError("readings", "a reading after step 0", f"none of {run!r}" if run else "none", "Train on.")
        steps = [reading.step for reading in later]
        values = [value_of(reading, quantity) for reading in later]
        means, low, high = np.array([spread(row) for row in values]).T
        shares = all(np.isin(row, (0, 1)).all() for row in values)
        if log_y and not (np.isnan(means) | (means > 0)).all():
            raise RangeError(quantity, "values above 0", f"{np.nanmin(means):.4g}", "Draw it with log_y=False.")
        if band and not shares:
            axes.fill_between(steps, low, high, color=style.colour(place), alpha=0.16, linewidth=0)
        axes.plot(steps, means, **style.line(place), marker="o" if len(steps) == 1 else "", label=run)
        ends += [steps[0], steps[-1]]
    style.logarithmic(axes, "x", min(ends), max(ends))
    if log_y:
        style.logarithmic(axes, "y", *axes.dataLim.intervaly)
    else:
        style.linear(axes, "y")
    style.frame(axes)
    axes.set(xlabel="step", ylabel=quantity.replace("_", " "))
    style.legend(axes)
    return figure, axes
