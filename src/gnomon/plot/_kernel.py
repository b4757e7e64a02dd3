"""Kernels and other matrices, by what they say about pairs."""

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from gnomon import _checks
from gnomon.errors import ShapeError, public
from gnomon.plot import scales, style
from gnomon.plot._ticks import GAP, width
from gnomon.plot._values import Numbers, numbers, tensors

APART = 6
"""Points between lines, on average, from which on they leave most of the matrix to be seen."""
NUMBERS = 10
"""So many classes are numbered."""


@public
def kernel(
    matrix: Float[Tensor, "n m"] | Float[Tensor, "n m c c"],
    labels: Int[Tensor, "n"] | None = None,
    *,
    ax: Axes | None = None,
    label: str = "",
) -> tuple[Figure, Axes]:
    """Draws the entries of an NTK, a Gram matrix or another matrix as colours, samples of one class next to each other.

    A network that tells the classes apart has bright blocks along the diagonal.

    Args:
        matrix: over pairs of samples (n m); for an NTK with its outputs (n m c c), the trace over these is drawn.
        labels: the samples' classes, by which rows and columns are ordered; the matrix is then square. Lines part the
            classes, where these are not too many for that, and some are numbered. Default: the given order.
        ax: where to draw; default: the axes of a new figure.
        label: what the entries are, next to the colour bar.

    Returns:
        The figure and its axes. If there is a negative entry, blue is negative and red positive; otherwise dark is 0
        and yellow the largest. Where a few entries are far larger than the others, the colours end below them, and the
        bar has an arrow.

    Raises:
        ArgumentTypeError: if what is passed is no tensor, or `ax` is not one Axes.
        ShapeError: if the matrix has neither shape, or there is not one label for each row and column.
        EmptyError: if it has no entries.
        RangeError: at NaN or infinity.
    """
    tensors(matrix=matrix, **({} if labels is None else {"labels": labels}))
    _checks.samples(2, matrix=matrix)
    _checks.finite(matrix=matrix)
    if matrix.ndim not in (2, 4) or matrix.shape[2:3] != matrix.shape[3:]:
        raise ShapeError("matrix", "(n, m) or (n, m, c, c)", _checks.shape_of(matrix), "Take one sample's block.")
    if labels is not None and not labels.shape == matrix.shape[:1] == matrix.shape[1:2]:
        got = f"{_checks.shape_of(labels)} for {_checks.shape_of(matrix)}"
        raise ShapeError(
            "labels", "one for each row, and each column, of the matrix", got, "Pass those of its samples."
        )
    entries = numbers(matrix if matrix.ndim == 2 else matrix.diagonal(dim1=2, dim2=3).sum(-1))
    with style.canvas(ax, 3.9, 3.3) as (figure, axes):
        if labels is None:
            in_colours(axes, entries, label)
        else:
            classes = numbers(labels)
            order = np.argsort(classes, kind="stable")
            in_colours(axes, entries[order][:, order], label)
            _mark(axes, classes[order], style.MUTED if (entries < 0).any() else "white")
    return figure, axes


def in_colours(axes: Axes, entries: Numbers, label: str = "") -> None:
    """The entries as colours, NaN and infinity left white, with a colour bar."""
    entries = np.where(np.isfinite(entries), entries, np.nan)
    signed = bool((entries < 0).any())
    most, beyond = _largest(np.abs(entries[np.isfinite(entries)]))
    colours = LinearSegmentedColormap.from_list("entries", list(style.DIVERGING if signed else style.VALUES))
    rows, columns = entries.shape
    image = axes.imshow(
        entries, cmap=colours, vmin=-most if signed else 0, vmax=most, interpolation="none",
        aspect="equal" if rows < 4 * columns and columns < 4 * rows else "auto",
    )  # fmt: skip
    extend = ("both" if signed else "max") if beyond else "neither"
    bar = axes.figure.colorbar(image, cax=axes.inset_axes((1.04, 0, 0.05, 1)), label=label, extend=extend)
    bar.outline.set_visible(False)
    bar.locator, bar.formatter = MaxNLocator(5, steps=scales.ROUND), scales.Plain()
    bar.ax.tick_params(length=0)
    scales.whole(axes, 5)
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=scales.ROUND, integer=True, min_n_ticks=1))
    axes.spines[:].set_visible(False)
    axes.set_anchor("W")
    axes.tick_params(length=0)


def _largest(sizes: Numbers) -> tuple[float, bool]:
    """Where the colours end, and whether entries lie beyond: a few far larger ones do not leave the others one colour.

    They end at the largest entry, or at the 98 % quantile if the largest is more than four times that.
    """
    usual, largest = float(np.quantile(sizes, 0.98)), float(sizes.max())
    return (usual, True) if 0 < 4 * usual < largest else (largest or 1.0, False)


def _mark(axes: Axes, classes: Numbers, colour: str) -> None:
    """Lines between the classes, where they leave most of the matrix to be seen, and numbers in the middle of some.

    Numbers are left out where they would be more than ten or run into each other.
    """
    kinds, first, counts = np.unique(classes, return_index=True, return_counts=True)
    length = 72 * axes.bbox.width / axes.figure.dpi
    if length / len(kinds) > APART:
        for between in first[1:] - 0.5:
            axes.axhline(between, color=colour, linewidth=0.6)
            axes.axvline(between, color=colour, linewidth=0.6)
    names = [f"{kind:g}" for kind in kinds]
    font = axes.xaxis.get_major_ticks(1)[0].label1.get_fontproperties()
    widest = max(width(name, font) for name in names) + GAP * font.get_size_in_points()
    room = len(classes) * max(widest / length, 1 / (NUMBERS + 1) if len(kinds) > NUMBERS else 0)
    shown: dict[float, str] = {}
    for middle, name in zip((first + (counts - 1) / 2).tolist(), names, strict=True):
        if not shown or middle >= max(shown) + room:
            shown[middle] = name
    axes.set_xticks([*shown], [*shown.values()])
    axes.set_yticks([*shown], [*shown.values()])
    axes.set(xlabel="class", ylabel="class")
