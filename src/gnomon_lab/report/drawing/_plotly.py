"""What all figures that plotly draws share."""

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gnomon.plot import scales, style
from gnomon_lab.report.drawing import _legend
from gnomon_lab.report.drawing._scatter_layout import BAR

Y_NUMBERS = {"exponentformat": "e", "minexponent": 4, "separatethousands": True}
"""A y axis has its numbers in full up to 100,000, not as 0.5µ or 10k."""
_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


def text(words: str) -> str:
    """Plotly interprets some HTML in its texts: what comes from outside is shown as it is."""
    return html.escape(words, quote=False)


def dtick(low: float, high: float) -> str | int:
    """Where a logarithmic axis has numbers: at powers of ten, or at 2 and 5 times them too."""
    return "D2" if scales.few(low, high) else 1


def number(i: int) -> str:
    """How plotly numbers its axes: x, x2, x3."""
    return "" if i == 0 else str(i + 1)


def base(height: int, meta: dict[str, Any], **margin: int) -> dict[str, Any]:
    """The layout that every figure starts from; `meta` is what the page needs to fit it to another width."""
    return {
        "template": "none",
        "height": height,
        "margin": {"pad": 0, "autoexpand": False, **margin},
        "font": {"family": _FONT, "size": 13, "color": style.INK},
        "paper_bgcolor": "white",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "meta": meta,
    }


def below_legend(
    kind: str, labels: Sequence[str], room: int, plot: int, left: int, right: int, bottom: int, **meta: object
) -> dict[str, Any]:
    """The layout of a figure whose axes are `plot` pixels high, below a legend in `room` pixels of width."""
    top, columns = _legend.height(labels, room), _legend.columns(labels, room)
    known = {"kind": kind, "plot_px": plot, "entries": max(1, len(labels)), "entry_px": _legend.entry_px(labels)}
    known |= {"row_px": _legend.ROW, **meta}
    return base(top + plot + bottom, known, l=left, r=right, t=top, b=bottom) | {
        "hovermode": "closest", "hoverlabel": {"namelength": -1}, "showlegend": True, "legend": {
            "orientation": "h", "x": 0, "xref": "container", "xanchor": "left", "y": 1, "yref": "container",
            "yanchor": "top", "bgcolor": "rgba(0,0,0,0)", "entrywidthmode": "pixels", "itemsizing": "trace",
            "entrywidth": max(_legend.entry_px(labels), room // (columns + 1) + 1) - 45, "tracegroupgap": 0,
        },
    }  # fmt: skip


def title(words: str, axis: str, left: int, above: int) -> dict[str, Any]:
    """Bold words over a panel, starting `left` pixels before its y axis and `above` pixels over its upper end."""
    return {
        "text": f"<b>{text(words)}</b>", "showarrow": False, "font": {"size": 14}, "borderpad": 0, "align": "left",
        "xref": "paper", "x": 0, "xanchor": "left", "xshift": -left,
        "yref": f"{axis} domain", "y": 1, "yanchor": "bottom", "yshift": above,
    }  # fmt: skip


def axis_title(words: str, standoff: int) -> dict[str, Any]:
    """The title of an axis."""
    return {"text": text(words), "standoff": standoff, "font": {"size": 13}}


def colour_axis(
    ends: tuple[float, float], colours: Sequence[tuple[float, str]], y: float, **bar: object
) -> dict[str, Any]:
    """A colour scale, and its horizontal bar, whose upper edge is at `y` of the axes' height."""
    bar |= {
        "orientation": "h", "thickness": BAR, "outlinewidth": 0, "ticks": "", "tickangle": 0, "len": 0.5,
        "x": 0, "xanchor": "left", "xpad": 0, "y": y, "yanchor": "top", "ypad": 0,
    }  # fmt: skip
    return {"cmin": ends[0], "cmax": ends[1], "colorscale": [list(stop) for stop in colours], "colorbar": bar}


def path(shapes: Iterable[npt.NDArray[np.floating]], dimensions: int) -> list[list[float | None]]:
    """All shapes, of shape (v, dimensions), as one path: its coordinates, with a gap after each shape."""
    coordinates: list[list[float | None]] = [[] for _ in range(dimensions)]
    for rows in shapes:
        for along, numbers in zip(coordinates, rows.T.tolist(), strict=True):
            along += [*numbers, None]
    return coordinates


def slider(labels: Sequence[str], below: int = 0, first: int = 0) -> dict[str, Any]:
    """A slider over frames, named from "0" on; the moment shown is above it.

    Args:
        labels: the moments, one per frame.
        below: how many pixels further below the axes it is.
        first: the place of the frame that is shown first.
    """
    still = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    steps = [{"label": text(label), "method": "animate", "args": [[str(k)], still]} for k, label in enumerate(labels)]
    left, right = (max(8, round(3.3 * len(labels[k])) - 8) for k in (0, -1))  # half an end's label
    slider = {
        "active": first, "steps": steps, "x": 0, "y": 0, "yanchor": "top", "len": 1,
        "pad": {"t": below + 18, "l": left, "r": right},
        "currentvalue": {"xanchor": "left", "font": {"size": 18}, "offset": 14}, "font": {"size": 11}, "ticklen": 4,
        "minorticklen": 4, "bgcolor": "#dfe4ea", "activebgcolor": "#8fa3b8", "bordercolor": style.AXIS,
        "tickcolor": style.AXIS, "borderwidth": 1, "transition": {"duration": 0},
    }  # fmt: skip
    return {"sliders": [slider]}
