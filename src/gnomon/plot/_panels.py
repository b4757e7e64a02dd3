"""One panel of what was read at one step: which kind of picture its values call for, and that picture."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from torch import Tensor

from gnomon._words import apart, number
from gnomon.plot import _legend, scales, style
from gnomon.plot._curves import Curve, Look, draw
from gnomon.plot._histogram import histogram
from gnomon.plot._images import images
from gnomon.plot._kernel import in_colours
from gnomon.plot._values import Numbers, numbers

PLACES = {"k": "class", "l": "layer", "hidden": "hidden layer", "chains": "chain", "b": "batch"}
"""What an axis of this name counts."""
LOOSE = ("k", "chains", "b")
"""Axes whose places have no order, so that no line joins them."""
IMAGES = 8
AROUND = 0.6
"""The height of what is above and below a panel's axes, in inches."""


@dataclass
class Panel:
    """One panel.

    Attributes:
        kind: what draws it.
        axes: the names of the values' axes, as in the quantity's annotation; None if unknown.
        log: whether the value axis is logarithmic, if the values are above 0.
        right: which samples are classified correctly, if that is known.
        held: the values, by what comes before the quantity's name.
    """

    kind: "Kind"
    axes: tuple[str, ...] | None
    log: bool
    right: Tensor | None
    held: dict[str, Tensor] = field(default_factory=dict)

    def draw(self, axes: Axes) -> None:
        """Draws into these axes, or writes there that there is nothing to draw."""
        self.held = {name: value.cpu().double() for name, value in self.held.items()}
        if any(value.isfinite().any() for value in self.held.values()):
            self.kind(axes, self)
        else:
            nothing(axes, "no finite value")


def nothing(axes: Axes, words: str) -> None:
    """Writes why there is nothing to draw, with no axes."""
    style.written(axes, words)
    axes.set_axis_off()


Kind = Callable[[Axes, Panel], None]


def kind_of(value: Tensor, axes: tuple[str, ...] | None) -> Kind:
    """How a value of this shape is drawn, whether or not the names of its axes are known."""
    if value.numel() == 1 and value.ndim < 3:
        return points
    if value.ndim == 1:
        if (value.is_floating_point() or value.dtype == torch.bool) and bool(((value == 0) | (value == 1)).all()):
            return points
        of_samples = axes is None or axes[:1] in (("n",), ("*n",))
        return samples if of_samples and not (axes is None and falling(value)) else lines
    if axes == ("n", "c"):
        return samples
    if value.ndim == 2:
        return lines if falling(value) or axes in (("n", "l"), ("l", "k")) else entries
    square = value.ndim == 4 and len(value) == value.shape[1] and value.shape[2] == value.shape[3]
    return entries if square and axes is None else pictures


def falling(value: Tensor) -> bool:
    """Whether values fall from each to the next, as those of a spectrum do."""
    steps = value.detach().cpu().double().diff(dim=-1)
    return value.shape[-1] > 1 and bool((steps <= 0).all()) and bool((steps < 0).any())


def alone(kind: Kind, right: Tensor | None) -> bool:
    """Whether one quantity on several splits needs as many panels."""
    return kind in (entries, pictures) or (kind is samples and right is not None)


def points(axes: Axes, panel: Panel) -> None:
    """One number each, with its digits next to it; where each sample is right or wrong, 1 or 0, their mean."""
    values = {name: value.mean().item() for name, value in panel.held.items()}
    shown = {name: value for name, value in values.items() if np.isfinite(value)}
    log = panel.log and min(shown.values()) > 0
    rows = range(len(shown))
    axes.scatter(list(shown.values()), rows, color=style.colour(0), s=34, zorder=3)
    for row, value in zip(rows, shown.values(), strict=True):
        axes.annotate(number(value), (value, row), (6, 0), textcoords="offset points", va="center", size=8.5)
    low, high = min(shown.values()), max(shown.values())
    if log:
        axes.set_xlim(low / 2, high * max(4, (high / low) ** 0.4))
        scales.logarithmic(axes, "x", *axes.get_xlim())
    else:
        low, high = min(low, 0), max(high, 0)
        room = high - low or 1
        axes.set_xlim(low - 0.05 * room, high + 0.3 * room)
        scales.linear(axes, "x", 5)
    font = _legend.font_size(matplotlib.rcParams["ytick.labelsize"])
    every = max(1, math.ceil(len(shown) * font / 72 / high_in_inches(axes)))
    length = int(0.5 * axes.bbox.width / axes.figure.dpi * 72 / (_legend.CHARACTER * font))
    names = [style.words(name) for name in apart([*shown], length)]
    axes.set_yticks(rows[::every], names[::every], parse_math=False)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    style.frame(axes)


