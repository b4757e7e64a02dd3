"""How the pictures are drawn: curves over steps, spectra at the end, rows of images, points and maps of a plane."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from runs import BOX, DIGITS, Pair, Run, window_of
from torch import Tensor

import gnomon
from gnomon.regions import decision_boundary, slice_regions

LINES = (("#0072b2", "-", 2.0), ("#d55e00", (0, (4, 2)), 1.7), ("#7f7f7f", (0, (1, 1.4)), 1.9))
"""Colour, dashes and width of each run, the healthy one's first."""
INK, MUTED, GRID = "#1f2933", "#5b6875", "#e3e7ec"
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same on every machine
    "font.size": 8.5,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": "#b8c0ca",
    "axes.labelcolor": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "svg.fonttype": "path",
    "svg.hashsalt": "gnomon",
}
WIDTH, HEIGHT, TOP, BOTTOM, LEFT, RIGHT = 340, 236, 46, 38, 46, 12
"""Of a picture and of the margins around its axes, in CSS pixels."""
SIDE = 90
"""Of a map, in pixels."""
DECISION_BOX = (-13.0, 13.0, -13.0, 13.0)

Runs = dict[str, Run]
Numbers = dict[str, str]
Of = Callable[[Tensor], Tensor]
"""The number that the caption names, of all that are drawn."""


@dataclass(frozen=True)
class Picture:
    """What is drawn of which runs; `draw` returns the numbers that the caption must name, by run."""

    pair: Pair
    keys: tuple[str, ...]
    draw: Callable[[Figure, Runs], Numbers]


def number(value: float, form: str) -> str:
    """A number as the captions have it."""
    text = format(value, form).replace("%", " %").replace("e-0", "e-")
    return "−" + text[1:] if text.startswith("-") else text


def axes_of(figure: Figure, x_label: str, y_label: str, log_y: bool = False) -> Axes:
    """The axes of a curve."""
    box = (LEFT / WIDTH, BOTTOM / HEIGHT, 1 - (LEFT + RIGHT) / WIDTH, 1 - (TOP + BOTTOM) / HEIGHT)
    axes = figure.add_axes(box)
    axes.set_xlabel(x_label)
    figure.text(8 / WIDTH, 1 - 8 / HEIGHT, y_label, va="top")
    if log_y:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(numticks=6))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.grid(visible=True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=0, which="both")
    return axes


def steps_of(figure: Figure, y_label: str, log_y: bool = False) -> Axes:
    """The axes of a curve over the steps of training."""
    axes = axes_of(figure, "step", y_label, log_y)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    return axes


def curve(
    pair: Pair, key: str, y_label: str, form: str, log: bool = False, part: int | None = None, needs: str = ""
) -> Picture:
    """A quantity's mean over the samples, or that of one part of it, at each step."""

    def draw(figure: Figure, runs: Runs) -> Numbers:
        axes, ends = steps_of(figure, y_label, log), {}
        for (arm, run), line in zip(runs.items(), LINES, strict=False):
            values = [float((value if part is None else value[part]).double().mean()) for value in run.values[key]]
            plot(axes, run.steps[1:], values[1:], line, arm)
            ends[arm] = number(values[-1], form)
        if log and axes.get_ylim()[1] < 100 * axes.get_ylim()[0]:
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        legend(axes)
        return ends

    return Picture(pair, (key, needs) if needs else (key,), draw)


def plot(axes: Axes, x: Sequence[float], y: Sequence[float], line: tuple[Any, ...], label: str) -> None:
    """One run's line."""
    axes.plot(x, y, color=line[0], linestyle=line[1], linewidth=line[2], label=label, solid_capstyle="round")


def legend(axes: Axes) -> None:
    """The runs' names in a row above the axes."""
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.155, 1.0), ncols=3, frameon=False, handlelength=2.1, columnspacing=1.2,
        handletextpad=0.5, borderaxespad=0.2,
    )  # fmt: skip


def spectrum(pair: Pair, key: str, x_label: str, y_label: str, form: str, of: Of, log: bool = False) -> Picture:
    """A quantity's parts at the end of training, its mean over the samples; in grey at the start of the first run."""

    def draw(figure: Figure, runs: Runs) -> Numbers:
        axes, ends = axes_of(figure, x_label, y_label, log), {}
        for (arm, run), line in zip(runs.items(), LINES, strict=False):
            ends_of_it = (run.values[key][0], run.values[key][-1])
            start, last = (value.detach().double().reshape(-1, value.shape[-1]).mean(0) for value in ends_of_it)
            places = range(1, len(last) + 1)
            if line is LINES[0] and len(runs) == 2:
                axes.plot(places, start, color=MUTED, linewidth=0.8, label="at the start")
            plot(axes, places, last.tolist(), line, arm)
            ends[arm] = number(float(of(last)), form)
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        legend(axes)
        return ends

    return Picture(pair, (key,), draw)


