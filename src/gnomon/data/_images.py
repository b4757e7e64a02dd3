"""Labelled images from parquet or folders of classes, or from the Hugging Face hub, decoded into one tensor."""

import io
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon import _checks
from gnomon._extras import extra
from gnomon._kinds import checked
from gnomon.data._samples import Samples
from gnomon.data._sources import find
from gnomon.data._table import Table
from gnomon.errors import DataError, EmptyError, RangeError

IMAGE_COLUMNS = ("image", "images", "img")
LABEL_COLUMNS = ("label", "labels", "fine_label", "y", "target", "class")
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP")  # those of Pillow's many that data sets use
_MOST_PIXELS = 2**26  # per image: a file of a few kB can decode to any number


@checked
def load_images(
    name: str, split: str, *, data_dir: str | PathLike[str] | None = None, limit: int | None = None
) -> Samples:
    """The images of a split and their classes.

    Searched for in the folder `<name>` of `data_dir` alone, if that is given; otherwise of the folder that the
    environment variable GNOMON_DATA names, then at the path `<name>`, then on the Hugging Face hub, whose downloads
    stay in the cache of `datasets`. The five short names are never paths; a name that is absolute, or begins with `.`
    or `~`, is nothing else. A folder holds files `<split>.parquet` and `<split>-<number>*.parquet`, whose rows are
    taken in the order of these names, or, if it has no such file, image files in folders `<split>/<class>`, laid out as
    for torchvision's `ImageFolder`: classes are numbered by the names of their folders, and images are taken from each
    class in turn. A split that lacks classes of `train`, or has more, is refused where the others would be numbered
    otherwise than there. Of files `<split>-<number>-of-<number>*.parquet` all must be there. Nothing is written next to
    local data.

    Args:
        name: `mnist`, `fashion_mnist`, `cifar10`, `svhn` or `stl10`; or the hub id `owner/name` of any other
            data set of images; or the path of a folder that holds the files.
        split: usually `train` or `test`.
        data_dir: the folder of data sets, the only place searched.
        limit: take only this many, from the first on; the others are not decoded. All if None.

    Returns:
        Inputs of shape (n, c, h, w), float32 on the CPU, from 0 (dark) to 1 (8-bit pixels divided by 255);
        one channel for grey images, three for colour, four with transparency. If images differ in this, all are
        converted to that of the first, whereas `ImageFolder` converts all to colour. Labels int64.

    Raises:
        DataError: no such data set, folder or split, no network, or files, columns or images missing or unreadable:
            images must be PNG, JPEG, BMP, GIF, TIFF or WebP, up to 2²⁶ pixels each, and in parquet in the table itself:
            a path in their place is not followed, since it could lead anywhere on this machine.
        EmptyError: the split has no rows.
        RangeError: `limit` is not whole, or not between 1 and the number of rows.
        MissingExtraError: the extra `data` is not installed, or broken.
    """
    table = find(name, split, data_dir)
    if table.rows == 0:
        raise EmptyError("split", "images", f"no rows in {table.where}", "Choose another split.")
    if limit is not None and not _checks.whole(limit, 1, table.rows):
        raise RangeError(
            "limit",
            f"a whole number from 1 to {table.rows}, the rows of {table.where}",
            limit,
            "Leave it out for all.",
        )
    image_column = _column(table, "image", IMAGE_COLUMNS)
    label_column = _column(table, "label", LABEL_COLUMNS)
    count = table.rows if limit is None else limit
    pixels, labels = _decoded(table, _rows(table, image_column, label_column, count))
    channels_first = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    x = channels_first.to(torch.float32, memory_format=torch.contiguous_format).div_(255)
    return Samples(x, torch.tensor(labels, dtype=torch.int64, device="cpu"))


def _decoded(table: Table, rows: Iterable[tuple[Any, Any]]) -> tuple[NDArray[np.uint8], list[int]]:
    """The pixels (n, h, w, c) of all images, in the Pillow mode of the first, and the labels."""
    images: list[NDArray[np.uint8]] = []
    labels: list[int] = []
    mode = ""
    pil = extra("load_images", "PIL.Image", "data")
    for row, (cell, label) in enumerate(rows):
        where = f"row {row} of {table.where}{_file(cell)}"
        image, mode = _decode(pil, cell, mode, where)
        if images and image.shape != images[0].shape:
            raise DataError(
                "name",
                "images of one size",
                f"{images[0].shape[:2]} and then {image.shape[:2]} at {where}",
                "Resize them beforehand.",
            )
        if not isinstance(label, int) or abs(label) >= 2**63:
            raise DataError("name", "integer labels", f"{label!r} at {where}", "Number the classes from 0.")
        images.append(image)
        labels.append(label)
    return np.stack(images), labels


