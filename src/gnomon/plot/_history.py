"""A quantity while a network trains."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gnomon.errors import EmptyError, RangeError, public
from gnomon.plot import style
from gnomon.plot._curves import Curve, curve, draw
from gnomon.plot._drawn import Read, Series
from gnomon.plot._values import by_name

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
        ArgumentTypeError: if what is passed is no history and no readings.
        EmptyError: if there is no run, or one has no reading after step 0.
        RangeError: if the readings do not have the quantity, or no finite value of it after step 0, or it is not above
            0 where the axis is logarithmic.
    """
    runs: Mapping[str, Run] = by_name(readings)
    curves = {run: after_start(own, quantity, run) for run, own in runs.items()}
    if not curves:
        raise EmptyError("readings", "at least one run", "none", "Read the probe.")
    steps, means = (np.concatenate([getattr(own, part) for own in curves.values()]) for part in ("steps", "means"))
    if not np.isfinite(means).any():
        raise RangeError(quantity, "a finite value after step 0", "none", "See what readings say in `missing`.")
    if log_y and (least := np.nanmin(means)) <= 0:
        raise RangeError(quantity, "values above 0", f"{least:.4g}", "Draw it with log_y=False.")
    with style.canvas(ax, names=[*curves]) as (figure, axes):
        for place, (run, own) in enumerate(curves.items()):
            draw(axes, own.above_zero() if log_y else own, style.line(place), run, band=band)
        style.logarithmic(axes, "x", steps.min(), steps.max())
        if style.short(steps.min(), steps.max()):
            axes.xaxis.set_major_locator(style.whole(4))
        style.values(axes, log=log_y)
        style.frame(axes)
        axes.set_xlabel("step")
        axes.set_ylabel(style.words(quantity), parse_math=False)
        style.legend(axes)
    return figure, axes


def after_start(readings: Run, quantity: str, run: str) -> Curve:
    """The curve after step 0; raises EmptyError if there is none."""
    whole = curve(readings, quantity, run)
    if not (whole.steps > 0).any():
        raise EmptyError("readings", "a reading after step 0", f"none of {run!r}" if run else "none", "Train on.")
    return whole.where(whole.steps > 0)
