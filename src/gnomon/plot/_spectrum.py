"""Singular values and eigenvalues, in order."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from gnomon import _checks
from gnomon.errors import RangeError, public
from gnomon.plot import style
from gnomon.plot._values import by_name, numbers


@public
def spectrum(
    values: Float[Tensor, "*n k"] | Mapping[str, Float[Tensor, "*n k"]],
    *,
    ax: Axes | None = None,
    log_y: bool = True,
    band: bool = True,
) -> tuple[Figure, Axes]:
    """Draws k values against their places from 1 to k: singular values, eigenvalues, or one value per layer.

    Args:
        values: those of one matrix, (k), or of one per sample, (n k), whose mean is drawn; or several of these, by the
            names that the legend shows.
        ax: where to draw; default: the axes of a new figure.
        log_y: whether the value axis is logarithmic.
        band: whether the middle half of the samples is shaded.

    Returns:
        The figure and its axes.

    Raises:
        ShapeError: if values have no axis.
        EmptyError: if there are none.
        RangeError: at NaN or infinity, or if no value of one of them is above 0 and the axis is logarithmic.
    """
    figure, axes = style.canvas(ax)
    most = 1
    for place, (name, own) in enumerate(by_name(values).items()):
        _checks.samples(1, values=own)
        _checks.finite(values=own)
        rows = numbers(own).reshape(-1, own.shape[-1])
        means, places = rows.mean(0), np.arange(1, rows.shape[1] + 1)
        if log_y and not (means > 0).any():
            raise RangeError("values", "some above 0", f"at most {means.max():.4g}", "Draw them with log_y=False.")
        if band and len(rows) > 1:
            axes.fill_between(
                places, *np.quantile(rows, [0.25, 0.75], 0), color=style.colour(place), alpha=0.16, linewidth=0
            )
        shown = np.where(means > 0, means, np.nan) if log_y else means
        axes.plot(places, shown, **style.line(place), marker="o" if len(places) < 2 else "", label=name)
        most = max(most, len(places))
    if log_y:
        style.logarithmic(axes, "y", *axes.dataLim.intervaly)
    else:
        style.linear(axes, "y")
    axes.xaxis.set_major_locator(MaxNLocator(min(8, most), steps=style.ROUND, integer=True))
    style.frame(axes)
    axes.set(xlabel="k", ylabel="k-th value")
    style.legend(axes)
    return figure, axes