def panels(figure: Figure, arms: Sequence[str]) -> list[Axes]:
    """One square for each run, its name above."""
    gap, side = 10, min(178, (WIDTH - 10 * (len(arms) + 1)) / len(arms))
    figure.set_size_inches(WIDTH / 96, (side + 34) / 96)
    height, drawn = side + 34, []
    for place, (arm, line) in enumerate(zip(arms, LINES, strict=False)):
        left = (WIDTH - len(arms) * (side + gap) + gap) / 2 + place * (side + gap)
        axes = figure.add_axes((left / WIDTH, 8 / height, side / WIDTH, side / height))
        axes.set_title(arm, size=8.5, color=line[0], pad=5)
        axes.set_xticks([])
        axes.set_yticks([])
        drawn.append(axes)
    return drawn


def images(key: str, count: int, above: str = "") -> Picture:
    """The last reading as a row of images for each run, each image divided by its own largest value."""

    def draw(figure: Figure, runs: Runs) -> Numbers:
        rows = {arm: run.values[key][-1][:count] for arm, run in runs.items()}
        colours = [line[0] for line in LINES]
        if above:
            rows, colours = {above: runs[next(iter(runs))].train.x[:count]} | rows, [MUTED, *colours]
        side, beside = (112, 160) if count == 1 else ((WIDTH - 16) / count - 6, 0)
        below = side + 24 if count > 1 else 0
        height = side + 30 + below * (len(rows) - 1)
        figure.set_size_inches(WIDTH / 96, height / 96)
        for place, (label, row) in enumerate(rows.items()):
            pixels = row.detach().double().reshape(count, 8, 8)
            mosaic = np.full((8, 9 * count - 1), np.nan)
            for i, picture in enumerate(pixels):
                mosaic[:, 9 * i : 9 * i + 8] = picture / picture.abs().max()
            signed = bool((pixels < 0).any())
            corner = ((8 + 26 * (count == 1) + place * beside) / WIDTH, (height - 22 - side - place * below) / height)
            axes = figure.add_axes((*corner, (9 * count - 1) / 8 * side / WIDTH, side / height))
            axes.imshow(
                mosaic, cmap="RdBu_r" if signed else "gray_r", vmin=-1 if signed else 0, vmax=1, aspect="auto",
                interpolation="none",
            )  # fmt: skip
            axes.set_axis_off()
            axes.set_title(label, size=8.5, loc="left", pad=4, color=colours[place])
        return {}

    return Picture(DIGITS, (key,), draw)


def scatter(
    figure: Figure, runs: Runs, points: Callable[[Run], Tensor], before: Callable[[Run], Tensor] | None
) -> None:
    """The last reading as points of a plane, coloured by class; where they were before, in grey."""
    for axes, run in zip(panels(figure, list(runs)), runs.values(), strict=True):
        if before is not None:
            axes.plot(*before(run)[:80].T, "o", color="#c9d0d8", markersize=2.5, markeredgewidth=0, rasterized=True)
        for label in run.train.labels.unique():
            here = points(run)[:80][run.train.labels[:80] == label]
            axes.plot(*here.T, "o", color=f"C{int(label)}", markersize=3, markeredgewidth=0, rasterized=True)
        axes.margins(0.08)


def class_means(figure: Figure, runs: Runs) -> Numbers:
    """The features in the plane where the class means differ most."""
    scatter(figure, runs, lambda run: run.values["means"][-1], None)
    return {}


def cut(figure: Figure, runs: Runs) -> Numbers:
    """Where the network's ReLUs have moved the samples in the input space."""
    scatter(figure, runs, lambda run: run.values["truncated_inputs"][-1][-1].detach(), lambda run: run.train.x)
    ends = {}
    for arm, run in runs.items():
        moments = gnomon.class_moments(run.values["truncated_inputs"][-1][-1].detach(), run.train.labels, 2)
        ends[arm] = number(float(gnomon.nc1_trace_ratio(moments)), ".3f")
    return ends


def ratio_cosines(figure: Figure, runs: Runs) -> Numbers:
    """The cosines between the columns of the signal-to-noise ratio, class by class."""
    ends = {}
    for axes, (arm, run) in zip(panels(figure, list(runs)), runs.items(), strict=True):
        cosines = run.values["snr"][-1]
        axes.imshow(cosines, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="none")
        ends[arm] = number(float(cosines[~torch.eye(len(cosines), dtype=torch.bool)].std()), ".2f")
    return ends


