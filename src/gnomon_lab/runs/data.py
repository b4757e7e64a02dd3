"""The images that a run loads: their hashes are noted in its config.json, and other images are refused later."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from torch import Tensor

from gnomon import data
from gnomon.errors import DataError
from gnomon_lab.runs.files import read_json_object, write_json
from gnomon_lab.runs.found import Found

Asked = tuple[str, str, int | None]
"""The name, the split and the limit that `load_images` was called with."""
_FOLDER: ContextVar[Path | None] = ContextVar("_FOLDER", default=None)


def load_images(name: str, split: str, *, data_dir: Path | None = None, limit: int | None = None) -> data.Samples:
    """As `gnomon.data.load_images`; inside `noting`, the hash of the samples is noted in the run.

    Raises:
        DataError: as there, and if the run loaded other samples before.
    """
    loaded = data.load_images(name, split, data_dir=data_dir, limit=limit)
    if (folder := _FOLDER.get()) is not None:
        asked, sha256, before = (name, split, limit), digest(*loaded), _noted(folder)
        _require_same(folder, asked, before.setdefault(asked, sha256), sha256)
        path = folder / "config.json"
        entries = [{"name": n, "split": s, "limit": most, "sha256": of} for (n, s, most), of in before.items()]
        if (config := read_json_object(path)).get("data") != entries:
            write_json(path, config | {"data": entries})
    return loaded


@contextmanager
def noting(folder: Path) -> Iterator[None]:
    """Has `load_images` note in a run's folder what it loads."""
    token = _FOLDER.set(folder)
    try:
        yield
    finally:
        _FOLDER.reset(token)


def require_data(runs: Sequence[Found], data_dir: Path) -> None:
    """Raises DataError if a run loaded other images than those of a folder of data sets; loads each once.

    Runs of versions that noted no hashes are not checked.
    """
    here: dict[Asked, str] = {}
    for run in runs:
        for asked, sha256 in _noted(run.folder).items():
            if asked not in here:
                name, split, limit = asked
                here[asked] = digest(*data.load_images(name, split, data_dir=data_dir, limit=limit))
            _require_same(run.folder, asked, sha256, here[asked])


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
        raise DataError(path, expected, cause, "Restore the file.", where="run") from cause


def _require_same(folder: Path, asked: Asked, before: str, now: str) -> None:
    if before != now:
        name, split, limit = asked
        raise DataError(
            folder,
            f"the samples of {name} ({split}{'' if limit is None else f', the first {limit:,}'}) that the run loaded",
            "others",
            "Name their folder by --data-dir or GNOMON_DATA, or choose another folder --runs.",
            where="run",
        )
