"""The samples: a data set that gnomon knows, or a file that holds arrays or a table."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnomon import _checks
from gnomon._extras import extra
from gnomon._words import counted
from gnomon.data import IMAGE_COLUMNS, LABEL_COLUMNS, digits, files_of, find, home, load_images, split_of, standardise
from gnomon.errors import DataError, RangeError, ShapeError
from gnomon_lab.measuring.arrays import Array, members

DEFAULT_SAMPLES = 1024
DIGITS_TRAIN = 500
"""As in grok-digits."""
SEEDS = (-(2**63), 2**64 - 1)
"""The smallest and the largest seed of torch's generators."""
LARGEST_LABEL = 2**63 - 1
NUMBERS = "iuf"
"""NumPy's kinds of numeric dtypes."""


Position = int | Literal["all"] | None
"""For outputs with several rows per sample, the row to measure at, or all of them."""


class Data(NamedTuple):
    """The samples to measure at.

    Attributes:
        x: the inputs, as the network gets them.
        labels: whatever labels the data hold; None if there are none.
        source: where the samples come from, in words.
        files: the files from which they were read.
        split: the split, for a data set with splits.
        normalised: the mean and the deviation of each channel by which they were normalised; None if they were not.
        columns: for features from a table, which of its columns they and the labels are, in words.
    """

    x: Tensor
    labels: Tensor | None
    source: str
    files: tuple[Path, ...] = ()
    split: str | None = None
    normalised: Mapping[str, Sequence[float]] | None = None
    columns: str | None = None

    def to(self, device: torch.device) -> Self:
        """The same samples on a device."""
        return self._replace(x=self.x.to(device), labels=None if self.labels is None else self.labels.to(device))


def load_data(
    name: str,
    split: str | None = None,
    samples: int | None = None,
    *,
    seed: int = 0,
    data_dir: Path | None = None,
    dtype: torch.dtype = torch.float32,
) -> Data:
    """The first samples of a data set, in its own order.

    Args:
        name: `digits` (500 for training and 1,297 others, split as in grok-digits, each pixel standardised); an `.npz`
            file with arrays x, which may hold integers such as tokens, and labels (or y); a `.parquet` file with a
            column of images and one of labels, or with columns of numbers; or what `gnomon.data.load_images` finds: a
            folder, a name, a hub id.
        split: the split, for a data set with splits; default: `train`.
        samples: how many; default: 1,024, or all if there are fewer.
        seed: the seed of the digits' split.
        data_dir: the folder of data sets, the only place searched; default: those of `gnomon.data.load_images`.
        dtype: the dtype of the inputs, unless they are integers.

    Raises:
        DataError: if there is no such data set, or its file is invalid.
        RangeError: if there are not that many samples, or NaN or infinity is among them.
        ShapeError: if inputs and labels differ in number, or the inputs have only one axis.
    """
    path = home("measure(--data)", name)
    one_file = path.suffix in (".npz", ".parquet")
    if split is not None and one_file:
        raise DataError("--split", "none for one file", repr(split), "Leave it out, or name a folder.")
    if data_dir is not None and (one_file or name == "digits"):
        raise DataError("--data-dir", f"none for {'one file' if one_file else name}", str(data_dir), "Leave it out.")
    if seed != 0 and name != "digits":
        raise DataError("--seed", "none for data that are not split by it", seed, "Leave it out, or take digits.")
    if name == "digits":
        data = of_digits(split or "train", samples, seed)
    elif path.suffix == ".npz":
        data = of_arrays(path, samples)
    elif path.suffix == ".parquet":
        data = of_table(path, samples)
    else:
        data = of_images(name, split or "train", samples, data_dir)
    x = data.x.to(dtype) if data.x.is_floating_point() else data.x
    _checks.samples(x=x)
    _checks.finite(x=x)
    return data._replace(x=x)


def count(samples: int | None, rows: int, where: str) -> int:
    """How many of the rows to take."""
    if samples is not None and not 1 <= samples <= rows:
        raise RangeError(
            "--samples",
            f"1 to {rows}, the samples of {where}",
            samples,
            f"Leave it out for the first {min(rows, DEFAULT_SAMPLES)}.",
        )
    return min(rows, DEFAULT_SAMPLES) if samples is None else samples


