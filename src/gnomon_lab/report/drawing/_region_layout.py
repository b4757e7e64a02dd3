"""What both renderers of region maps share: colours, levels, legend, pixel sizes. Pure."""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from gnomon.plot import style
from gnomon_lab.figures import Corners, Points, Polylines, RegionFrame, RegionMap
from gnomon_lab.report.drawing import _layout
from gnomon_lab.report.drawing._legend import kinds

LEVELS = 24
"""Colours of a colour bar: all regions of one colour are drawn as one path, so that thousands stay fast."""
EDGE = 0.35
"""The width of the regions' edges, in pixels."""
EDGE_OPACITY = 0.4
GREYS = ("#f2f2f2", "#cfcfcf", "#9c9c9c")
"""Colours of few classes: of different lightness, so that the colour-blind tell them apart, and the points on them."""


@dataclass(frozen=True, eq=False)
class Level:
    """The regions of one colour.

    Attributes:
        colour: their colour.
        words: which values it stands for.
        polygons: the corners of each, (v, 2); there may be none.
    """

    colour: str
    words: str
    polygons: tuple[Corners, ...]

    @property
    def edge(self) -> tuple[int, int, int]:
        """Red, green and blue of the edges: those of ink, or white where ink would not be visible."""
        return (255, 255, 255) if sum(channels(self.colour)) < 330 else channels(style.INK)


def levels(regions: RegionMap, frame: RegionFrame) -> tuple[Level, ...]:
    """The regions of a frame by colour: the same number of levels in every frame, in the order of the values."""
    colours, names = level_colours(regions), regions.classes
    edges = np.linspace(*bar_ends(regions), len(colours) + 1)
    if not names:
        values = 10**edges if regions.log_values else edges
        names = tuple(f"{low:.3g} to {high:.3g}" for low, high in itertools.pairwise(values.tolist()))
    polygons: list[list[Corners]] = [[] for _ in colours]
    place = np.searchsorted(edges[1:-1], scaled(regions, *frame.values.tolist()), side="right")
    for i, polygon in zip(place, frame.polygons, strict=True):
        polygons[i].append(polygon)
    return tuple(Level(*level) for level in zip(colours, names, map(tuple, polygons), strict=True))


def channels(colour: str) -> tuple[int, int, int]:
    """Red, green and blue of a colour written as "#rrggbb"."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return red, green, blue


def level_colours(regions: RegionMap) -> list[str]:
    """The classes' colours, or those in the middle of each level, mixed between the stops of the colour scale."""
    if regions.classes:
        colours = GREYS if len(regions.classes) <= len(GREYS) else style.CLASSES
        return [colours[i % len(colours)] for i in range(len(regions.classes))]
    stops = np.array([channels(stop) for stop in style.VALUES])
    middles = (np.arange(LEVELS) + 0.5) / LEVELS * (len(stops) - 1)
    mixed = [np.interp(middles, np.arange(len(stops)), channel) for channel in stops.T]
    return ["#{:02x}{:02x}{:02x}".format(*colour) for colour in np.rint(mixed).astype(int).T.tolist()]


def scaled(regions: RegionMap, *values: float | int) -> tuple[float, ...]:
    """Places on the colour bar: the values, or their base-10 logarithms."""
    return _layout.exponents(*values) if regions.log_values else tuple(map(float, values))


def bar_ends(regions: RegionMap) -> tuple[float, float]:
    """The places at the ends of the colour bar; distinct even if all values are equal."""
    if regions.classes:
        return -0.5, len(regions.classes) - 0.5
    return _layout.distinct(*scaled(regions, *regions.value_span))


def bar_ticks(regions: RegionMap) -> tuple[tuple[float, ...], list[str]]:
    """Places on the colour bar and the words there: the classes, or about five round values.

    On a logarithmic bar these are 1, 2, 5 times powers of ten, or the powers alone.
    """
    if regions.classes:
        return tuple(map(float, range(len(regions.classes)))), list(regions.classes)
    low, high = bar_ends(regions)
    if regions.log_values:
        digits = (1, 2, 5) if high - low <= 2 else (1,)
        powers = range(math.floor(low), math.floor(high) + 1)
        values = [digit * 10.0**power for power in powers for digit in digits]
        values = [value for value in values if low <= math.log10(value) <= high] or [10**low, 10**high]
    else:
        step = 10 ** math.floor(math.log10((high - low) / 3))
        step *= next(times for times in (5, 2, 1) if (high - low) / (times * step) >= 3)
        values = [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return scaled(regions, *values), [f"{value:,.4g}" for value in values]


def marks(regions: RegionMap) -> tuple[Polylines | Points, ...]:
    """What the legend shows: the lines and the points of all frames, the first of each label and colour."""
    lines: list[Polylines | Points] = [mark for frame in regions.frames for mark in frame.lines]
    return kinds(lines + [mark for frame in regions.frames for mark in frame.points])
