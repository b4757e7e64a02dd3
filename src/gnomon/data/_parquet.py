"""Images in a folder of parquet files."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from gnomon._extras import extra
from gnomon.data._table import Table, line, no_split
from gnomon.errors import DataError

_BATCH = 1024  # rows held in memory at once, still compressed
_NAMED = 3  # missing files in an error


_PART = re.compile(r"-(\d+)-of-(\d+)(-.*)?$")  # what the hub adds to a split's name: -00000-of-00002, or with a hash


def split_of(path: Path) -> str:
    """The split that a file names: `<split>.parquet`, or `<split>-<number>-of-<number>*.parquet` for a part of it."""
    return _PART.sub("", path.stem)


def files_of(folder: Path, split: str) -> list[Path]:
    """The files `<split>.parquet` and `<split>-<number>*.parquet` of a folder, in the order of their names."""
    named = re.compile(rf"{re.escape(split)}(-\d.*)?")
    return [path for path in sorted(folder.glob("*.parquet")) if named.fullmatch(path.stem)]


def of_parquet(folder: Path, split: str) -> Table:
    """The table of a split in the parquet files of a folder, which has some."""
    parquet = extra("load_images", "pyarrow.parquet", "data")
    files = files_of(folder, split)
    if not files:
        raise no_split(folder, split, _splits(folder), f"{split}.parquet")
    _require_all_parts(files)
    rows, columns = 0, []
    for path in files:
        if not path.is_file():  # opening a pipe would never end
            raise DataError("name", "a file", f"{str(path)!r}", "Put the parquet file there.")
        with _readable(path):
            metadata = parquet.read_metadata(path)
            in_groups = sum(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
        if metadata.num_rows != in_groups:
            raise _unreadable(path, f"{metadata.num_rows} rows in all, {in_groups} in its groups of rows")
        rows += metadata.num_rows
        columns.append(metadata.schema.to_arrow_schema().names)

    def batches(wanted: Sequence[str]) -> Iterator[Any]:
        for path in files:
            with _readable(path), parquet.ParquetFile(path) as file:
                yield from file.iter_batches(batch_size=_BATCH, columns=list(wanted))

    shared = [column for column in columns[0] if all(column in others for others in columns)]
    return Table(f"{folder} ({split})", rows, shared, batches, tuple(files))


def _splits(folder: Path) -> list[str]:
    """All splits that a folder may be said to have: with cifar-10.parquet, both cifar-10 and cifar."""
    named = [split_of(path) for path in folder.glob("*.parquet")]
    return sorted({*named, *(re.split(r"-\d", split)[0] for split in named)})


def _require_all_parts(files: Sequence[Path]) -> None:
    """Raises unless each part is there of what is said to come in so many, as after a download that ended too early."""
    there = defaultdict(set)
    for path in files:
        if part := _PART.search(path.stem):
            there[split_of(path), part[2]].add(int(part[1]))
    for (split, parts), numbers in there.items():
        first = 1 if int(parts) in numbers else 0  # not the hub's own, which count from 0
        missing = (number for number in range(first, int(parts) + first) if number not in numbers)
        names = [f"{split}-{number:0{len(parts)}}-of-{parts}" for number in islice(missing, _NAMED)]
        if names:
            more = f" and {left} more" if (left := int(parts) - len(numbers) - len(names)) > 0 else ""
            raise DataError(
                "name",
                f"all {int(parts)} parts of {split!r} in {str(files[0].parent)!r}",
                f"none of {', '.join(names)}{more}",
                "Download what is missing.",
            )


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Raises DataError if reading the file fails inside."""
    try:
        yield
    except (extra("load_images", "pyarrow", "data").ArrowException, OSError) as cause:
        raise _unreadable(path, line(cause)) from cause


def _unreadable(path: Path, why: str) -> DataError:
    """The error for a file that is damaged."""
    return DataError("name", "a readable parquet file", f"{str(path)!r} ({why})", "Copy or download it again.")