def of_digits(split: str, samples: int | None, seed: int) -> Data:
    """The digits, split as in grok-digits, each pixel standardised."""
    if not SEEDS[0] <= seed <= SEEDS[1]:
        raise RangeError("--seed", f"{SEEDS[0]} to {SEEDS[1]}", seed, "Take a smaller one.")
    train, test = standardise(*digits(DIGITS_TRAIN, generator=torch.Generator().manual_seed(seed)))
    splits = {"train": train, "test": test}
    if split not in splits:
        raise DataError("--split", "train or test of the digits", repr(split), "Choose one.")
    source = f"digits ({split}, seed {seed})"
    n = count(samples, len(splits[split].x), source)
    return Data(splits[split].x[:n], splits[split].labels[:n], source, split=split)


def of_images(name: str, split: str, samples: int | None, data_dir: Path | None) -> Data:
    """Images from a folder or the hub."""
    if home("measure(--data)", name).is_file():
        raise DataError("--data", "an .npz or .parquet file", repr(name), "Save it by np.savez(path, x=…, labels=…).")
    try:
        table = find(name, split, data_dir)
    except DataError as error:
        if error.argument == "data_dir":
            error.argument = "--data-dir"
        if error.argument == "name":  # find()'s, of which this option takes more
            error.argument = "--data"
            if error.expected.startswith("one of "):  # the name is none, rather than that of a folder without images
                error.expected = f"digits, an .npz or .parquet file, {error.expected}"
                if difflib.get_close_matches(name.lower(), ["digits"]):
                    error.advice = "The nearest is 'digits'."
        raise
    n = count(samples, table.rows, table.where)
    return Data(*load_images(name, split, data_dir=data_dir, limit=n), f"{name} ({split})", table.files, split)


def of_arrays(path: Path, samples: int | None) -> Data:
    """The arrays x and labels, or y, of an .npz file; pickled ones are refused."""
    a_file(path)
    with reading(path, "npz"):
        there = members(path)
        arrays = {name: Array.of(path, there[name]) for name in ("x", "labels", "y") if name in there}
    if "x" not in arrays or not samples_in(arrays["x"]):
        got = f"x in {arrays['x'].dtype}" if "x" in arrays else f"arrays {', '.join(there) or 'none'}"
        raise DataError(
            "--data",
            "an array x of floating-point numbers, as the network gets them, or of tokens in int64",
            f"{got} in {path}",
            "Save x=..., and labels=... beside it.",
        )
    if arrays.keys() >= {"labels", "y"}:
        raise DataError("--data", "an array labels, or y", f"both in {path}", "Save one of them.")
    rows = arrays["x"].shape[0]
    n = count(samples, rows, str(path))
    labels = arrays.get("labels", arrays.get("y"))
    if labels is not None:
        if labels.dtype.kind not in NUMBERS or not labels.shape:
            raise no_numbers(labels.dtype, path)
        if labels.shape[0] != rows:
            axes = [axis for axis, size in enumerate(arrays["x"].shape) if size == labels.shape[0]]
            also = f", as many as axis {axes[0]} of x has" if axes else ""
            raise ShapeError(
                "--data",
                f"labels of {rows} samples, as in x",
                f"{labels.shape[0]} in {path}{also}",
                "Save both of the same samples, in the same order, on the first axis.",
            )
    kind = np.int64 if arrays["x"].dtype.kind == "i" else np.float32 if arrays["x"].dtype.itemsize <= 4 else np.float64
    with reading(path, "npz"):
        x = np.array(arrays["x"].rows(n), dtype=kind)
        found = None if labels is None else labels.rows(n)
    return Data(torch.from_numpy(x), None if found is None else numbers(found, path), path.name, (path,))


def samples_in(x: Array) -> bool:
    """Whether these can be samples: floating-point numbers, or integers such as tokens; bytes are pixels."""
    return bool(x.shape) and (x.dtype.kind == "f" or (x.dtype.kind == "i" and x.dtype.itemsize >= 2))