def _column(table: Table, what: str, candidates: tuple[str, ...]) -> str:
    for candidate in candidates:
        if candidate in table.columns:
            return candidate
    raise DataError(
        "name",
        f"a column {' or '.join(candidates)} for the {what}",
        f"{', '.join(table.columns) or 'no columns'} in {table.where}",
        f"Rename the {what} column.",
    )


def _rows(table: Table, image_column: str, label_column: str, count: int) -> Iterator[tuple[Any, Any]]:
    """The first `count` pairs of an undecoded image and its label."""
    left = count
    for batch in table.batches((image_column, label_column)):
        batch = batch.slice(0, left)
        images, labels = (_cells(batch, column, table.where) for column in (image_column, label_column))
        yield from zip(images, labels, strict=True)
        left -= batch.num_rows
        if not left:
            return
    # A damaged file may promise more rows than it has.
    raise DataError(
        "name", f"{count} rows in {table.where}", f"the end after {count - left}", "Copy or download it again."
    )


def _cells(batch: Any, column: str, where: str) -> list[Any]:  # noqa: ANN401 - pyarrow's own
    """The cells of a column; the path beside an image as bytes, because nothing says in which encoding it is."""
    arrow = extra("load_images", "pyarrow", "data")
    found = batch.schema.get_all_field_indices(column)
    if len(found) != 1:
        raise DataError("name", f"one column {column}", f"{len(found)} in {where}", "Leave one of them.")
    cells = batch.column(found[0])
    with _refusing(f"a readable column {column}", f"some row of {where}", "Write that column again."):
        if arrow.types.is_struct(cells.type):
            texts = (arrow.string(), arrow.large_string())
            paths = [field for field in cells.type if field.name == "path" and field.type in texts]
            fields = [field.with_type(arrow.large_binary()) if field in paths else field for field in cells.type]
            cells = cells.cast(arrow.struct(fields))
        return cells.to_pylist()


@contextmanager
def _refusing(expected: str, where: str, advice: str) -> Iterator[None]:
    """Raises DataError if what is inside fails."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as cause:  # Pillow's decoders raise OSError, SyntaxError, ValueError, struct.error, …
        raise DataError("name", expected, f"{type(cause).__name__} at {where}", advice) from cause


def _decode(pil: ModuleType, cell: object, mode: str, where: str) -> tuple[NDArray[np.uint8], str]:
    """The pixels (h, w, c) of an image in the given Pillow mode, or in its own if that is empty; and the mode.

    The cell holds the bytes of an image file, or a struct of these and a path, which is not followed.
    """
    content = cell.get("bytes") if isinstance(cell, dict) else cell
    if not isinstance(content, bytes):
        raise DataError(
            "name",
            "the bytes of an image",
            f"{_named(cell)} at {where}",
            "Write the images themselves into the table.",
        )
    with _refusing("a readable image", where, f"Write that row again, in one of {', '.join(_FORMATS)}."):
        with warnings.catch_warnings():
            warnings.simplefilter("error", pil.DecompressionBombWarning)
            image = pil.open(io.BytesIO(content), formats=_FORMATS)
        if image.width * image.height <= _MOST_PIXELS:
            image.load()
    if image.width * image.height > _MOST_PIXELS:
        raise DataError(
            "name",
            f"an image of at most {_MOST_PIXELS:,} pixels",
            f"{image.width} x {image.height} at {where}",
            "Make it smaller.",
        )
    own = _mode(image.mode, "transparency" in image.info, where)
    mode = mode or own
    with _refusing(f"an image that becomes {mode} from {image.mode}", where, "Convert it to RGB beforehand."):
        pixels = np.asarray(image if image.mode == mode else image.convert(mode))
    return pixels.reshape(image.height, image.width, len(mode)), mode


def _path(cell: object) -> str:
    """The path beside an image, or in its place; in another encoding than UTF-8 not all of it can be read."""
    path = cell.get("path") if isinstance(cell, dict) else None
    return path.decode(errors="replace") if isinstance(path, bytes) else str(path or "")


def _file(cell: object) -> str:
    """The name of the file that an image was read from, if it is there."""
    if not isinstance(cell, dict) or cell.get("bytes") is None or not (path := _path(cell)):
        return ""
    return f", {path!r}"


def _named(cell: object) -> str:
    """What is in an image's place, in words."""
    if path := _path(cell):
        return f"the path {path!r}"
    return "none" if cell is None or isinstance(cell, dict) else type(cell).__name__


def _mode(mode: str, transparent: bool, where: str) -> str:
    """The Pillow mode, one letter per channel, in which to hold an image of a mode, one colour of which may be none."""
    if mode.startswith(("I", "F")):
        raise DataError(
            "name",
            "8-bit images",
            f"Pillow mode {mode!r} at {where}",
            "Convert them to 8 bits per channel beforehand.",
        )
    if transparent or mode.endswith(("A", "a")):
        return "RGBA"
    return "L" if mode in ("1", "L") else "RGB"
