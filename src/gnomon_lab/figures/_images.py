"""What rows of images show, one frame for each moment, as plain data."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gnomon.errors import EmptyError, RangeError, ShapeError


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

    def __post_init__(self) -> None:
        if self.images.ndim != 3:
            raise ShapeError(
                "images",
                "shape (n, h, w)",
                f"{self.images.shape} for {self.label!r}",
                "Reshape to one image per entry.",
                where="ImageRow",
            )
        if self.images.size == 0:
            raise EmptyError(
                "images",
                "at least one pixel",
                f"shape {self.images.shape} for {self.label!r}",
                "Leave the row out.",
                where="ImageRow",
            )
        finite = np.isfinite(self.images)
        if not finite.all():
            where = tuple(int(i) for i in np.argwhere(~finite)[0])
            raise RangeError(
                "images",
                "finite pixels",
                f"{self.images[where]} at {where} of {self.label!r}",
                "Look for the step at which training diverged.",
                where="ImageRow",
            )


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

    def __post_init__(self) -> None:
        if not self.rows:
            raise EmptyError("rows", "at least one row", f"none at {self.label!r}", "Add a row.", where="ImageFrame")


@dataclass(frozen=True)
class ImageSlider:
    """Rows of images, one frame for each moment of training; what is interactive opens at the last one.

    Attributes:
        name: the figure's file name, without suffix.
        title: one line that says what to see.
        caption: what is drawn, in sentences.
        frames: in order of time; every frame has the same rows, and all rows have one shape.
        diverging: blue, white, red around 0; False draws white to black from 0, for images without negative pixels.

    Raises:
        EmptyError: if there is no frame.
        ShapeError: if rows differ between frames in label, or anywhere in shape.
        RangeError: if `diverging` is False and a pixel is negative.
    """

    name: str
    title: str
    caption: str
    frames: tuple[ImageFrame, ...]
    diverging: bool = True

    def __post_init__(self) -> None:
        if not self.frames:
            raise EmptyError("frames", "at least one frame", f"none in {self.name!r}", "Add one.", where="ImageSlider")
        labels = [row.label for row in self.frames[0].rows]
        shape = self.frames[0].rows[0].images.shape
        for frame in self.frames:
            if (here := [row.label for row in frame.rows]) != labels:
                raise ShapeError(
                    "frames",
                    f"the rows {labels} in every frame",
                    f"{here} at {frame.label!r}",
                    "Give every frame the same rows.",
                    where="ImageSlider",
                )
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
            raise ShapeError(
                "frames",
                f"images of shape {shape} in every row",
                f"{row.images.shape} for {row.label!r} at {at!r}",
                "Show as many images, of one size, in each row.",
                where="ImageSlider",
            )
        if not self.diverging and row.images.min() < 0:
            raise RangeError(
                "diverging",
                "no negative pixel",
                f"{row.images.min():.3g} for {row.label!r} at {at!r}",
                "Set diverging=True.",
                where="ImageSlider",
            )
