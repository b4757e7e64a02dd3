"""The arrays of an .npz file, of which no more is read than is requested, and nothing is executed."""

import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

HEADERS: dict[tuple[int, int], Callable[[IO[bytes]], tuple[tuple[int, ...], bool, np.dtype[Any]]]] = {
    (1, 0): npy.read_array_header_1_0,
    (2, 0): npy.read_array_header_2_0,
}
"""By version of the format; version 3 is for names that are not ASCII, which arrays of numbers do not have."""


class Array(NamedTuple):
    """What the file says about an array.

    Attributes:
        path: the file.
        member: its name in the archive.
        shape: the lengths of its axes.
        dtype: the dtype of its numbers.
        by_columns: whether the first axis varies fastest.
    """

    path: Path
    member: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_columns: bool

    @classmethod
    def of(cls, path: Path, member: str) -> Self:
        """Reads what precedes the numbers.

        Raises:
            ValueError: if it is not a NumPy array, or one of objects, which would be created by running code.
        """
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            version = npy.read_magic(file)
            if version not in HEADERS:
                raise ValueError(f"version {version} of the format")
            shape, by_columns, dtype = HEADERS[version](file)
        if dtype.hasobject or min(shape, default=0) < 0:
            raise ValueError(f"{dtype} of shape {shape}")
        return cls(path, member, shape, dtype, by_columns)

    def rows(self, n: int) -> NDArray[Any]:
        """The first n rows; the others are read, because the checksum includes them, but not kept.

        Raises:
            ValueError: if the file ends early.
            zipfile.BadZipFile: if the checksum differs.
        """
        rows, *row = self.shape
        # The numbers come in parts, of each of which the first are wanted: the columns, or all numbers at once.
        parts, length = (math.prod(row), rows) if self.by_columns else (1, math.prod(self.shape))
        wanted = n if self.by_columns else n * math.prod(row)
        found = []
        with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
            HEADERS[npy.read_magic(file)](file)
            for _ in range(parts):
                found.append(np.frombuffer(take(file, wanted * self.dtype.itemsize), self.dtype))
                skip(file, (length - wanted) * self.dtype.itemsize)
        if self.by_columns:
            return np.stack(found).reshape(*reversed(row), n).transpose()
        return found[0].reshape(n, *row)


def members(path: Path) -> dict[str, str]:
    """The names of an .npz file's arrays, with those of its members.

    Raises:
        zipfile.BadZipFile: if it is not an archive.
        OSError: if it cannot be read.
    """
    with zipfile.ZipFile(path) as archive:
        return {name.removesuffix(".npy"): name for name in archive.namelist()}


def take(file: IO[bytes], size: int) -> bytes:
    """Reads so many bytes; raises ValueError if there are fewer."""
    content = file.read(size)
    if len(content) != size:
        raise ValueError(f"{size} bytes expected, {len(content)} there")
    return content


def skip(file: IO[bytes], size: int) -> None:
    """Reads so many bytes without keeping them; raises ValueError if there are fewer."""
    while size:
        size -= len(take(file, min(size, 2**20)))
