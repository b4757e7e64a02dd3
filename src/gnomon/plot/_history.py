"""A quantity while a network trains."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gnomon.errors import EmptyError, RangeError, public
from gnomon.plot import style
from gnomon.plot._curves import curve, draw
from gnomon.plot._drawn import Read, Series

Run = Sequence[Read] | Series


@public
def history(
    readings: Run | Mapping[str, Run],
    quantity: str,
    *,
    ax: Axes | None = None,
    log_y: bool = False,
    band: bool = True,
) -> tuple[Figure, Axes]:
    """Draws a quantity against the step of training, on a logarithmic axis: its mean over the samples.

    Args:
        readings: the `gnomon.History` of one run, or a list of its readings; or those of several runs, by the names
            that the legend shows. A reading at step 0 has no place on the axis.
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
    runs: Mapping[str, Run] = readings if isinstance(readings, Mapping) else {"": readings}
    for place, (run, own_readings) in enumerate(runs.items()):
        whole = curve(own_readings, quantity, run)
        own = whole.where(whole.steps > 0)
        if not len(own.steps):
            raise EmptyError("readings", "a reading after step 0", f"none of {run!r}" if run else "none", "Train on.")
        if log_y and not (np.isnan(own.means) | (own.means > 0)).all():
            raise RangeError(quantity, "values above 0", f"{np.nanmin(own.means):.4g}", "Draw it with log_y=False.")
        draw(axes, own, style.line(place), run, band=band)
        ends += [own.steps[0], own.steps[-1]]
    style.logarithmic(axes, "x", min(ends), max(ends))
    if log_y:
        style.logarithmic(axes, "y", *axes.dataLim.intervaly)
    else:
        style.linear(axes, "y")
    style.frame(axes)
    axes.set(xlabel="step", ylabel=quantity.replace("_", " "))
    style.legend(axes)
    return figure, axes
