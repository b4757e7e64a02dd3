"""The images and tables that a run reads: their hashes are noted in its config.json, and others are refused later."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from torch import Tensor

from gnomon import data
from gnomon.errors import DataError
from gnomon_lab.runs.files import read_json_object, write_json
from gnomon_lab.runs.found import AFRESH, Found

Asked = tuple[str, str | None, int | None]
"""The name, the split and the limit that `load_images` was called with; of a table its name alone."""
_FOLDER: ContextVar[Path | None] = ContextVar("_FOLDER", default=None)


def load_images(name: str, split: str, *, data_dir: Path | None = None, limit: int | None = None) -> data.Samples:
    """As `gnomon.data.load_images`; inside `noting`, the hash of the samples is noted in the run.

    Raises:
        DataError: as there, and if the run loaded other samples before.
    """
    loaded = data.load_images(name, split, data_dir=data_dir, limit=limit)
    if (folder := _FOLDER.get()) is not None:
        _note(folder, (name, split, limit), digest(*loaded))
    return loaded


def note_tables(folder: Path, tables: Mapping[str, Path]) -> None:
    """Notes in a run's folder the hashes of the tables that it reads, by name.

    Raises:
        DataError: if the run read others before.
    """
    for asked, sha256 in _hashes(tables).items():
        _note(folder, asked, sha256)


def _note(folder: Path, asked: Asked, sha256: str) -> None:
    before, path = _noted(folder), folder / "config.json"
    _require_same(folder, asked, before.setdefault(asked, sha256), sha256)
    entries = [{"name": n, "split": s, "limit": most, "sha256": of} for (n, s, most), of in before.items()]
    if (config := read_json_object(path)).get("data") != entries:
        write_json(path, config | {"data": entries})


def _hashes(tables: Mapping[str, Path]) -> dict[Asked, str]:
    """The hashes of the tables that are there; whoever reads one that is not says so."""
    there = {name: path.read_bytes() for name, path in tables.items() if path.is_file()}
    return {(name, None, None): hashlib.sha256(content).hexdigest() for name, content in there.items()}


@contextmanager
def noting(folder: Path) -> Iterator[None]:
    """Has `load_images` note in a run's folder what it loads."""
    token = _FOLDER.set(folder)
    try:
        yield
    finally:
        _FOLDER.reset(token)


def require_data(runs: Sequence[Found], data_dir: Path | None, tables: Mapping[str, Path]) -> None:
    """Raises DataError if a run read other tables, or loaded other images than those of a folder of data sets, if any.

    Each is loaded once. Tables that are gone are not checked, nor are runs of versions that noted no hashes.
    """
    here = _hashes(tables)
    for run in runs:
        for asked, sha256 in _noted(run.folder).items():
            name, split, limit = asked
            if asked not in here and split is not None and data_dir is not None:
                here[asked] = digest(*data.load_images(name, split, data_dir=data_dir, limit=limit))
            _require_same(run.folder, asked, sha256, here.get(asked, sha256))


def digest(*parts: Tensor | None) -> str:
    """A hash of the samples and their labels."""
    whole = hashlib.sha256()
    for tensor in parts:
        if tensor is not None:
            whole.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            whole.update(tensor.cpu().contiguous().flatten().numpy().data)
    return whole.hexdigest()[:12]


def _noted(folder: Path) -> dict[Asked, str]:
    """The hashes in a run's config.json; raises DataError if they are not sound."""
    path = folder / "config.json"
    entries: Any = read_json_object(path).get("data", [])
    try:
        return {(one["name"], one["split"], one["limit"]): one["sha256"] for one in entries}
    except (TypeError, KeyError) as cause:
        expected = "name, split, limit and sha256 of each entry of data"
        raise DataError(path, expected, cause, AFRESH, where="run") from cause


def _require_same(folder: Path, asked: Asked, before: str, now: str) -> None:
    if before != now:
        name, split, limit = asked
        first = "" if limit is None else f", the first {limit:,}"
        expected, got, advice = (
            (f"the table {name} that the run read", "another", "Restore it")
            if split is None
            else (f"the samples of {name} ({split}{first}) that the run loaded", "others",
                  "Name their folder by --data-dir or GNOMON_DATA")
        )  # fmt: skip
        raise DataError(folder, expected, got, f"{advice}, or choose another folder --runs.", where="run")
