"""What all figures that plotly draws share."""

import html
from typing import Any

from gnomon.plot import _layout

_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


def text(words: str) -> str:
    """Plotly reads some HTML in its texts: what comes from outside is shown as it is."""
    return html.escape(words, quote=False)


def number(i: int) -> str:
    """Plotly counts its axes: x, x2, x3."""
    return "" if i == 0 else str(i + 1)


def base(height: int, meta: dict[str, Any], **margin: int) -> dict[str, Any]:
    """The layout that every figure starts from; `meta` is what the page needs to fit it to another width."""
    return {
        "template": "none",
        "height": height,
        "margin": {"pad": 0, "autoexpand": False, **margin},
        "font": {"family": _FONT, "size": 13, "color": _layout.INK},
        "paper_bgcolor": "white",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "meta": meta,
    }
