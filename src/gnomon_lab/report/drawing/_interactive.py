"""Figures as plotly draws them, for pages: hover, one legend for all panels, a slider over frames."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from gnomon.plot import image_gap, mosaic, scales, style
from gnomon_lab.figures import Curves, Figure, ImageFrame, ImageSlider, Line, Panel, RegionMap, Scatter, Space
from gnomon_lab.report.drawing import _layout
from gnomon_lab.report.drawing._interactive_region_map import interactive_region_map
from gnomon_lab.report.drawing._interactive_scatter import interactive_scatter
from gnomon_lab.report.drawing._interactive_space import interactive_space
from gnomon_lab.report.drawing._plotly import (
    Y_NUMBERS,
    axis_title,
    base,
    below_legend,
    dtick,
    number,
    slider,
    text,
    title,
)

_LEFT, _RIGHT = 62, 26
_NUMBER = 5
"""The characters of a number for which there is room on the left."""
_DASHES = ("solid", "5px,3px", "2px,3px", "9px,3px,2px,3px")
"""`style.DASHES`, as plotly names them."""
_BELOW_IMAGES, _ROW_LABEL = 120, 30


def interactive(figure: Figure) -> go.Figure:
    """Draws a figure with plotly, on a white background, without its title, which the page shows.

    Args:
        figure: what to show. On a logarithmic axis points and marks at x <= 0 are left out.

    Returns:
        A plotly figure of fixed height. `layout.meta` holds the sizes from which a page fits it to another width.
        Images are rounded to a thousandth of their largest |value|.
    """
    if isinstance(figure, Curves):
        return _curves(figure)
    if isinstance(figure, Scatter):
        return interactive_scatter(figure)
    if isinstance(figure, RegionMap):
        return interactive_region_map(figure)
    if isinstance(figure, Space):
        return interactive_space(figure)
    return _images(figure)


def _curves(curves: Curves) -> go.Figure:
    stacked, tops = _layout.stack(curves)
    labels = [line.label for line in _layout.legend(curves)]
    left = _LEFT + _layout.wider(curves, _NUMBER)
    layout = below_legend("curves", labels, _layout.WIDTH, stacked, left, _RIGHT, _layout.X_AXIS)
    layout |= {"hovermode": "x unified", "shapes": [], "annotations": []}
    traces: list[go.Scatter] = []
    seen: set[tuple[str, int, bool]] = set()
    for i, (panel, panel_flags) in enumerate(zip(curves.panels, _layout.flags(curves), strict=True)):
        layout |= _axes(curves, panel, i, (1 - (tops[i] + curves.panel_height) / stacked, 1 - tops[i] / stacked))
        traces += [_trace(line, curves.log_x, i, seen) for line in panel.lines]
        for flag in panel_flags:
            layout["shapes"] += _pole(flag, i)
        layout["annotations"] += [_label(flag, i, curves, left) for flag in panel_flags if flag.level >= 0]
        above = _layout.levels(panel_flags) * _layout.FLAG + _layout.RISE
        layout["annotations"].append(title(panel.title, f"y{number(i)}", left, above))
    return go.Figure(traces, layout)


def _axes(curves: Curves, panel: Panel, i: int, domain: tuple[float, float]) -> dict[str, Any]:
    last = i == len(curves.panels) - 1
    low, high = _layout.x_span(curves)
    common = {"gridcolor": style.GRID, "linecolor": style.AXIS, "showline": True, "zeroline": False, "ticks": ""}
    x = common | {"anchor": f"y{number(i)}", "showticklabels": last, "tickangle": 0, "domain": [0, 1], "showgrid": True}
    if curves.log_x:
        lows = _layout.exponents(low, high)
        x |= {"type": "log", "range": list(lows), "dtick": dtick(low, high), "tickformat": ",~r"}
    else:
        x |= {"type": "linear", "range": [low, high], "tickformat": ",~r"}
    x |= _hover_title(curves)
    x |= {"showspikes": True, "spikemode": "across", "spikethickness": 1, "spikedash": "solid", "spikesnap": "data"}
    if i > 0:
        x["matches"] = "x"
    if last:
        x["title"] = axis_title(curves.x_label, 10)
    y = common | {"anchor": f"x{number(i)}", "domain": list(domain), "nticks": 6, "hoverformat": ".4~g"} | Y_NUMBERS
    y |= {"showspikes": False, "title": axis_title(panel.y_label, 6)}
    if panel.log_y:
        y |= {"type": "log"} | _numbers(*_layout.y_span(panel))
    if panel.y_range is not None:
        y["range"] = list(_layout.exponents(*panel.y_range) if panel.log_y else panel.y_range)
    return {f"xaxis{number(i)}": x, f"yaxis{number(i)}": y}


def _hover_title(curves: Curves) -> dict[str, Any]:
    """What stands above the values at the pointer: the x axis and the place on it.

    A template knows the place alone. Where another one stands for 0, each place has its words instead, by its number as
    only hovering writes it, so that the numbers at the axis stay.
    """
    words = text(curves.x_label)
    if curves.zero is None:
        return {"hoverformat": ",~r", "unifiedhovertitle": {"text": f"{words} %{{x}}"}}
    places = sorted({x for panel in curves.panels for line in panel.lines for x in line.x})
    aliases = {f"{x:,.3f}": f"{words} {0 if x == curves.zero else x:,.12g}" for x in places}
    return {"hoverformat": ",.3f", "labelalias": aliases}


def _numbers(low: float, high: float) -> dict[str, Any]:
    """Where a logarithmic axis has numbers, each in full: plotly itself writes 0.02 as a small 2."""
    if scales.short(low, high):
        return {}
    if scales.few(low, high):
        return {"dtick": "D2", "tickformat": "~g" if low >= 1e-4 and high < 1e6 else ".0e"}
    return {"dtick": 1} if high < 1e7 * low else {}


def _trace(line: Line, log_x: bool, i: int, seen: set[tuple[str, int, bool]]) -> go.Scatter:
    xs, ys = _layout.shown(line, log_x)
    key = (line.label, line.colour, line.dashed)
    first = bool(xs) and key not in seen
    if xs:
        seen.add(key)
    dash = _layout.dash(line)
    return go.Scatter(
        x=xs, y=ys, name=text(line.label), mode="markers" if len(xs) == 1 else "lines", marker_size=7,
        line={"color": style.colour(line.colour), "width": 2 if dash else 2.4, "dash": _DASHES[dash]},
        marker_color=style.colour(line.colour), legendgroup=repr(key), showlegend=first,
        xaxis=f"x{number(i)}", yaxis=f"y{number(i)}",
    )  # fmt: skip


def _pole(flag: _layout.Flag, i: int) -> list[dict[str, Any]]:
    """The mark's line through the panel, and above it the piece that reaches up to the label."""
    at: dict[str, Any] = {
        "type": "line", "xref": f"x{number(i)}", "yref": f"y{number(i)} domain", "layer": "below",
        "x0": flag.mark.x, "x1": flag.mark.x,
        "line": {"color": style.colour(flag.mark.colour), "width": 1.5, "dash": "2px,2px"},
    }  # fmt: skip
    through = at | {"y0": 0, "y1": 1}
    if flag.level < 0:
        return [through]
    reach = round((flag.level + 0.85) * _layout.FLAG)
    return [through, at | {"ysizemode": "pixel", "yanchor": 1, "y0": 0, "y1": reach}]


