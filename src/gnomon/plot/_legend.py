"""The names of lines, as a legend has room for them."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.font_manager import FontProperties
from matplotlib.legend import Legend
from matplotlib.lines import Line2D

from gnomon._words import apart

MOST = 20
"""So many lines are named, since more could not be told apart."""
CHARACTER = 0.55
"""The width of a character, in font sizes."""
HANDLE, GAP = 7, 2
"""The width of what stands before a name, and that between two columns, in characters."""
ROW = 1.7
"""The height of a row, in font sizes."""
BLANK = "\u200b"
"""Takes no room: matplotlib gives lines whose labels begin with an underscore no place in a legend."""


def label(name: str) -> str:
    """The label of a line with this name."""
    return BLANK + name if name.startswith("_") else name


def named(panels: Sequence[Axes]) -> dict[str, Artist]:
    """What is drawn in these panels under a name, by name."""
    found = [zip(*axes.get_legend_handles_labels(), strict=True) for axes in panels]
    return {name.removeprefix(BLANK): artist for pairs in found for artist, name in pairs}


def fitted(names: Sequence[str], width: float | int, size: float | int, most: int = MOST) -> tuple[list[str], int]:
    """The first names, long ones shortened but still different, and the columns in which a legend has room for them.

    Args:
        names: of all lines.
        width: of the legend, in inches.
        size: of the font, in points.
        most: so many are shown; the others are counted.
    """
    room = int(72 * width / (CHARACTER * size))
    shown = apart(names[:most], room - HANDLE)
    if len(names) > most:
        shown.append(f"… and {len(names) - most:,} more")
    widths = np.array([HANDLE + len(name) + GAP for name in shown])
    counts = range(len(shown), 1, -1)
    return shown, next((n for n in counts if sum(part.max() for part in np.array_split(widths, n)) <= room + GAP), 1)


def higher(names: Sequence[str], width: float | int, size: float | int, most: int = MOST) -> float:
    """The height of a legend of these names beyond its first row, in inches."""
    shown, columns = fitted(names, width, size, most)
    return ROW * size / 72 * max(0, -(-len(shown) // columns) - 1)


def as_many(names: Sequence[str], width: float | int, size: float | int, room: float | int) -> int:
    """How many are named by a legend that is not higher than this beyond its first row, in inches."""
    return next((most for most in range(MOST, 1, -1) if higher(names, width, size, most) <= room), 1)


def placed(
    owner: Axes | FigureBase,
    found: Mapping[str, Artist],
    width: float | int,
    most: int = MOST,
    **look: Any,  # noqa: ANN401 - matplotlib's own
) -> Legend:
    """The legend, of this width in inches, of the first that were found: their names as they are, not as formulas."""
    names, columns = fitted([*found], width, font_size(look.get("fontsize")), most)
    handles = [*found.values()][:most] + [Line2D([], [], linestyle="none")] * (len(found) > most)
    usual = {"frameon": False, "handlelength": 2.1, "columnspacing": 1.2, "handletextpad": 0.5, "borderaxespad": 0.2}
    legend = owner.legend(handles, [*map(label, names)], ncols=columns, **usual | look)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set(text=name, parse_math=False)
    return legend


def beside(axes: Axes, found: Mapping[str, Artist]) -> None:
    """A legend of classes at the right of the axes: of the first that were found, and how many there are."""
    names = [*found][:MOST]
    axes.legend(
        [found[name] for name in names], names, ncols=1 if len(names) <= MOST / 2 else 2,
        title=f"{len(names)} of {len(found):,}" if len(names) < len(found) else None,
        loc="center left", bbox_to_anchor=(1, 0.5), frameon=False,
        handlelength=1.2, handletextpad=0.4, columnspacing=0.8,
    )  # fmt: skip


def font_size(size: float | int | None = None) -> float:
    """The size of a legend's font, in points; default: that of matplotlib's settings."""
    return FontProperties(size=size or matplotlib.rcParams["legend.fontsize"]).get_size_in_points()