def numbers(labels: NDArray[Any], path: Path) -> Tensor:
    """Labels as integers or, where the file has them, as floating-point numbers."""
    if labels.dtype.kind not in NUMBERS:
        raise no_numbers(labels.dtype, path)
    if labels.dtype.kind == "u" and labels.max(initial=0) > LARGEST_LABEL:
        raise DataError(
            "--data", f"labels up to {LARGEST_LABEL}", f"{labels.max()} in {path}", "Number the classes from 0."
        )
    if labels.dtype.kind == "f" and (missing := np.argwhere(np.isnan(labels))).size:
        got = f"none for sample {missing[0][0]}, counted from 0, in {path}"
        raise DataError("--data", "a label for each sample", got, "Add it, or leave out such samples or all labels.")
    return torch.from_numpy(
        np.array(labels, f"f{min(labels.dtype.itemsize, 8)}" if labels.dtype.kind == "f" else np.int64)
    )


def no_numbers(dtype: np.dtype[Any], path: Path) -> DataError:
    """The error for labels that are names, or not a list."""
    return DataError("--data", "numbers as labels", f"{dtype} in {path}", "Number the classes from 0.")


def of_table(path: Path, samples: int | None) -> Data:
    """The rows of a .parquet file: images, or one feature per column."""
    arrow, parquet = extra("measure", "pyarrow", "data"), extra("measure", "pyarrow.parquet", "data")
    a_file(path)
    with reading(path, "parquet"), parquet.ParquetFile(path) as file:
        rows, columns = file.metadata.num_rows, file.schema_arrow.names
        described = (file.schema_arrow.pandas_metadata or {}).get("index_columns", [])
        index = [column for column in described if isinstance(column, str)]  # a range is described by a dict
    if any(column in columns for column in IMAGE_COLUMNS):
        return of_image_file(path, samples)
    n = count(samples, rows, str(path))
    label = next((column for column in LABEL_COLUMNS if column in columns), None)
    with reading(path, "parquet"), parquet.ParquetFile(path) as file:
        # No more of the groups of rows is decoded than is taken: a small file can hold any number of rows.
        parts = file.iter_batches(batch_size=max(1, n))
        table = arrow.Table.from_batches(rows_of(parts, n), schema=file.schema_arrow)
        arrays = {column: cells.to_numpy() for column, cells in zip(columns, table.columns, strict=True)}
    # Rows that were shuffled or filtered have their numbers in a column too, which pandas does not show.
    features = {column: cells for column, cells in arrays.items() if column != label and column not in index}
    others = [column for column, cells in features.items() if cells.dtype.kind not in NUMBERS]
    if others or not features:
        raise DataError(
            "--data",
            f"columns of images, or of numbers and one of {', '.join(LABEL_COLUMNS)}",
            f"{('others, ' + ', '.join(others) if others else 'no features')}, in {path}",
            "Leave these out.",
        )
    x = torch.from_numpy(np.stack([cells.astype(np.float64) for cells in features.values()], axis=1))
    labels = None if label is None else numbers(arrays[label], path)
    words = f"{counted(x.shape[1], 'feature')}, {'no label column' if label is None else f'label column {label}'}"
    return Data(x, labels, path.name, (path,), columns=words)


def rows_of(parts: Iterable[Any], n: int) -> Iterator[Any]:
    """The first n rows of a table that comes in parts."""
    for part in parts:
        if n <= 0:
            return
        yield part.slice(0, n)
        n -= part.num_rows


def of_image_file(path: Path, samples: int | None) -> Data:
    """The images of one file, which is all of its split."""
    split = split_of(path)
    files = files_of(path.parent, split)
    if len(files) > 1:
        raise DataError(
            "--data",
            "a file that is all of its split",
            f"{path.name}, one of {len(files)} of {split!r}",
            f"Name the folder, {path.parent}, and --split {split}.",
        )
    # An absolute path, because a relative one may be a data set's name.
    return of_images(str(path.parent.absolute()), split, samples, None)._replace(source=path.name, split=None)


def a_file(path: Path) -> None:
    """Refuses what is not a file: a folder, or a pipe or device, which might never end."""
    if not path.is_file():
        raise DataError("--data", "a file", f"{str(path)!r}", "Correct the path.")


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Turns what is raised by a file that is not what its name says into one sentence."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as cause:  # damaged archives and tables, or arrays of objects, raise whatever their readers raise
        raise DataError(
            "--data",
            f"a readable .{kind} file {str(path)!r}, without pickled objects",
            f"{type(cause).__name__} in it",
            "Correct the path, or save it again.",
        ) from cause