def _label(flag: _layout.Flag, i: int, curves: Curves, left: int) -> dict[str, Any]:
    over = _layout.overhang(curves, flag.mark, _layout.WIDTH - left - _RIGHT, _layout.WIDTH - left)
    return {
        "name": "flag", "text": text(flag.mark.label), "showarrow": False, "font": {"size": 12}, "borderpad": 0,
        "bgcolor": "white",
        "xref": f"x{number(i)}", "x": _layout.exponents(flag.mark.x)[0] if curves.log_x else flag.mark.x,
        "yref": f"y{number(i)} domain", "y": 1, "yanchor": "middle", "yshift": (flag.level + 0.5) * _layout.FLAG,
        "xanchor": "left", "xshift": 4 - over,
    }  # fmt: skip


def _images(figure: ImageSlider) -> go.Figure:
    n, h, w = figure.frames[0].rows[0].images.shape
    gap = image_gap(w)
    cells = n * (w + gap) - gap
    room = _ROW_LABEL * cells / _layout.WIDTH  # above each row, for its label, in image pixels
    rows = figure.frames[0].rows
    deep = len(rows) * (h + room)
    constant = _layout.constant_rows(figure)
    moving = [i for i, same in enumerate(constant) if not same]
    top = 8
    plot_px = round(_layout.WIDTH * deep / cells)
    meta = {"kind": "images", "cells": cells, "image_height": h, "row_label_px": _ROW_LABEL}
    layout = base(top + plot_px + _BELOW_IMAGES, meta, l=0, r=0, t=top, b=_BELOW_IMAGES)
    bare = {"visible": False, "fixedrange": True}
    layout["xaxis"] = bare | {"range": [-0.5, cells - 0.5], "constrain": "domain"}
    layout["yaxis"] = bare | {"range": [deep - 0.5, -0.5], "scaleanchor": "x", "constrain": "domain"}
    layout["annotations"] = [
        {"text": f"<b>{text(row.label)}</b>", "showarrow": False, "font": {"size": 13}, "borderpad": 1,
         "x": -0.5, "xanchor": "left", "y": i * (h + room) + room - 0.5, "yanchor": "bottom"}
        for i, row in enumerate(rows)
    ]  # fmt: skip
    traces = [
        _heatmap(z, row.label, i * (h + room) + room, figure.diverging)
        for i, (z, row) in enumerate(zip(_pixels(figure.frames[-1]), rows, strict=True))
    ]
    if len(figure.frames) == 1 or not moving:
        return go.Figure(traces, layout)
    layout |= slider([frame.label for frame in figure.frames], first=len(figure.frames) - 1)
    return go.Figure(traces, layout, frames=_frames(figure, moving))


def _pixels(frame: ImageFrame) -> list[list[list[float | None]]]:
    """For each row its mosaic in thousandths, with None between the images."""
    return [
        [[None if v != v else round(v, 3) + 0.0 for v in line] for line in mosaic(row.images).tolist()]
        for row in frame.rows
    ]


def _heatmap(z: Sequence[Sequence[float | None]], label: str, top: float, diverging: bool) -> go.Heatmap:
    stops = style.DIVERGING if diverging else style.SEQUENTIAL
    return go.Heatmap(
        z=z, y0=top, dy=1, zmin=-1 if diverging else 0, zmax=1, showscale=False, hoverongaps=False, name=text(label),
        colorscale=[[i / (len(stops) - 1), stop] for i, stop in enumerate(stops)],
        hovertemplate=f"{text(label)}<br>%{{z:.0%}} of this image's largest value<extra></extra>",
    )  # fmt: skip


def _frames(figure: ImageSlider, moving: Sequence[int]) -> list[go.Frame]:
    """The frames carry only image data, and only for rows that change."""
    frames = []
    for k, frame in enumerate(figure.frames):
        pixels = _pixels(frame)
        data = [go.Heatmap(z=pixels[i]) for i in moving]
        frames.append(go.Frame(name=str(k), data=data, traces=list(moving)))
    return frames
