"""Figures as matplotlib draws them, for SVG files. The object API only: pyplot's global state stays untouched."""

import textwrap
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D

from gnomon.plot import image_gap, images, scales, style
from gnomon_lab.figures import Curves, Figure, ImageRow, ImageSlider, Line, Panel, RegionMap, Scatter, Space
from gnomon_lab.report.drawing import _layout
from gnomon_lab.report.drawing._matplotlib import EDGE, TITLE, canvas, draw_legend, legend_px, plain
from gnomon_lab.report.drawing._static_region_map import draw_region_map
from gnomon_lab.report.drawing._static_scatter import draw_scatter
from gnomon_lab.report.drawing._static_space import draw_space

# Sizes in CSS pixels, as in `_layout`.
_MARGIN_LEFT, _MARGIN_RIGHT = 84, 24
_Y_LABEL, _NUMBER = 60, 6  # left of the axis, which leaves room for so many characters, as in -0.030
_ROW_LABELS, _TALLEST_IMAGE, _HEADING, _NOTE, _FRAMES = 176, 72, 30, 34, 5


def draw(figure: Figure) -> Drawing:
    """Draws a figure.

    For an `ImageSlider`, the first, the last and up to three frames between are drawn, one below the other; for a
    `RegionMap` or a `Space`, up to three frames side by side.

    Args:
        figure: what to show. On a logarithmic axis points and marks at x <= 0 are left out.

    Returns:
        A matplotlib figure that belongs to no window and no global state.
    """
    with matplotlib.rc_context(style.STYLE):
        match figure:
            case Curves():
                return _draw_curves(figure)
            case Scatter():
                return draw_scatter(figure)
            case RegionMap():
                return draw_region_map(figure)
            case Space():
                return draw_space(figure)
            case ImageSlider():
                return _draw_images(figure)


def save(figure: Figure, path: Path) -> None:
    """Writes a figure as SVG: the same figure gives the same bytes.

    Args:
        figure: what to show.
        path: the file, in an existing folder.
    """
    metadata = {"Title": figure.title, "Description": figure.caption, "Date": None, "Creator": "gnomon"}
    with matplotlib.rc_context(style.STYLE):
        draw(figure).savefig(path, format="svg", metadata=metadata)


def _draw_curves(curves: Curves) -> Drawing:
    width = _layout.WIDTH
    entries = _layout.legend(curves)
    top = TITLE + legend_px([line.label for line in entries])
    stacked, tops = _layout.stack(curves)
    height = top + stacked + _layout.X_AXIS
    left = _MARGIN_LEFT + _layout.wider(curves, _NUMBER)
    inner = width - left - _MARGIN_RIGHT
    drawing = canvas(height, curves.title)
    handles = [Line2D([], [], **_line_style(line, curves.log_x), label=line.label) for line in entries]
    draw_legend(drawing, handles, height, handlelength=2.4)
    for i, (panel, panel_flags) in enumerate(zip(curves.panels, _layout.flags(curves), strict=True)):
        bottom = height - top - tops[i] - curves.panel_height
        axes = drawing.add_axes((left / width, bottom / height, inner / width, curves.panel_height / height))
        _draw_panel(axes, panel, curves)
        axes.yaxis.set_label_coords((_MARGIN_LEFT - _Y_LABEL - left) / inner, 0.5)
        _draw_flags(axes, panel.title, panel_flags, curves, left)
        if i == len(curves.panels) - 1:
            axes.set_xlabel(curves.x_label, labelpad=6, parse_math=False)
        else:
            axes.tick_params(axis="x", which="both", labelbottom=False)
    return drawing


def _line_style(line: Line, log_x: bool) -> dict[str, Any]:
    if len(_layout.shown(line, log_x)[0]) == 1:
        return {"color": style.colour(line.colour), "linestyle": "", "marker": "o", "markersize": 5}
    dash = _layout.dash(line)
    return {
        "color": style.colour(line.colour),
        "linestyle": style.DASHES[dash],
        "linewidth": 1.6 if dash else 2.0,
    }


