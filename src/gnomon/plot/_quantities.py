"""What was read at one step, one panel per quantity."""

from collections.abc import Collection, Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from gnomon import _checks
from gnomon.errors import EmptyError, RangeError, public
from gnomon.plot import _legend, style
from gnomon.plot._panels import Kind, Panel, alone, kind_of, points, samples
from gnomon.plot._values import tensors

Axis = tuple[str, ...] | None
NAMED = 8
"""So many lines of a panel are named above it."""
BESIDE, MOST = 8, 40
"""So many points have room in a panel that is not higher for them, and so many in the highest."""


@public
def quantities(
    values: Mapping[str, Tensor],
    *,
    ax: Axes | None = None,
    size: tuple[float | int, float | int] | None = None,
    axes_of: Mapping[str, Axis] | None = None,
    logarithmic: Collection[str] = (),
    right: Mapping[str, Tensor] | None = None,
) -> tuple[Figure, Axes | list[Axes]]:
    """Draws quantities at one step, one panel each, according to their shapes.

    `Reading.plot` draws with this. One number is drawn as a point; one value per sample as a histogram, or as a point
    at the mean where each is 0 or 1; values that fall from the first on as a spectrum; one value per layer as a line,
    one per class, chain or batch as dots; a matrix as colours of its entries; with three or more axes, the first eight
    samples are drawn as images, each averaged over all but its last two axes.

    Args:
        values: by name, such as `test/nc1`. Names that differ only before the last slash share a panel, except for
            matrices and images, and where samples are drawn apart.
        ax: where to draw, for one panel; default: a new figure.
        size: the width and the height of a new figure, in inches; default: what its panels need.
        axes_of: by name, the axes as in the quantity's annotation, such as ("n",); default: unknown.
        logarithmic: the names whose value axis is logarithmic, if the values are above 0.
        right: by name, which samples are classified correctly, (n); these are drawn apart from the others.

    Returns:
        The figure and its axes; for several panels, a list of axes.

    Raises:
        ArgumentTypeError: if one of them is no tensor, `ax` is not one Axes, or the size no numbers.
        ShapeError: if `right` does not have one entry for each sample.
        EmptyError: if there are no values.
        RangeError: if there are several panels and axes are given; if the size is not two numbers above 0, or axes are
            given too.
    """
    panels: dict[tuple[str, Kind], Panel] = {}
    order = list(dict.fromkeys(name.rpartition("/")[2] for name in values))
    tensors(**{f"values[{name!r}]": value for name, value in values.items()})
    tensors(**{f"right[{name!r}]": known for name, known in (right or {}).items()})
    for name, value in sorted(values.items(), key=lambda item: order.index(item[0].rpartition("/")[2])):
        if value.numel():
            before, _, quantity = name.rpartition("/")
            axis, known = (axes_of or {}).get(name), (right or {}).get(name)
            kind = kind_of(value, axis)
            if kind is samples and known is not None:
                _checks.one_axis(**{f"right[{name!r}]": known})
                _checks.samples(1, **{f"values[{name!r}]": value, f"right[{name!r}]": known})
            title, part = name, ""
            if kind is points:
                title, _, part = quantity.partition(".")
            elif not alone(kind, known):
                title = quantity
            panel = panels.setdefault((title, kind), Panel(kind, axis, name in logarithmic, known))
            panel.held[" ".join(filter(None, ("" if title == name else before, part)))] = value.detach()
    if not panels:
        raise EmptyError("values", "some", "none", "Read a quantity.")
    if ax is not None:
        figure = style.figure_of(ax, size)
        if len(panels) > 1:
            titles = ", ".join(title for title, _ in panels)
            raise RangeError("ax", "one panel", titles, "Name one of them, or leave ax out.")
        (((title, _), panel),) = panels.items()
        _draw(ax, title, panel)
        return figure, ax
    above = max(1 if kind is points else min(len(panel.held), NAMED + 1) for (_, kind), panel in panels.items())
    beside = max(min(len(panel.held), MOST) - BESIDE if kind is points else 0 for (_, kind), panel in panels.items())
    rows = above + max(0, beside)
    with style.grid(len(panels), size=size, height=1.74 + 0.16 * rows, sharex=False) as (figure, axes):
        for own, ((title, _), panel) in zip(axes, panels.items(), strict=True):
            _draw(own, title, panel)
    return figure, axes if len(axes) > 1 else axes[0]


def _draw(axes: Axes, title: str, panel: Panel) -> None:
    """The panel, its legend and above it the title."""
    (only, *others) = panel.held
    if not others and only and panel.kind is not points:
        title, panel.held = f"{only}/{title}", {"": panel.held[only]}
    panel.draw(axes)
    high = 0.0
    if found := _legend.named([axes]):
        legend = _legend.placed(
            axes, found, axes.bbox.width / axes.figure.dpi, NAMED, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1),
            handlelength=1.6, labelspacing=0.2, borderaxespad=0, borderpad=0.2,
        )  # fmt: skip
        high = 72 * legend.get_window_extent().height / axes.figure.dpi
    style.title(axes, title, 6 + high)
