"""Images in a folder of parquet files."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gnomon._extras import extra
from gnomon.data._table import Table, line, no_split
from gnomon.errors import DataError

_BATCH = 1024  # rows held in memory at once, still compressed


def split_of(path: Path) -> str:
    """The split of which a file `<split>.parquet` or `<split>-<number>*.parquet` is a part."""
    return re.split(r"-\d", path.stem)[0]


def of_parquet(folder: Path, split: str) -> Table:
    """The table of a split in the parquet files of a folder, which has some."""
    parquet = extra("load_images", "pyarrow.parquet", "data")
    files = _files(folder, split)
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


def _files(folder: Path, split: str) -> list[Path]:
    """The files `<split>.parquet` and `<split>-<number>*.parquet` of a folder, in the order of their names."""
    splits = defaultdict(list)
    for path in sorted(folder.glob("*.parquet")):
        splits[split_of(path)].append(path)
    if split not in splits:
        raise no_split(folder, split, splits, f"{split}.parquet")
    return splits[split]


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
