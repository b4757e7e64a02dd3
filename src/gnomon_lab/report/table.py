"""The records of several seeds as one table, for other tools."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gnomon._extras import extra
from gnomon.errors import DataError
from gnomon_lab.runs import Found
from gnomon_lab.runs.files import replace_file


def write_table(runs: Sequence[Found], path: Path) -> None:
    """Writes a row per record, in the order of seeds and records: `seed`, `arm`, `step`, and a column per number.

    Groups within a record have a column per entry, such as `seconds.read`. A column that has lists, or values of
    several kinds, is written as JSON.

    Raises:
        DataError: if the file's name does not end in `.parquet`, or the records of a run are damaged.
        MissingExtraError: if pyarrow is not installed.
    """
    if path.suffix != ".parquet":
        raise DataError("--table", "a name that ends in .parquet", f"{str(path)!r}", "Rename it.")
    arrow, parquet = extra("report", "pyarrow", "data"), extra("report", "pyarrow.parquet", "data")
    rows = [
        {"seed": run.seed, **dict(_flat(record))}
        for run in sorted(runs, key=lambda run: run.seed)
        for record in run.records()
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = arrow.table({name: _column([row.get(name) for row in rows]) for name in names})
    numbers = [field.name for field in table.schema if arrow.types.is_floating(field.type)]

    def write(beside: Path) -> None:
        parquet.write_table(
            table,
            beside,
            compression="zstd",
            compression_level=19,
            use_dictionary=[name for name in names if name not in numbers],
            use_byte_stream_split=numbers,
        )

    replace_file(path, write)


def _flat(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The names and values of a record, with its groups flattened."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _column(values: list[Any]) -> list[Any]:
    """The values, as JSON if some are lists or they are of several kinds; integers are numbers as others are."""
    kinds = {float if type(value) is int else type(value) for value in values if value is not None}
    alike = len(kinds) < 2 and list not in kinds
    return values if alike else [None if value is None else json.dumps(value) for value in values]