def _draw_panel(axes: Axes, panel: Panel, curves: Curves) -> None:
    for line in panel.lines:
        xs, ys = _layout.shown(line, curves.log_x)
        axes.plot(xs, ys, **_line_style(line, curves.log_x), solid_capstyle="round", label=line.label)
    ends = _layout.x_span(curves)
    if curves.log_x:
        scales.logarithmic(axes, "x", *ends)
    else:
        axes.xaxis.set_major_formatter(scales.Plain())
    axes.set_xlim(ends)
    if panel.log_y:
        scales.logarithmic(axes, "y", *_layout.y_span(panel))
    else:
        plain(axes.yaxis, _layout.Y_TICKS, _layout.FULL)
    if panel.y_range is not None:
        axes.set_ylim(panel.y_range)
    if panel.log_y:
        closer = scales.enough(axes.yaxis.get_major_locator(), *_layout.y_span(panel), axes.get_ylim())
        axes.yaxis.set_major_locator(closer)
    style.frame(axes)
    axes.set_ylabel(panel.y_label, labelpad=8, parse_math=False)


def _draw_flags(axes: Axes, title: str, panel_flags: tuple[_layout.Flag, ...], curves: Curves, margin: int) -> None:
    """The panel's marks with their labels, and its title above them."""
    across = axes.get_xaxis_transform()
    inner = _layout.WIDTH - margin - _MARGIN_RIGHT
    for flag in panel_flags:
        back = _layout.overhang(curves, flag.mark, inner, inner + _MARGIN_RIGHT)
        rise = flag.level + (0 if back else 0.85)
        reach = 1 + max(0, rise) * _layout.FLAG / curves.panel_height
        tint = style.colour(flag.mark.colour)
        axes.plot([flag.mark.x] * 2, [0, reach], transform=across, color=tint, lw=1.3, ls=(0, (1, 1.5)), clip_on=False)
        if flag.level >= 0:
            axes.annotate(
                flag.mark.label, (flag.mark.x, 1 + (flag.level + 0.5) * _layout.FLAG / curves.panel_height),
                xycoords=across, xytext=(4 - 0.75 * back, 0), textcoords="offset points", size=8.5,
                ha="left", va="center", color=style.INK, annotation_clip=False, parse_math=False,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
            )  # fmt: skip
    above = 1 + (_layout.levels(panel_flags) * _layout.FLAG + _layout.RISE) / curves.panel_height
    left = -(margin - EDGE) / inner
    axes.text(left, above, title, transform=axes.transAxes, size=10.5, weight="bold", parse_math=False)


def _draw_images(figure: ImageSlider) -> Drawing:
    constant = _layout.constant_rows(figure)
    blocks = _blocks(figure, constant)
    n, h, w = figure.frames[0].rows[0].images.shape
    gap = image_gap(w)
    cells = n * (w + gap) - gap
    inner = _layout.WIDTH - _ROW_LABELS - 2 * EDGE
    cell = min(inner / cells, _TALLEST_IMAGE / h)
    step = round(cell * (h + gap))
    height = TITLE + sum((_HEADING if heading else 6) + step * len(rows) for heading, rows in blocks) + _NOTE
    drawing = canvas(height, figure.title)
    y = TITLE
    for heading, rows in blocks:
        if heading:
            drawing.text(
                EDGE / _layout.WIDTH, 1 - (y + _HEADING - 8) / height, heading, weight="bold", parse_math=False
            )
        y += _HEADING if heading else 6
        for row in rows:
            box = (float(EDGE + _ROW_LABELS), height - y - cell * h, cell * cells, cell * h)
            _draw_row(drawing, row, figure, box, height)
            y += step
    drawing.text(EDGE / _layout.WIDTH, 12 / height, figure.how_to_read, size=8.5, color=style.MUTED)
    return drawing


def _blocks(figure: ImageSlider, constant: tuple[bool, ...]) -> list[tuple[str, list[ImageRow]]]:
    """What is below each heading: rows that never change, once; then the first frame, some between and the last."""
    frames = figure.frames
    if all(constant):
        return [("", list(frames[0].rows))]
    still = [row for row, same in zip(frames[0].rows, constant, strict=True) if same]
    chosen = sorted({round(i) for i in np.linspace(0, len(frames) - 1, _FRAMES)})
    moving = [
        (frames[i].label, [row for row, same in zip(frames[i].rows, constant, strict=True) if not same]) for i in chosen
    ]
    return [("", still), *moving] if still else moving


def _draw_row(
    drawing: Drawing, row: ImageRow, figure: ImageSlider, box: tuple[float, float, float, float], height: int
) -> None:
    x, y, w, h = box
    axes = drawing.add_axes((x / _layout.WIDTH, y / height, w / _layout.WIDTH, h / height))
    images(torch.from_numpy(row.images), ax=axes, signed=figure.diverging)
    label = textwrap.fill(row.label, 24)
    drawing.text(EDGE / _layout.WIDTH, (y + h / 2) / height, label, va="center", color=style.MUTED, parse_math=False)
