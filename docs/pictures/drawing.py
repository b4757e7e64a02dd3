"""How the pictures are drawn: `gnomon.plot` into axes that leave room for a caption's size of text."""

import base64
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from runs import BOX, DIGITS, Pair, Run, window_of
from torch import Tensor

import gnomon
from gnomon import plot
from gnomon.plot import scales, style
from gnomon.regions import decision_boundary, slice_regions

STYLE: Any = style.STYLE | {"font.size": 8.5, "text.parse_math": False}
WIDTH, HEIGHT, TOP, BOTTOM, LEFT, RIGHT = 340, 236, 46, 38, 46, 12
"""Of a picture and of the margins around its axes, in CSS pixels."""
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


def save(figure: Figure, path: Path, metadata: dict[str, Any]) -> None:
    """Writes the picture small: paths without their blanks, places to a hundredth of a point, pixels by a palette."""
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata=metadata, dpi=192)
    text = re.sub(r' d="[^"]+"', lambda found: re.sub(r"\s*([MLQz])\s*", r"\1", found[0]), written.getvalue())
    text = re.sub(r"(data:image/png;base64,)([^\"]+)", lambda found: found[1] + few_colours(found[2]), text)
    text = re.sub(r"(?<![\d.])([1-9]\d*\.\d\d)\d{2,}", r"\1", text)
    path.write_text(re.sub(r"\n +", "\n", text), encoding="utf-8")


def few_colours(png: str) -> str:
    """An image, encoded as in the SVG, with a palette of 64 colours."""
    written = io.BytesIO()
    image = Image.open(io.BytesIO(base64.b64decode(png)))
    image.quantize(64, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(written, "png", optimize=True)
    return base64.b64encode(written.getvalue()).decode()


def number(value: float, form: str) -> str:
    """A number as the captions have it."""
    text = format(value, form).replace("%", " %").replace("e-0", "e-")
    return "−" + text[1:] if text.startswith("-") else text


def axes_of(figure: Figure) -> Axes:
    """The axes of a curve."""
    box = (LEFT / WIDTH, BOTTOM / HEIGHT, 1 - (LEFT + RIGHT) / WIDTH, 1 - (TOP + BOTTOM) / HEIGHT)
    return figure.add_axes(box)


def label(axes: Axes, x_label: str, y_label: str) -> None:
    """The y axis' words above the picture, where they do not narrow it, and the legend in one row below them."""
    axes.set(xlabel=x_label, ylabel="")
    axes.figure.text(8 / WIDTH, 1 - 8 / HEIGHT, y_label, va="top")
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.155, 1.0), ncols=3, frameon=False, handlelength=2.1, columnspacing=1.2,
        handletextpad=0.5, borderaxespad=0.2,
    )  # fmt: skip


def course(axes: Axes, runs: Runs, quantity: str, log: bool = False) -> None:
    """The mean over the samples against the step, after step 0, a line for each run."""
    steps = [reading.step for reading in next(iter(runs.values())).readings if reading.step > 0]
    for dash, (arm, run) in enumerate(runs.items()):
        means = [reading.scalars()[quantity] for reading in run.readings if reading.step > 0]
        axes.plot(steps, means, **style.line(run.colour, dash), label=arm)
    scales.logarithmic(axes, "x", steps[0], steps[-1])
    scales.values(axes, log=log)
    style.frame(axes)


def curve(pair: Pair, key: str, y_label: str, form: str, log: bool = False, part: str = "", needs: str = "") -> Picture:
    """A quantity's mean over the samples, or that of one part of it, at each step."""

    def draw(figure: Figure, runs: Runs) -> Numbers:
        quantity = f"{key}.{part}" if part else key
        axes = axes_of(figure)
        course(axes, runs, quantity, log)
        label(axes, "step", y_label)
        if axes.get_ylim()[1] >= 1e5:  # more digits than there is room for
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}".replace("e+0", "e"))
        return {arm: number(run.readings[-1].scalars()[quantity], form) for arm, run in runs.items()}

    return Picture(pair, (key, needs) if needs else (key,), draw)


def spectrum(pair: Pair, key: str, x_label: str, y_label: str, form: str, of: Of, log: bool = False) -> Picture:
    """A quantity's parts at the end of training, its mean over the samples; in grey at the start of the first run."""

    def draw(figure: Figure, runs: Runs) -> Numbers:
        axes, first = axes_of(figure), next(iter(runs.values()))
        if len(runs) == 2:
            start = means(first.read(key, 0))
            axes.plot(range(1, len(start) + 1), start, color=style.MUTED, linewidth=0.8, label="at the start")
        last = {arm: means(run.read(key)) for arm, run in runs.items()}
        plot.spectrum(last, ax=axes, log_y=log)
        for line, run in zip(axes.lines[-len(runs) :], runs.values(), strict=True):
            line.set_color(style.colour(run.colour))
        label(axes, x_label, y_label)
        return {arm: number(float(of(values)), form) for arm, values in last.items()}

    return Picture(pair, (key,), draw)


