"""What rows of images show, one frame for each moment, as plain data."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gnomon.errors import RangeError, ShapeError, public
from gnomon_lab.figures._checks import some


@dataclass(frozen=True, eq=False)
class ImageRow:
    """Images side by side. Each is drawn scaled by its own largest |value|.

    Attributes:
        label: what the images are.
        images: shape (n, h, w).

    Raises:
        ShapeError: if the array is not three-dimensional.
        EmptyError: if it has no pixel.
        RangeError: if a pixel is NaN or infinite.
    """

    label: str
    images: npt.NDArray[np.floating]

    @public
    def __post_init__(self) -> None:
        if self.images.ndim != 3:
            got = f"{self.images.shape} in {self.label!r}"
            raise ShapeError("images", "shape (n, h, w)", got, "Reshape to one image per entry.")
        some("images", self.images.ravel(), "pixel", self.label)
        finite = np.isfinite(self.images)
        if not finite.all():
            where = tuple(int(i) for i in np.argwhere(~finite)[0])
            got = f"{self.images[where]} at {where} of {self.label!r}"
            raise RangeError("images", "finite pixels", got, "Look for the step at which training diverged.")


@dataclass(frozen=True)
class ImageFrame:
    """The rows of images at one moment.

    Attributes:
        label: the moment, such as "step 100".
        rows: from top to bottom.

    Raises:
        EmptyError: if there is no row.
    """

    label: str
    rows: tuple[ImageRow, ...]

    @public
    def __post_init__(self) -> None:
        some("rows", self.rows, "row", self.label)


@dataclass(frozen=True)
class ImageSlider:
    """Rows of images, one frame for each moment of training; interactive views open at the last one.

    Attributes:
        name: the figure's file name, without suffix.
        title: one line that says what to see.
        caption: what is drawn, in sentences.
        frames: in order of time; every frame has the same rows, and all rows have the same shape.
        diverging: blue, white, red around 0; False draws white to black from 0, for images without negative pixels.

    Raises:
        EmptyError: if there is no frame.
        ShapeError: if the labels of rows differ between frames, or the shapes of rows differ anywhere.
        RangeError: if `diverging` is False and a pixel is negative.
    """

    name: str
    title: str
    caption: str
    frames: tuple[ImageFrame, ...]
    diverging: bool = True

    @public
    def __post_init__(self) -> None:
        some("frames", self.frames, "frame", self.name)
        labels = [row.label for row in self.frames[0].rows]
        shape = self.frames[0].rows[0].images.shape
        for frame in self.frames:
            if (here := [row.label for row in frame.rows]) != labels:
                got = f"{here} at {frame.label!r}"
                raise ShapeError("frames", f"the rows {labels} in every frame", got, "Give every frame the same rows.")
            for row in frame.rows:
                self._check_row(row, shape, frame.label)

    @property
    def how_to_read(self) -> str:
        """The sentence that explains the colours."""
        if self.diverging:
            return "Each image is scaled by its own largest absolute value: blue is negative, white zero, red positive."
        return "Each image is scaled by its own largest value: white is zero, black the largest."

    def _check_row(self, row: ImageRow, shape: tuple[int, ...], at: str) -> None:
        if row.images.shape != shape:
            expected, got = f"images of shape {shape} in every row", f"{row.images.shape} for {row.label!r} at {at!r}"
            raise ShapeError("frames", expected, got, "Show as many images, of one size, in each row.")
        if not self.diverging and row.images.min() < 0:
            got = f"{row.images.min():.3g} for {row.label!r} at {at!r}"
            raise RangeError("diverging", "no negative pixel", got, "Set diverging=True.")
