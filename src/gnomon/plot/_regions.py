"""The linear regions of a plane, and where the predicted class changes on it."""

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from torch import Tensor

from gnomon import _checks
from gnomon.errors import RangeError, ShapeError, public
from gnomon.plot import _legend, scales, style
from gnomon.plot._drawn import Partition
from gnomon.plot._values import Numbers, numbers, require, tensors

SHADES = ("#dbe7f1", "#b5cfe4", "#8fb7d6", "#e8eef4", "#a3c1dc", "#c9dbea")
"""Colours without meaning, which tell neighbours apart."""


@public
def regions(
    regions: Partition,
    values: Float[Tensor, "r"] | None = None,
    *,
    ax: Axes | None = None,
    label: str = "",
    log_values: bool = False,
) -> tuple[Figure, Axes]:
    """Draws the linear regions of a network on a plane, coloured by a value for each, or in colours without meaning.

    Args:
        regions: the partition, a `gnomon.regions.Regions`.
        values: one for each region, such as `regions.norms`, for which a colour bar is drawn; default: regions with the
            same activation pattern have the same colour, one of six.
        ax: where to draw; default: the axes of a new figure.
        label: what the values are, next to the colour bar.
        log_values: whether the colour scale is logarithmic.

    Returns:
        The figure and its axes, in the plane's coordinates. In a PDF or SVG the regions are pixels, at its `dpi`.

    Raises:
        ArgumentTypeError: if the regions are none, the values no tensor, or `ax` is not one Axes.
        ShapeError: if there is not one value for each region.
        RangeError: at NaN or infinity, or at values that are not above 0 with a logarithmic scale.
    """
    require_regions(regions)
    if values is not None:
        _require_values(values, len(regions.pattern), log_values)
    rows = zip(numbers(regions.polygons.vertices), regions.polygons.count.tolist(), strict=True)
    polygons = PolyCollection([corners[:count] for corners, count in rows], rasterized=True)
    polygons.set(edgecolor="white", linewidth=0.25)
    with style.canvas(ax, 4.2, 3.6) as (figure, axes):
        axes.add_collection(polygons)
        if values is None:
            polygons.set_facecolor([SHADES[pattern % len(SHADES)] for pattern in regions.pattern.tolist()])
        else:
            colours = _colours(values, log_values)
            polygons.set_facecolor(list(map(tuple, colours.to_rgba(numbers(values)))))
            bar = figure.colorbar(colours, ax=axes, label=label)
            bar.outline.set_visible(False)
            if log_values:
                ends = colours.get_clim()
                bar.locator, bar.formatter = scales.enough(scales.locator(*ends), *ends, ends), scales.Plain(1e6)
                bar.minorticks_off()
            bar.ax.tick_params(length=0)
        _window(axes, regions)
    return figure, axes


@public
def decision_boundary(regions: Partition, *, ax: Axes | None = None, pixels: int = 240) -> tuple[Figure, Axes]:
    """Draws the predicted classes on a plane, in pale colours, and between them the exact lines on which they change.

    Around a box that is not a rectangle there is nothing. The legend names the classes, 20 at most; ten have a colour
    of their own.

    Args:
        regions: the partition, a `gnomon.regions.Regions`.
        ax: where to draw; default: the axes of a new figure.
        pixels: the number of pixels of the classes' colours along each axis.

    Returns:
        The figure and its axes, in the plane's coordinates.

    Raises:
        ArgumentTypeError: if the regions are none, or `ax` is not one Axes.
        RangeError: if `pixels` is not a positive whole number.
    """
    require_regions(regions)
    if not _checks.whole(pixels, 1):
        raise RangeError("pixels", "a whole number of at least 1", pixels, "Leave it out for 240.")
    left, right, low, high = _box(regions)
    found, many = _classes(regions, pixels), len(style.CLASSES)
    lines = [part for line in regions.decision_boundary() for part in (numbers(line), [[np.nan, np.nan]])]
    shown = LinearSegmentedColormap.from_list("classes", list(style.CLASSES), many)
    with style.canvas(ax, 3.6, 3.6) as (figure, axes):
        axes.imshow(
            found % many, cmap=shown, vmin=0, vmax=many - 1, origin="lower", extent=(left, right, low, high),
            interpolation="none",
        )  # fmt: skip
        axes.plot(*np.concatenate([np.empty((0, 2)), *lines]).T, color=style.INK, linewidth=0.7)
        _window(axes, regions)
        there = np.unique(found[np.isfinite(found)]).astype(int).tolist()
        _legend.beside(axes, {str(kind): Patch(color=style.CLASSES[kind % many]) for kind in there})
    return figure, axes


def require_regions(regions: object) -> None:
    """Raises ArgumentTypeError unless these are regions."""
    require(Partition, "Regions", "Pass what slice_regions returned.", regions=regions)


def _require_values(values: Tensor, count: int, log_values: bool) -> None:
    tensors(values=values)
    if values.shape != (count,):
        raise ShapeError("values", f"shape ({count},)", tuple(values.shape), "Pass one value for each region.")
    _checks.finite(values=values)
    if log_values and values.min() <= 0:
        raise RangeError("values", "finite values above 0", f"{values.min():.4g}", "Leave log_values out.")


def _colours(values: Tensor, log_values: bool) -> ScalarMappable:
    low, high = values.min().item(), values.max().item()
    rounding = 64 * torch.finfo(values.dtype).eps if values.is_floating_point() else 0.0
    if high - low <= rounding * max(abs(low), abs(high)):
        # The colour bar widens the scale otherwise, but only after the regions have their colours.
        room = 0.1 * abs(low) or 0.5
        low, high = (low / 1.1, high * 1.1) if log_values else (low - room, high + room)
    scale = LogNorm(low, high) if log_values else Normalize(low, high)
    return ScalarMappable(scale, LinearSegmentedColormap.from_list("values", list(style.VALUES)))


def _box(regions: Partition) -> tuple[float, float, float, float]:
    corners = numbers(regions.polygons.vertices).reshape(-1, 2)
    (left, low), (right, high) = corners.min(0).tolist(), corners.max(0).tolist()
    return left, right, low, high


def _classes(regions: Partition, pixels: int) -> Numbers:
    """The predicted class in the middle of each pixel, rows from below; with one output, whether it is positive.

    NaN outside of all regions.
    """
    left, right, low, high = _box(regions)
    middles = (torch.arange(pixels, dtype=torch.float64) + 0.5) / pixels
    grid = torch.cartesian_prod(low + (high - low) * middles, left + (right - left) * middles).flip(1)
    grid = grid.to(regions.slopes)
    own = regions.region_of_points(grid)
    outputs = (regions.slopes[own] @ grid[:, :, None])[..., 0] + regions.offsets[own]
    found = outputs.argmax(1) if outputs.shape[1] > 1 else outputs[:, 0] > 0
    return numbers(torch.where(own < 0, torch.nan, found)).reshape(pixels, pixels)


def _window(axes: Axes, regions: Partition) -> None:
    left, right, low, high = _box(regions)
    axes.set(xlim=(left, right), ylim=(low, high), aspect="equal", xlabel="u", ylabel="v")
    for name in ("x", "y"):
        scales.linear(axes, name)
    axes.tick_params(length=0)
