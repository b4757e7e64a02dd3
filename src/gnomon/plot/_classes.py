"""Features as points of a plane, coloured by class: how far they have collapsed."""

import numpy as np
import numpy.typing as npt
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from gnomon import _checks
from gnomon.errors import ShapeError, public
from gnomon.plot import _legend, style
from gnomon.plot._values import Numbers, numbers, tensors

MARKERS = "os^Dv"
"""Their shapes: those of the first classes, in the palette's colours, then those of as many others."""


@public
def classes(
    features: Float[Tensor, "n p"], labels: Int[Tensor, "n"], *, ax: Axes | None = None, size: float = 3.0
) -> tuple[Figure, Axes]:
    """Draws features in the plane where the class means differ most, coloured by class, with rings around these means.

    The plane is spanned by the first two right singular vectors of the centred class means; features of two dimensions
    are drawn as they are.

    Args:
        features: one row per sample.
        labels: their classes.
        ax: where to draw; default: the axes of a new figure.
        size: the size of the points, in typographic points.

    Returns:
        The figure and its axes, whose two directions have the same scale.

    Raises:
        ArgumentTypeError: if what is passed is no tensor, or `ax` is not one Axes.
        ShapeError: if there is not one label for each row of features, or the features have only one dimension.
        EmptyError: if there is no sample.
        RangeError: at NaN or infinity.
    """
    tensors(features=features, labels=labels)
    _checks.samples(1, features=features, labels=labels)
    _checks.one_axis(labels=labels)
    _checks.rows(features=features)
    _checks.finite(features=features)
    if features.shape[1] < 2:
        raise ShapeError("features", "two dimensions or more", features.shape[1], "Draw them as a histogram.")
    kinds, places = np.unique(numbers(labels), return_inverse=True)
    points, means = in_plane(numbers(features), places, len(kinds))
    with style.canvas(ax, 3.9, 3.4) as (figure, axes):
        for place, kind in enumerate(kinds):
            own, shape = points[places == place], MARKERS[place // len(style.PALETTE) % len(MARKERS)]
            axes.plot(
                *own.T, shape, color=style.colour(place), markersize=size, markeredgewidth=0, rasterized=True,
                label=f"{kind:.0f}",
            )  # fmt: skip
            # A ring, since a collapsed class lies inside it.
            axes.plot(
                *means[place], "o", color="none", markersize=2.4 * size, markeredgecolor=style.INK, markeredgewidth=0.8,
                zorder=3,
            )  # fmt: skip
        axes.set(xticks=[], yticks=[], aspect="equal")
        axes.set_adjustable("datalim")
        axes.margins(0.08)
        _legend.beside(axes, _legend.named([axes]))
    return figure, axes


def in_plane(features: Numbers, places: npt.NDArray[np.intp], kinds: int) -> tuple[Numbers, Numbers]:
    """The features and the class means, relative to the mean of these, in the plane in which they differ most."""
    means = np.stack([features[places == place].mean(0) for place in range(kinds)])
    if features.shape[1] == 2:
        return features, means
    centre = means.mean(0)
    around = np.concatenate([means - centre, np.zeros_like(means[:1])])  # two rows or more, also of one class
    plane = np.linalg.svd(around, full_matrices=False)[2][:2].T
    return (features - centre) @ plane, (means - centre) @ plane