def high_in_inches(axes: Axes) -> float:
    """How high the axes are, or about how high a layout that makes room for titles and numbers will make them."""
    figure, spec = axes.figure.figure, axes.get_subplotspec()
    if spec is None or figure.get_layout_engine() is None:
        return float(axes.bbox.height / figure.dpi)
    return float(figure.get_figheight() / spec.get_gridspec().nrows - AROUND)


def samples(axes: Axes, panel: Panel) -> None:
    """How many samples have which value; correct ones apart from wrong ones, each as shares of their group."""
    groups: dict[str, Numbers] = {}
    for name, value in panel.held.items():
        own = value.flatten(1) if value.ndim > 1 else value[:, None]
        if panel.right is None:
            groups[name] = numbers(own.flatten())
        else:
            for word, kept in (("correct", panel.right.cpu() == 1), ("wrong", panel.right.cpu() == 0)):
                groups[f"{int(kept.sum())} {word}"] = numbers(own[kept].flatten())
    finite = {name: values[np.isfinite(values)] for name, values in groups.items() if np.isfinite(values).any()}
    bins = min(30, max(8, round(2 * min(map(len, finite.values())) ** 0.5)))  # not more than the smallest group fills
    histogram(axes, finite, bins=bins, log=panel.log, share=len(finite) > 1)
    count, shown = (sum(map(len, some.values())) for some in (groups, finite))
    if shown < count:
        axes.set_xlabel(f"{count - shown:,} of {count:,} not finite")


def lines(axes: Axes, panel: Panel) -> None:
    """The mean over the rows, and the middle half of these, against the place along the last axis."""
    axis = panel.axes[-1] if panel.axes else ""
    start = 0 if axis == "k" else 1
    log = panel.log or (axis not in PLACES and all(falling(value) for value in panel.held.values()))
    log = log and any((value > 0).any() for value in panel.held.values())
    curves: list[tuple[Curve, Look, str]] = []
    most = 1
    for place, (name, value) in enumerate(panel.held.items()):
        rows = numbers(value.reshape(-1, value.shape[-1]))
        rows = np.where(np.isfinite(rows), rows, np.nan)
        where = np.arange(start, start + rows.shape[1], dtype=float)
        with_some = np.isfinite(rows).any(0)
        low, means, high = np.full((3, rows.shape[1]), np.nan)
        low[with_some], high[with_some] = np.nanquantile(rows[:, with_some], [0.25, 0.75], axis=0)
        means[with_some] = np.nanmean(rows[:, with_some], axis=0)
        if not (means > 0 if log else with_some).any():
            continue
        look = style.line(place) | ({"linestyle": ""} if axis in LOOSE else {}) | {"markersize": 5}
        marks = {"marker": "o"} if axis in LOOSE or len(where) <= 12 else {}
        curves.append((Curve(where, means, (low, high) if len(rows) > 1 else None), look | marks, name))
        most = max(most, len(where))
    draw(axes, curves, log=log, ticks=5)
    scales.whole(axes, min(8, most))
    axes.set_xlabel(PLACES.get(axis, "k"))
    style.frame(axes)


def entries(axes: Axes, panel: Panel) -> None:
    """A matrix as colours."""
    (value,) = panel.held.values()
    traces = value if value.ndim == 2 else value.diagonal(dim1=2, dim2=3).sum(-1)
    in_colours(axes, numbers(traces))


def pictures(axes: Axes, panel: Panel) -> None:
    """The first finite entries as images, averaged over all axes in between."""
    (value,) = panel.held.values()
    whole = value[value.flatten(1).isfinite().all(1)][:IMAGES]
    if len(whole):
        images(whole.flatten(1, -3).mean(1) if whole.ndim > 3 else whole, ax=axes)
    else:
        nothing(axes, "no finite sample")
