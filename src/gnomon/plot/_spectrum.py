"""Singular values and eigenvalues, in order."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from gnomon import _checks
from gnomon.errors import EmptyError, RangeError, public
from gnomon.plot import scales, style
from gnomon.plot._curves import Curve, draw
from gnomon.plot._values import by_name, numbers, tensors


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
        band: whether the middle half of the samples is shaded, of at most six curves.

    Returns:
        The figure and its axes.

    Raises:
        ArgumentTypeError: if values are no tensor, or `ax` is not one Axes.
        ShapeError: if values have no axis.
        EmptyError: if there are none.
        RangeError: at NaN or infinity, or if no value of one of them is above 0 and the axis is logarithmic.
    """
    curves = {name: curve(own, band=band) for name, own in by_name(values).items()}
    if not curves:
        raise EmptyError("values", "some", "none", "Pass those of one matrix.")
    if log_y and (largest := min(own.means.max() for own in curves.values())) <= 0:
        raise RangeError("values", "some above 0", f"at most {largest:.4g}", "Draw them with log_y=False.")
    with style.canvas(ax, names=[*curves]) as (figure, axes):
        draw(axes, [(own, style.line(place), name) for place, (name, own) in enumerate(curves.items())], log=log_y)
        most = max(len(own.steps) for own in curves.values())
        scales.whole(axes, min(8, most))
        style.frame(axes)
        axes.set(xlabel="k", ylabel="k-th value")
        style.legend(axes)
    return figure, axes


def curve(values: Tensor, *, band: bool) -> Curve:
    """The mean over the samples against the place, with the quartiles of several samples if these are asked for."""
    tensors(values=values)
    _checks.samples(1, values=values)
    _checks.entries(values=values)
    _checks.finite(values=values)
    rows = numbers(values).reshape(-1, values.shape[-1])
    places = np.arange(1.0, rows.shape[1] + 1)
    low, high = np.quantile(rows, [0.25, 0.75], 0)
    return Curve(places, rows.mean(0), (low, high) if band and len(rows) > 1 else None)
