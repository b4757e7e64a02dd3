"""What lies in input space, such as centroids and eigenvectors of an AGOP, as images."""

import numpy as np
import numpy.typing as npt
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from gnomon import _checks
from gnomon.errors import ShapeError, public
from gnomon.plot import style
from gnomon.plot._values import numbers, tensors

SLIM = 6
"""How many times as long as wide, or as wide as long, an image may be to keep its shape."""


@public
def images(
    images: Float[Tensor, "n h w"], *, ax: Axes | None = None, signed: bool | None = None
) -> tuple[Figure, Axes]:
    """Draws grey or signed images side by side, each scaled by its own largest |value|.

    Those too slender to be seen are stretched.

    Args:
        images: the images, of shape (n, h, w).
        ax: where to draw; default: the axes of a new figure.
        signed: whether blue is negative and red positive, or white 0 and black the largest; default: whether there is a
            negative value.

    Returns:
        The figure and its axes.

    Raises:
        ArgumentTypeError: if the images are no tensor, or `ax` is not one Axes.
        ShapeError: if the images are not of shape (n, h, w).
        EmptyError: if there are none.
        RangeError: at NaN or infinity.
    """
    tensors(images=images)
    _checks.samples(3, images=images)
    _checks.finite(images=images)
    if images.ndim != 3:
        raise ShapeError("images", "(n, h, w)", _checks.shape_of(images), "Leave the channels out, or join them.")
    pixels = numbers(images)
    n, h, w = pixels.shape
    with style.canvas(ax, 1.1 * n, 1.1 * min(max(h / w, 1 / SLIM), SLIM)) as (figure, axes):
        show(axes, pixels, bool((pixels < 0).any()) if signed is None else signed)
    return figure, axes


def show(axes: Axes, pixels: npt.NDArray[np.floating], signed: bool) -> None:
    """Fills axes with a row of images."""
    stops = style.DIVERGING if signed else style.SEQUENTIAL
    colours = LinearSegmentedColormap.from_list("gnomon", list(stops)).with_extremes(bad=(1, 1, 1, 0))
    _, h, w = pixels.shape
    axes.imshow(
        mosaic(pixels), cmap=colours, vmin=-1 if signed else 0, vmax=1, interpolation="none",
        aspect="equal" if max(h, w) <= SLIM * min(h, w) else "auto",
    )  # fmt: skip
    axes.set_axis_off()


def mosaic(images: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """A row of images, (n, h, w), as one array: each divided by its own largest |value|, with NaN between."""
    n, h, w = images.shape
    gap = image_gap(w)
    row = np.full((h, n * (w + gap) - gap), np.nan)
    for i, image in enumerate(images.astype(np.float64)):
        row[:, i * (w + gap) : i * (w + gap) + w] = image / (np.abs(image).max() or 1.0)
    return row


def image_gap(width: int) -> int:
    """The pixels between two images of this width."""
    return max(1, round(width / 8))