def moving_kernel(figure: Figure, runs: Runs) -> Numbers:
    """The kernel's cosine with its start, and shaded from when to when the kernel moves."""
    axes, found = steps_of(figure, "cosine with the kernel at the start"), {}
    for (arm, run), line in zip(runs.items(), LINES, strict=False):
        kernels = torch.stack(run.values["kernel"])
        interval = gnomon.feature_learning_interval(run.steps, kernels)
        plot(axes, run.steps[1:], [float(value) for value in run.values["ntk"][1:]], line, arm)
        found[arm] = "rests"
        if interval.moves:
            axes.axvspan(max(1.0, interval.start), interval.end, color=line[0], alpha=0.13, linewidth=0)
            found[arm] = f"{interval.start:,.0f} to {interval.end:,.0f}"
    legend(axes)
    return found


def resting(figure: Figure, runs: Runs) -> Numbers:
    """The centroid alignment, the least that counts as high, and where the rule first says that it rests."""
    axes, found = steps_of(figure, "centroid alignment"), {}
    axes.axhline(0.5, color=MUTED, linewidth=0.8)
    for (arm, run), line in zip(runs.items(), LINES, strict=False):
        keys = ("centroid_alignment", "explained_variance_ratio")
        alignment, pc1 = ([float(value.mean()) for value in run.values[key]] for key in keys)
        plot(axes, run.steps[1:], alignment[1:], line, arm)
        message = [gnomon.plateau(run.steps[:end], alignment[:end], pc1[:end]) for end in range(1, len(run.steps) + 1)]
        first = next((step for step, verdict in zip(run.steps, message, strict=True) if verdict.reached), None)
        if first is not None:
            axes.axvline(first, color=line[0], linewidth=1)
        found[arm] = number(message[-1].gain, "+.3f")
        print(f"  plateau, {arm}: first reached at {first}; {says[-1].message}")
    legend(axes)
    return found


def mapped(figure: Figure, runs: Runs) -> Numbers:
    """The linear regions around a digit, in colours without meaning."""
    counts = {}
    for axes, (arm, run) in zip(panels(figure, list(runs)), runs.items(), strict=True):
        regions = slice_regions(run.model, window_of(run), BOX)
        shades = torch.rand(len(regions), generator=torch.Generator().manual_seed(0)).mul(8).floor().div(8)
        pixels = shades[regions.region_of_points(grid(BOX))].reshape(SIDE, SIDE)
        axes.imshow(pixels, cmap="Blues", vmin=-0.3, vmax=1.3, origin="lower", interpolation="none")
        axes.plot([SIDE / 2 - 0.5], [SIDE / 2 - 0.5], "o", color="black", markersize=4)
        counts[arm] = f"{len(regions):,}"
    return counts


def grid(box: Sequence[float]) -> Tensor:
    """The middles of SIDE x SIDE pixels of a window."""
    left, right, bottom, top = box
    middles = (torch.arange(SIDE, dtype=torch.float64) + 0.5) / SIDE
    u, v = left + (right - left) * middles, bottom + (top - bottom) * middles
    return torch.stack(torch.meshgrid(u, v, indexing="xy"), -1).reshape(-1, 2)


def decided(figure: Figure, runs: Runs) -> Numbers:
    """Where the class changes on a plane through three digits."""
    lengths = {}
    for axes, (arm, run) in zip(panels(figure, list(runs)), runs.items(), strict=True):
        plane = window_of(run)
        lines = decision_boundary(slice_regions(run.model, plane, DECISION_BOX))
        classes = run.model(plane.embed(grid(DECISION_BOX)).to(run.train.x)).argmax(1)
        axes.imshow(
            classes.reshape(SIDE, SIDE), cmap="tab10", vmin=0, vmax=9, origin="lower", alpha=0.55, extent=DECISION_BOX,
            interpolation="none",
        )  # fmt: skip
        gap = torch.full((1, 2), torch.nan)
        axes.plot(*torch.cat([part for line in lines for part in (line, gap)]).T, color=INK, linewidth=0.6)
        for x, label in zip(plane.project(run.train.x[:3].double()).tolist(), run.train.labels.tolist(), strict=False):
            axes.plot(*x, "o", color="black", markersize=4)
            axes.annotate(str(label), x, xytext=(4, 3), textcoords="offset points")
        axes.set_xlim(DECISION_BOX[:2])
        axes.set_ylim(DECISION_BOX[2:])
        lengths[arm] = f"{sum(float(line.diff(dim=0).norm(dim=1).sum()) for line in lines):,.0f}"
    return lengths
