"""The look of all figures: colours, dashes, fonts, panels and legends."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle

from gnomon import _checks
from gnomon.errors import RangeError
from gnomon.plot import _legend
from gnomon.plot._titles import Wrapping, wrapped
from gnomon.plot._values import require

Size = tuple[float | int, float | int]
"""Width and height, in inches."""
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")
"""Okabe and Ito's colour-blind-safe palette, without its yellow, too pale for a line on white."""
DASHES: tuple[Any, ...] = ("-", (0, (4, 2)), (0, (1, 1.4)), (0, (6, 2, 1, 2)))
INK, MUTED, GRID, AXIS = "#1f2933", "#5b6875", "#e3e7ec", "#b8c0ca"
DIVERGING = ("#2166ac", "#92c5de", "#f7f7f7", "#f4a582", "#b2182b")
SEQUENTIAL = ("#ffffff", "#bdbdbd", "#737373", "#111111")
VALUES = ("#440154", "#3b528b", "#21918c", "#5ec962", "#fde725")
"""Viridis: even in lightness, and readable by the colour-blind."""
CLASSES = ("#aec7e8", "#ffbb78", "#98df8a", "#ff9896", "#c5b0d5", "#c49c94", "#f7b6d2", "#c7c7c7", "#dbdb8d", "#9edae5")
"""Pale, so that points and lines stand out: the light half of matplotlib's tab20."""
STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # ships with matplotlib: the same figure on every machine
    "font.size": 9.5,
    "text.color": INK,
    "axes.facecolor": "white",
    "axes.edgecolor": AXIS,
    "axes.labelcolor": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "savefig.facecolor": "auto",
    "svg.fonttype": "path",
    "svg.hashsalt": "gnomon",
}
"""matplotlib's settings, under which figures are made."""
AXES, FIGURE = 0.775, 0.85
"""The parts of a figure's width that a legend above its axes, or above all panels, may take."""
PANEL = 1.5
"""How high, in inches, each row of panels is at least, whatever the names above them need."""
ABOVE = 0.25
"""How high, in inches, names may stand above the first row of them, above axes for which no layout makes room."""
INSIDE = 0.5
"""How much of the height of such axes names may take beyond their first row where they are inside."""


def colour(place: int) -> str:
    """The palette's colour at `place`, from 0, wrapping round."""
    return PALETTE[place % len(PALETTE)]


def line(place: int, dash: int | None = None) -> dict[str, Any]:
    """How the line at `place`, from 0, is drawn: colour and dashes, so that lines differ in print without colours too.

    The dashes are those of the same place, or of a place of their own.
    """
    dashes = DASHES[(place if dash is None else dash) % len(DASHES)]
    return {"color": colour(place), "linestyle": dashes, "linewidth": 1.8, "solid_capstyle": "round"}


def figure_of(ax: Axes, size: Size | None = None) -> Figure:
    """The whole figure, also where the axes are in a part of it; raises ArgumentTypeError unless these are one Axes.

    Raises RangeError if a size is asked for, which axes that are given have already.
    """
    require(Axes, "one Axes", "Pass one, such as axs[0] of fig, axs = plt.subplots(1, 2).", ax=ax)
    if size is not None:
        raise RangeError("size", "None where ax is given", size, "Pass it to what makes the axes, as figsize=size.")
    return ax.figure.figure


def inches(size: Size) -> tuple[float, float]:
    """The width and the height of a figure; raises RangeError unless these are two numbers above 0."""
    found = _checks.numbers("size", size)
    if found.shape != (2,) or not ((found > 0) & found.isfinite()).all():
        raise RangeError("size", "a width and a height above 0, in inches", size, "Pass such as (3.3, 2.2).")
    width, height = found.tolist()
    return width, height


@contextmanager
def drawing(width: float | int, height: float | int, layout: ConstrainedLayoutEngine) -> Iterator[Figure]:
    """A new pyplot figure of this size in inches, in this look; it is closed if what draws into it raises an error.

    It is white, in a file too, where matplotlib's style is dark: its colours are made for that.
    """
    from matplotlib import pyplot

    # Outside the context, which would undo what a notebook's backend sets when the first figure loads it.
    figure = pyplot.figure(figsize=(width, height), layout=layout, facecolor="white")
    if matplotlib.rcParams["savefig.facecolor"] != "auto":  # which would be the background of files
        page = Rectangle((0, 0), 1, 1, transform=figure.transFigure, facecolor="white", zorder=-1)
        page.set_in_layout(False)
        figure.add_artist(page)
    try:
        with matplotlib.rc_context(STYLE):
            yield figure
    except BaseException:
        pyplot.close(figure)
        raise