def means(values: Tensor) -> Tensor:
    """Over the samples."""
    return values.detach().double().reshape(-1, values.shape[-1]).mean(0)


def panels(figure: Figure, runs: Runs) -> list[Axes]:
    """One square for each run, its name above."""
    gap, side = 10, min(178, (WIDTH - 10 * (len(runs) + 1)) / len(runs))
    figure.set_size_inches(WIDTH / 96, (side + 34) / 96)
    height, drawn = side + 34, []
    for place, (arm, run) in enumerate(runs.items()):
        left = (WIDTH - len(runs) * (side + gap) + gap) / 2 + place * (side + gap)
        axes = figure.add_axes((left / WIDTH, 8 / height, side / WIDTH, side / height))
        axes.set_title(arm, size=8.5, color=style.colour(run.colour), pad=5)
        drawn.append(axes)
    return drawn


def bare(axes: Axes) -> None:
    """Without ticks, words and legend."""
    axes.set(xticks=[], yticks=[], xlabel="", ylabel="")
    if legend := axes.get_legend():
        legend.remove()


def images(key: str, count: int, above: str = "") -> Picture:
    """The last reading as a row of images for each run, each image divided by its own largest value."""

    def draw(figure: Figure, runs: Runs) -> Numbers:
        rows = {arm: run.read(key)[:count] for arm, run in runs.items()}
        colours = [style.colour(run.colour) for run in runs.values()]
        if above:
            rows, colours = {above: next(iter(runs.values())).train.x[:count]} | rows, [style.MUTED, *colours]
        side, beside = (112, 160) if count == 1 else ((WIDTH - 16) / count - 6, 0)
        below = side + 24 if count > 1 else 0
        height = side + 30 + below * (len(rows) - 1)
        figure.set_size_inches(WIDTH / 96, height / 96)
        for place, (name, row) in enumerate(rows.items()):
            corner = ((8 + 26 * (count == 1) + place * beside) / WIDTH, (height - 22 - side - place * below) / height)
            axes = figure.add_axes((*corner, (9 * count - 1) / 8 * side / WIDTH, side / height))
            plot.images(row.reshape(count, 8, 8), ax=axes)
            axes.set_title(name, size=8.5, loc="left", pad=4, color=colours[place])
        return {}

    return Picture(DIGITS, (key,), draw)


def class_means(figure: Figure, runs: Runs) -> Numbers:
    """The features in the plane where the class means differ most."""
    for axes, run in zip(panels(figure, runs), runs.values(), strict=True):
        plot.classes(run.read("means")[:80], run.train.labels[:80], ax=axes)
        bare(axes)
    return {}


def cut(figure: Figure, runs: Runs) -> Numbers:
    """Where the network's ReLUs have moved the samples in the input space; where they were before, in grey."""
    ends = {}
    for axes, (arm, run) in zip(panels(figure, runs), runs.items(), strict=True):
        moved = run.read("truncated_inputs")[-1].detach()
        axes.plot(*run.train.x[:80].T, "o", color="#c9d0d8", markersize=2.5, markeredgewidth=0, rasterized=True)
        plot.classes(moved[:80], run.train.labels[:80], ax=axes)
        bare(axes)
        ends[arm] = number(float(gnomon.nc1_trace_ratio(gnomon.class_moments(moved, run.train.labels, 2))), ".3f")
    return ends


def ratio_cosines(figure: Figure, runs: Runs) -> Numbers:
    """The cosines between the columns of the signal-to-noise ratio, class by class."""
    ends = {}
    for axes, (arm, run) in zip(panels(figure, runs), runs.items(), strict=True):
        cosines = run.read("snr")
        plot.images(cosines[None], ax=axes, signed=True)
        ends[arm] = number(float(cosines[~torch.eye(len(cosines), dtype=torch.bool)].std()), ".2f")
    return ends


