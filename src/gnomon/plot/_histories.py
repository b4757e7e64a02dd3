"""Several quantities while one network trains, or several, with one panel per quantity."""

from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gnomon.errors import EmptyError, public
from gnomon.plot import scales, style
from gnomon.plot._curves import Curve, Look, cross_ends, draw, of_history
from gnomon.plot._drawn import Series
from gnomon.plot._values import Numbers, require

Lines = dict[tuple[str, str], Curve]
"""By run and by what comes before the quantity's name: the split, the layer, or both."""
Looks = dict[tuple[str, str], Look]
"""By the same."""


@public
def histories(
    runs: Mapping[str, Series],
    names: Sequence[str],
    *,
    ax: Axes | None = None,
    size: tuple[float | int, float | int] | None = None,
    logarithmic: Collection[str] = (),
) -> tuple[Figure, Axes | list[Axes]]:
    """Draws quantities against the step of training, one panel each, with splits, layers and runs as lines.

    `History.plot` and `compare(...).plot` draw with this. The line is the mean over the samples, the band the middle
    half of them, where each is not merely right or wrong, and a panel has at most six bands. A cross marks the end of a
    line that was NaN or infinite from there on. The step axis is logarithmic where the steps span two decades. What
    comes before the quantity's name in all lines, such as their split, stands in the title instead of in each label.

    Args:
        runs: each a `gnomon.History`, by the names that the legend shows; one may have an empty name.
        names: the names of the quantities, such as `test/accuracy`. Those that differ only before the last slash share
            a panel.
        ax: where to draw all of them together; default: a new figure.
        size: the width and the height of a new figure, in inches; default: what its panels and its legend need.
        logarithmic: the names whose value axis is logarithmic, if a value is above 0.

    Returns:
        The figure and its axes; for several panels, a list of axes.

    Raises:
        ArgumentTypeError: if a run is no history, `ax` is not one Axes, or the size no numbers.
        EmptyError: if there are no runs, no names or no readings.
        RangeError: if no run has a quantity of this name; if the size is not two numbers above 0, or axes are given
            too.
    """
    for run, history in runs.items():
        require(Series, "a History", "Pass probe.history.", **{run or "runs": history})
    if not (runs and names and any(history.steps for history in runs.values())):
        raise EmptyError("runs", "readings of at least one quantity", "none", "Read the probe.")
    panels: dict[str, Lines] = {}
    for name in names:
        before, _, quantity = name.rpartition("/")
        owners = {run: history for run, history in runs.items() if name in history.names} or runs
        lines = panels.setdefault(quantity, {})
        lines |= {(run, before): of_history(history, name) for run, history in owners.items()}
    log = {name.rpartition("/")[2] for name in logarithmic}
    looks = _looks(panels, len(runs) > 1)
    if ax is not None:
        return style.figure_of(ax, size), _together(ax, panels, looks, log)
    steps = np.unique(np.concatenate([curve.steps for lines in panels.values() for curve in lines.values()]))
    shared, labels = _labels([*looks])
    with style.grid(len(panels), labels, size=size) as (figure, axes):
        named = dict(zip(looks, labels, strict=True))
        for own, (quantity, lines) in zip(axes, panels.items(), strict=True):
            drawn = [(curve, looks[key], named[key]) for key, curve in lines.items()]
            _draw(own, drawn, steps, log=quantity in log)
            style.title(own, joined("/", shared, quantity))
            if own.xaxis.get_major_ticks(1)[0].label1.get_visible():  # the lowest of its column
                own.set_xlabel("step")
        style.common_legend(figure, axes)
    return figure, axes if len(axes) > 1 else axes[0]


def _together(axes: Axes, panels: dict[str, Lines], looks: Looks, log: Collection[str]) -> Axes:
    """All lines of all quantities in one panel, whose values are on a logarithmic axis if those of each would be.

    Those of one quantity look as they do in a panel of their own, those of several each have a look of their own.
    """
    alone = len(panels) == 1
    curves = {(*key, quantity): curve for quantity, lines in panels.items() for key, curve in lines.items()}
    each = [looks[run, before] if alone else style.line(place) for place, (run, before, _) in enumerate(curves)]
    shared, labels = _labels([(*key, "" if alone else style.words(quantity)) for *key, quantity in curves])
    steps = np.unique(np.concatenate([curve.steps for curve in curves.values()]))
    _draw(axes, [*zip(curves.values(), each, labels, strict=True)], steps, log=panels.keys() <= set(log))
    axes.set_xlabel("step")
    axes.set_ylabel(style.words(joined("/", shared, *(panels if alone else ()))), parse_math=False)
    style.legend(axes)
    return axes


def _looks(panels: dict[str, Lines], several: bool) -> Looks:
    """How each line is drawn in all panels: each run has a colour, and its splits and layers have dashes.

    With a single run, each layer has a colour and each split its dashes. Where this would give two lines the same look,
    each line has its own, and where it would give all lines the same dashes, so that they differ without colours too.
    """
    keys = list(dict.fromkeys(key for lines in panels.values() for key in lines))
    kinds = keys if several else [(layer, split) for split, _, layer in (part.partition("/") for _, part in keys)]
    if not all(colour for colour, _ in kinds) or len({dash for _, dash in kinds}) == 1:
        return {key: style.line(place) for place, key in enumerate(keys)}
    colours, dashes = (list(dict.fromkeys(kind)) for kind in zip(*kinds, strict=True))
    places = [(colours.index(colour), dashes.index(dash)) for colour, dash in kinds]
    looks = [style.line(colour, dash + colour // len(style.PALETTE)) for colour, dash in places]
    if any(look in looks[:place] for place, look in enumerate(looks)):
        looks = [style.line(place) for place in range(len(keys))]
    return dict(zip(keys, looks, strict=True))


def _draw(axes: Axes, lines: list[tuple[Curve, Look, str]], steps: Numbers, *, log: bool) -> None:
    """The lines, their axes, of which that of the steps has room for all of these, and the grid.

    Without a finite value there are no numbers to write on the value axis.
    """
    log = log and any((curve.means > 0).any() for curve, *_ in lines)
    if len(steps):
        first = steps[steps > 0].min(initial=np.inf)
        scales.steps(axes, first, steps.max(), zero=bool((steps <= 0).any()))
    draw(axes, lines, log=log, ticks=5)
    cross_ends(axes, lines)
    style.frame(axes)
    if not np.isfinite(axes.dataLim.intervaly).all():
        style.written(axes, "no finite value")
        axes.tick_params(axis="y", labelleft=False)  # those of the steps stay: they may be the ones of its column
        axes.grid(visible=False, axis="y")


def _labels(lines: Sequence[tuple[str, ...]]) -> tuple[str, list[str]]:
    """What comes before the quantity's name in all lines, such as their split, and the labels, which do not repeat it.

    Each line is a run, what comes before, and anything else. Labels that have nothing else are left as they are.
    """
    befores = [before.split("/") for _, before, *_ in lines]

    def labels(said: int) -> list[str]:
        rest = ["/".join(before[said:]) for before in befores]
        return [joined(", ", run, own, *more) for (run, _, *more), own in zip(lines, rest, strict=True)]

    shared = len([*takewhile(lambda parts: len({*parts}) == 1, zip(*befores, strict=False))])
    said = shared if all(labels(shared)) else 0
    return "/".join(befores[0][:said]), labels(said)


def joined(between: str, *parts: str) -> str:
    """The parts that are not empty."""
    return between.join(filter(None, parts))
