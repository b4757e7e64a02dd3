"""What became of the networks that a verdict is based on."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gnomon.errors import EmptyError, public
from gnomon.history import Verdict
from gnomon.plot import scales, style
from gnomon.plot._values import require


@public
def similar_runs(verdict: Verdict, *, ax: Axes | None = None) -> tuple[Figure, Axes]:
    """Draws the unseen accuracy of the most similar runs against the doublings of the steps since they were similar.

    The verdict is about the first two doublings, which are shaded. By their end the runs of one colour rose by five
    points or more, the others by less, or not at all; what they did later is drawn too.

    Args:
        verdict: what `gnomon.verdict` returned.
        ax: where to draw; default: the axes of a new figure.

    Returns:
        The figure and its axes.

    Raises:
        ArgumentTypeError: if it is not a verdict, or `ax` is not one Axes.
        EmptyError: if the verdict is based on no runs, as with too few readings.
    """
    require(Verdict, "a Verdict", "Pass what gnomon.verdict returned.", verdict=verdict)
    if not verdict.similar:
        raise EmptyError("verdict", "one with similar runs", verdict.message, "Read more often.")
    told = {False: "rose by less than five points", True: "rose by five points or more"}
    last = max(np.log2(run.steps[-1] / run.step) for run in verdict.similar)
    with style.canvas(ax) as (figure, axes):
        for rises, words in told.items():
            runs = [run for run in verdict.similar if run.rises == rises]
            for place, run in enumerate(runs):
                doublings = np.log2(np.array(run.steps) / run.step)
                label = f"{words}: {len(runs)}" if place == 0 else None
                look = style.line(int(rises)) | {"linewidth": 1.2, "alpha": 0.5}
                axes.plot(doublings, run.unseen, **look, label=label)
        axes.axvspan(0, 2, color=style.GRID, alpha=0.6, linewidth=0, zorder=0)
        axes.axvline(0, color=style.INK, linewidth=1)
        scales.linear(axes, "y")
        style.frame(axes)
        axes.set(
            xlim=(-4, max(2, last)), ylim=(0, 1.02), xlabel="doublings of the steps from now", ylabel="unseen accuracy"
        )
        style.legend(axes)
    return figure, axes