def moving_kernel(figure: Figure, runs: Runs) -> Numbers:
    """The kernel's CKA with its start, and shaded from when to when the kernel moves."""
    axes = axes_of(figure)
    course(axes, runs, "ntk")
    label(axes, "step", "CKA with the kernel at the start")
    found = {}
    for arm, run in runs.items():
        kernels = torch.stack([reading.values["kernel"] for reading in run.readings])
        interval = gnomon.feature_learning_interval([reading.step for reading in run.readings], kernels)
        found[arm] = "rests"
        if interval.moves:
            colour, start = style.colour(run.colour), max(1.0, interval.start)
            axes.axvspan(start, interval.end, color=colour, alpha=0.13, linewidth=0)
            found[arm] = f"{interval.start:,.0f} to {interval.end:,.0f}"
    return found


def resting(figure: Figure, runs: Runs) -> Numbers:
    """The centroid alignment, the least that counts as high, and where the rule first says that it rests."""
    axes = axes_of(figure)
    course(axes, runs, "centroid_alignment")
    label(axes, "step", "centroid alignment")
    axes.axhline(0.2, color=style.MUTED, linewidth=0.8)
    found = {}
    for arm, run in runs.items():
        steps = [reading.step for reading in run.readings]
        keys = ("centroid_alignment", "explained_variance_ratio")
        alignment, pc1 = ([reading.scalars()[key] for reading in run.readings] for key in keys)
        verdicts = [gnomon.plateau(steps[:end], alignment[:end], pc1[:end]) for end in range(1, len(steps) + 1)]
        first = next((step for step, verdict in zip(steps, verdicts, strict=True) if verdict.reached), None)
        if first is not None:
            axes.axvline(first, color=style.colour(run.colour), linewidth=1)
        found[arm] = number(verdicts[-1].gain, "+.3f")
        print(f"  plateau, {arm}: first reached at {first}; {verdicts[-1].message}")
    return found


LOOKED_AT = {name: name for name in gnomon.history.corpus().quantities} | {"accuracy": "fitted"}
"""What a verdict looks at, by the quantity that is read."""


def probable(figure: Figure, runs: Runs) -> Numbers:
    """The probability that unseen accuracy rises, where it is told; the numbers: when training data are fitted."""
    axes, found = axes_of(figure), {}
    for dash, (arm, run) in enumerate(runs.items()):
        steps = [reading.step for reading in run.readings]
        columns = {name: [each.scalars()[key] for each in run.readings] for name, key in LOOKED_AT.items()}
        told = [
            gnomon.verdict(steps[:end], **{name: column[:end] for name, column in columns.items()})
            for end in range(1, len(steps) + 1)
        ]
        probabilities = [float("nan") if each.probability is None else each.probability for each in told]
        axes.plot(steps, probabilities, **style.line(run.colour, dash), label=arm)
        fitted = next(step for step, share in enumerate(columns["accuracy"]) if share >= 0.99)
        axes.plot(steps[fitted], probabilities[fitted], "o", color=style.colour(run.colour))
        found[arm] = number(probabilities[fitted], ".0%")
        then, end = (reading.scalars()["accuracy"] for reading in (run.readings[fitted], run.readings[-1]))
        print(f"  verdict, {arm}: unseen {then:.1%}, at the end {end:.1%}; {told[fitted].message}")
    axes.set(ylim=(0, 1))
    scales.logarithmic(axes, "x", 10, steps[-1])
    style.frame(axes)
    label(axes, "step", "probability of a rise by five points")
    return found


def mapped(figure: Figure, runs: Runs) -> Numbers:
    """The linear regions around a digit, in colours without meaning."""
    counts = {}
    for axes, (arm, run) in zip(panels(figure, runs), runs.items(), strict=True):
        regions = slice_regions(run.model, window_of(run), BOX)
        plot.regions(regions, ax=axes)
        axes.plot(0, 0, "o", color="black", markersize=4)
        bare(axes)
        counts[arm] = f"{len(regions):,}"
    return counts


def decided(figure: Figure, runs: Runs) -> Numbers:
    """Where the class changes on a plane through three digits."""
    lengths = {}
    for axes, (arm, run) in zip(panels(figure, runs), runs.items(), strict=True):
        plane = window_of(run)
        regions = slice_regions(run.model, plane, DECISION_BOX)
        plot.decision_boundary(regions, ax=axes, pixels=90)
        for x, name in zip(plane.project(run.train.x[:3].double()).tolist(), run.train.labels.tolist(), strict=False):
            axes.plot(*x, "o", color="black", markersize=4)
            axes.annotate(str(name), x, xytext=(4, 3), textcoords="offset points")
        bare(axes)
        lines = decision_boundary(regions)
        lengths[arm] = f"{sum(float(line.diff(dim=0).norm(dim=1).sum()) for line in lines):,.0f}"
    return lengths
