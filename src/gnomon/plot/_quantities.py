"""What was read at one step, one panel per quantity."""

import textwrap
from collections.abc import Collection, Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from gnomon.errors import EmptyError, RangeError, public
from gnomon.plot import style
from gnomon.plot._panels import Kind, Panel, alone, kind_of, points

Axis = tuple[str, ...] | None


@public
def quantities(
    values: Mapping[str, Tensor],
    *,
    ax: Axes | None = None,
    axes_of: Mapping[str, Axis] | None = None,
    logarithmic: Collection[str] = (),
    right: Mapping[str, Tensor] | None = None,
) -> tuple[Figure, Axes | list[Axes]]:
    """Draws quantities at one step, one panel each, according to their shapes.

    `Reading.plot` draws with this. One number is drawn as a point; one value per sample as a histogram; values that
    fall from the first on as a spectrum; one value per class or per layer as a line; a matrix as colours of its
    entries; with three or more axes, the first eight samples are drawn as images, each averaged over all but its last
    two axes.

    Args:
        values: by name, such as `test/nc1`. Names that differ only before the last slash share a panel, except for
            matrices and images, and where samples are drawn apart.
        ax: where to draw, for one panel; default: a new figure.
        axes_of: by name, the axes as in the quantity's annotation, such as ("n",); default: unknown.
        logarithmic: the names whose value axis is logarithmic, if the values are above 0.
        right: by name, which samples are classified correctly, (n); these are drawn apart from the others.

    Returns:
        The figure and its axes; for several panels, a list of axes.

    Raises:
        EmptyError: if there are no values.
        RangeError: if there are several panels and axes are given.
    """
    panels: dict[tuple[str, Kind], Panel] = {}
    order = list(dict.fromkeys(name.rpartition("/")[2] for name in values))
    for name, value in sorted(values.items(), key=lambda item: order.index(item[0].rpartition("/")[2])):
        if value.numel():
            before, _, quantity = name.rpartition("/")
            axis, known = (axes_of or {}).get(name), (right or {}).get(name)
            kind = kind_of(value, axis)
            title, part = name, ""
            if kind is points:
                title, _, part = quantity.partition(".")
            elif not alone(kind, known):
                title = quantity
            panel = panels.setdefault((title, kind), Panel(kind, axis, name in logarithmic, known))
            panel.held[" ".join(filter(None, ("" if title == name else before, part)))] = value.detach()
    if not panels:
        raise EmptyError("values", "some", "none", "Read a quantity.")
    if ax is not None and len(panels) > 1:
        raise RangeError(
            "ax", "one panel", ", ".join(title for title, _ in panels), "Name one of them, or leave ax out."
        )
    figure, axes = style.grid(len(panels), sharex=False) if ax is None else (ax.figure.figure, [ax])
    for own, ((title, _), panel) in zip(axes, panels.items(), strict=True):
        (only, *others) = panel.held
        if not others and only and panel.kind is not points:
            title, panel.held = f"{only}/{title}", {"": panel.held[only]}
        panel.draw(own)
        entries = len(own.get_legend_handles_labels()[1])
        if entries:
            own.legend(
                fontsize=8, loc="lower left", bbox_to_anchor=(0, 1), frameon=False, handlelength=1.6, labelspacing=0.2,
                borderaxespad=0, borderpad=0.2,
            )  # fmt: skip
        own.set_title(
            textwrap.fill(style.words(title), 34), loc="left", size=9.5, pad=6 + 11.5 * entries, parse_math=False
        )
    return figure, axes if len(axes) > 1 else axes[0]
