"""Draws what `benchmarks/scale.py` measured: `python docs/pictures/scale.py`."""

import json
from pathlib import Path
from typing import Any

import matplotlib
from drawing import STYLE, save
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from gnomon.plot import scales, style

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "scale.jsonl"
PICTURE = ROOT / "docs" / "assets" / "scale.svg"
WIDTH, HEIGHT = 720, 400
"""CSS pixels."""

Found = dict[str, Any]
ROWS = (("seconds of the processor", "seconds", "processor"), ("MiB beyond network and data", "MiB", "beyond"))
"""What stands above the panels, and where it stands in a line of the file."""


def lines(found: list[Found]) -> dict[str, dict[str, list[tuple[int, Found]]]]:
    """By x axis and by the name of the line, x and what was found there."""
    default = [each for each in found if each["point"]["quantities"] == "default" and each["seconds"]]
    drawn: dict[str, dict[str, list[tuple[int, Found]]]] = {"outputs": {}, "samples": {}, "parameters": {}}
    for each in default:
        point = each["point"]
        name = "to 5 %" if point["rtol"] else "by the Jacobian"
        if point["processes"] > 1:
            continue
        if point["network"] == "CNN":
            drawn["samples"].setdefault(name, []).append((point["samples"], each))
        elif point["samples"] == 2:
            drawn["parameters"].setdefault(name, []).append((each["parameters"], each))
        else:
            drawn["outputs"].setdefault(name, []).append((point["outputs"], each))
    return drawn


def draw(found: list[Found]) -> Figure:
    """Seconds above, memory below; from left to right by outputs, samples and parameters."""
    figure = Figure(figsize=(WIDTH / 96, HEIGHT / 96), dpi=96, facecolor="white")
    panels = figure.subplots(2, 3, sharex="col")
    for column, (x_label, by_name) in enumerate(lines(found).items()):
        for row, (y_label, *keys) in enumerate(ROWS):
            axes = panels[row, column]
            panel(axes, by_name, keys)
            if row == 1:
                axes.set_xlabel(x_label)
            if column == 0:
                axes.set_title(y_label, loc="left", size=8.5, x=-0.22)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), frameon=False, loc="upper right", ncols=2, fontsize=8.5)
    figure.subplots_adjust(left=0.065, right=0.985, top=0.935, bottom=0.115, wspace=0.24, hspace=0.26)
    return figure


def panel(axes: Axes, by_name: dict[str, list[tuple[int, Found]]], keys: list[str]) -> None:
    """One quantity against one axis."""
    group, key = keys
    ends, values = [], []
    for place, (name, points) in enumerate(sorted(by_name.items(), reverse=True)):
        points = sorted(points, key=lambda point: point[0])
        xs, ys = [x for x, _ in points], [max(each[group][key], 1) for _, each in points]
        axes.plot(xs, ys, **style.line(place), marker="o", markersize=3.5, label=name)
        ends += xs
        values += ys
    low, high = min(values) / 3, 3 * max(values)
    scales.logarithmic(axes, "x", min(ends), max(ends))
    scales.logarithmic(axes, "y", low, high)
    axes.set_ylim(low, high)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    style.frame(axes)
    axes.grid(visible=False, axis="x")


def short(value: float) -> str:
    """A large number as it is said."""
    size, unit = next(((size, unit) for size, unit in ((10**6, " M"), (10**3, " k")) if value >= size), (1, ""))
    return f"{value / size:,.0f}{unit}"


if __name__ == "__main__":
    # As text, of which there is much here.
    with matplotlib.rc_context(STYLE | {"svg.fonttype": "none"}):
        rows = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
        metadata = {"Title": "How the cost of a reading grows", "Date": None, "Creator": "gnomon"}
        save(draw(rows), PICTURE, metadata)