@contextmanager
def canvas(
    ax: Axes | None, width: float | int = 4.8, height: float | int = 3.2, names: Sequence[str] = ()
) -> Iterator[tuple[Figure, Axes]]:
    """The axes with their figure; default: those of a new pyplot figure, in this look.

    Args:
        ax: the axes.
        width: of a new figure, in inches.
        height: of a new figure, in inches, with room for one row of names.
        names: those in its legend; it is higher by their other rows.
    """
    if ax is not None:
        yield figure_of(ax), ax
        return
    height += _legend.higher(names, AXES * width, STYLE["font.size"])
    with drawing(width, height, ConstrainedLayoutEngine(compress=True)) as figure:
        yield figure, figure.subplots()


def rows_and_columns(count: int) -> tuple[int, int]:
    """In which so many panels stand."""
    columns = count if count < 4 else 2 if count == 4 else 3
    return -(-count // columns), columns


@contextmanager
def grid(
    count: int, names: Sequence[str] = (), *, size: Size | None = None, height: float | int = 1.9, sharex: bool = True
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A new pyplot figure with so many panels, in up to three columns, as `canvas` creates one with one panel.

    Its size is this, or what its panels, of this height, and the rows of a legend of these names need.
    """
    rows, columns = rows_and_columns(count)
    width, high = (0.4 + 2.9 * columns, 0.5 + height * rows) if count > 1 else (4.8, 0.5 + 1.4 * height)
    high += _legend.higher(names, FIGURE * width, STYLE["font.size"])
    if size is not None:
        width, high = inches(size)
    with drawing(width, high, Wrapping(hspace=0.08, wspace=0.04)) as figure:
        panels = figure.subplots(rows, columns, squeeze=False, sharex=sharex)
        for axes in panels.flat[count:]:
            axes.remove()
        for axes in panels.flat[count - columns : count]:  # the lowest of each column
            axes.tick_params(labelbottom=True)
        yield figure, list(panels.flat[:count])


def frame(axes: Axes) -> None:
    """A grid behind the data, two spines, no tick marks."""
    axes.grid(visible=True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=0, which="both")


def written(axes: Axes, words: str) -> None:
    """Words in the middle of a panel that shows nothing."""
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", color=MUTED)


def legend(axes: Axes) -> None:
    """A legend above the axes, for the lines that have names, as many as there is room for.

    It is inside, in room made above the data, if it has more than two rows and no layout makes room for them outside.
    """
    if found := _legend.named([axes]):
        names, size = [*found], _legend.font_size()
        width, height = axes.bbox.width / axes.figure.dpi, axes.bbox.height / axes.figure.dpi
        most = _legend.as_many(names, width, size, INSIDE * height)
        if axes.figure.get_layout_engine() or _legend.higher(names, width, size, most) <= ABOVE:
            _legend.placed(axes, found, width, most, loc="lower left", bbox_to_anchor=(0, 1))
        else:
            axes.get_ylim()  # an axis that fits its data does so when it is asked
            share = (_legend.higher(names, width, size, most) + 1.5 * _legend.ROW * size / 72) / height
            above = axes.transAxes.transform((0, 1 / (1 - min(share, 1.5 * INSIDE))))
            axes.set_ylim(top=axes.transData.inverted().transform(above)[1])
            _legend.placed(axes, found, width, most, loc="upper left")


def common_legend(figure: Figure, panels: list[Axes]) -> None:
    """A legend above all panels, for the lines that have names, each once, as many as there is room for."""
    if found := _legend.named(panels):
        width, room = FIGURE * figure.get_figwidth(), figure.get_figheight() - PANEL * rows_and_columns(len(panels))[0]
        most = _legend.as_many([*found], width, _legend.font_size(), max(0, room))
        _legend.placed(figure, found, width, most, loc="outside upper left")


def words(name: str) -> str:
    """A quantity's name as it is written next to an axis."""
    return name.replace("_", " ")


def title(axes: Axes, name: str, room: float | int = 6) -> None:
    """A quantity's name above its panel, in lines that this has room for, so many points above it."""
    text = axes.set_title("", loc="left", size=9.5, pad=room, parse_math=False)
    text.set_text(wrapped(words(name), text))
    if isinstance(layout := axes.figure.get_layout_engine(), Wrapping):
        layout.titles[text] = words(name), text.get_text()
