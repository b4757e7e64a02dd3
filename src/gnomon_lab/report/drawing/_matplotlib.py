"""What all figures that matplotlib draws share."""

from collections.abc import Sequence

from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from gnomon_lab.report.drawing import _layout, _legend

# Sizes in CSS pixels, as in `_layout`.
EDGE, TITLE = 16, 42
POINT = 72 / 96  # of a pixel


def legend_px(labels: Sequence[str]) -> int:
    """The height of the legend; 0 where there is nothing to show."""
    return _legend.height(labels, _layout.WIDTH - 2 * EDGE) if labels else 0


def draw_legend(drawing: Drawing, handles: Sequence[Line2D | Patch], whole: int, handlelength: float) -> None:
    """Below the title of a figure of `whole` pixels' height; nothing where there are no handles."""
    if not handles:
        return
    columns = _legend.columns([str(handle.get_label()) for handle in handles], _layout.WIDTH - 2 * EDGE)
    # Matplotlib fills columns: in this order it shows them row by row.
    by_rows = [handle for column in range(columns) for handle in handles[column::columns]]
    box = drawing.legend(
        handles=by_rows, loc="upper left", bbox_to_anchor=(8 / _layout.WIDTH, 1 - (TITLE - 4) / whole),
        ncols=columns, frameon=False, handlelength=handlelength, columnspacing=2.0, borderpad=0.3,
    )  # fmt: skip
    for text in box.get_texts():
        text.set_parse_math(False)
