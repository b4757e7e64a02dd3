"""Where image data are: in a folder of parquet files, or on the Hugging Face hub; either way a table in batches."""

import difflib
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from gnomon._extras import extra
from gnomon.errors import DataError

_BATCH = 1024  # rows held in memory at once, still compressed
_PROBE_SECONDS = 5.0  # how long to wait for the hub's first answer


class Known(NamedTuple):
    """A data set with a short name: its folder under a data directory, and its place on the hub."""

    folder: str
    hub_id: str
    config: str | None = None


KNOWN = {
    "mnist": Known("mnist", "ylecun/mnist"),
    "fashion_mnist": Known("fashion_mnist", "zalando-datasets/fashion_mnist"),
    "cifar10": Known("cifar10", "uoft-cs/cifar10"),
    "svhn": Known("svhn", "ufldl-stanford/svhn", "cropped_digits"),
    "stl10": Known("stl10", "tanganke/stl10"),
}


class Table(NamedTuple):
    """A split before decoding: `batches(columns)` yields pyarrow record batches in the original order.

    Attributes:
        files: the files from which they come; none for what the hub's own library keeps.
    """

    where: str
    rows: int
    columns: list[str]
    batches: Callable[[Sequence[str]], Iterator[Any]]
    files: tuple[Path, ...] = ()


def find(name: str, split: str, data_dir: str | PathLike[str] | None) -> Table:
    """The table of a split: from the first folder that there is of those where it may be, otherwise from the hub."""
    known = KNOWN.get(name) or next((k for k in KNOWN.values() if k.hub_id == name), None)
    path = home("load_images(name)", name)
    only_path = name.startswith((".", "~")) or path.is_absolute()
    under_roots = [] if only_path else [root / (known.folder if known else name) for root in _roots(data_dir)]
    for folder in under_roots if known else [*under_roots, path]:
        if name and folder.is_dir():
            return _folder(folder, split)
    if known is None and not re.fullmatch(r"\w[\w.-]*/[\w.-]+", name):
        raise _unknown(name)
    return _hub(known or Known(name, name), split, under_roots)


def _roots(data_dir: str | PathLike[str] | None) -> list[Path]:
    """The data directories, in the order in which they are searched; one that is named has to exist."""
    named = [("load_images(data_dir)", data_dir), ("GNOMON_DATA", os.environ.get("GNOMON_DATA"))]
    roots = []
    for where, folder in named:
        if not folder:
            continue
        root = home(where, folder)
        if not root.is_dir():
            raise DataError(None, "a folder", f"{str(root)!r}", "Create it, or name the one that exists.", where=where)
        roots.append(root)
    return roots


def home(where: str, path: str | PathLike[str]) -> Path:
    """The path, in which a leading `~` may begin a user's name."""
    try:
        return Path(path).expanduser()
    except RuntimeError as cause:
        raise DataError(None, "a path", f"{str(path)!r}, of no user here", "Correct it.", where=where) from cause


def _unknown(name: str) -> DataError:
    if "/" in name or name.startswith((".", "~")):
        return DataError("name", "a folder", repr(name), "Create it, or name the one that exists.")
    nearest = difflib.get_close_matches(name.lower(), KNOWN, n=1, cutoff=0.5)
    return DataError(
        "name",
        f"one of {', '.join(KNOWN)}, a hub id owner/name or a folder",
        repr(name),
        f"The nearest is {nearest[0]!r}." if nearest else "Check the spelling.",
    )


def split_of(path: Path) -> str:
    """The split of which a file `<split>.parquet` or `<split>-<number>*.parquet` is a part."""
    return re.split(r"-\d", path.stem)[0]


def _folder(folder: Path, split: str) -> Table:
    """The table of a split in the parquet files of a folder."""
    parquet = extra("load_images", "pyarrow.parquet", "data")
    files = _files(folder, split)
    rows, columns = 0, []
    for path in files:
        if not path.is_file():  # opening a pipe would never end
            raise DataError("name", "a file", f"{str(path)!r}", "Put the parquet file there.")
        with _readable(path):
            metadata = parquet.read_metadata(path)
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
    if not splits:
        raise DataError(
            "name",
            f"files <split>.parquet or <split>-<number>*.parquet in {str(folder)!r}",
            "none",
            "Put the parquet files of the hub there.",
        )
    if split not in splits:
        raise DataError(
            "split",
            f"one of {', '.join(splits)}",
            repr(split),
            f"Choose one of them, or add {split}.parquet to {str(folder)!r}.",
        )
    return splits[split]


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Raises DataError if reading the file fails inside."""
    try:
        yield
    except (extra("load_images", "pyarrow", "data").ArrowException, OSError) as cause:
        got = f"{str(path)!r} ({_line(cause)})"
        raise DataError("name", "a readable parquet file", got, "Copy or download it again.") from cause


def _hub(known: Known, split: str, looked: Sequence[Path]) -> Table:
    """A split from the hub, kept in the cache of Hugging Face `datasets`."""
    datasets = extra("load_images", "datasets", "data")
    if not datasets.config.HF_HUB_OFFLINE:
        _probe(known, split, looked)
    try:
        data = datasets.load_dataset(known.hub_id, known.config, split=split).with_format("arrow")
    except ConnectionError as cause:
        raise _unreachable(known, split, looked, cause) from cause
    except Exception as cause:  # its own errors, and those of whatever reads the files: one sentence for all
        raise DataError(
            "name, split",
            f"split {split!r} of {known.hub_id!r} on the hub",
            _line(cause),
            "Check both names on its page there.",
        ) from cause

    def batches(wanted: Sequence[str]) -> Iterator[Any]:
        for table in data.select_columns(list(wanted)).iter(batch_size=_BATCH):
            yield from table.to_batches()

    return Table(f"{known.hub_id} ({split})", len(data), list(data.column_names), batches)


def _probe(known: Known, split: str, looked: Sequence[Path]) -> None:
    """Ask the hub once whether it has the data set: `load_dataset` would retry for half a minute."""
    hub = extra("load_images", "huggingface_hub", "data")
    missing = extra("load_images", "huggingface_hub.utils", "data").RepositoryNotFoundError
    try:
        hub.HfApi(endpoint=extra("load_images", "datasets", "data").config.HF_ENDPOINT).dataset_info(
            known.hub_id, timeout=_PROBE_SECONDS
        )
    except missing as cause:
        raise DataError(
            "name",
            "a data set of the hub or a folder",
            f"{known.hub_id!r}, which is neither",
            "Check the spelling, or log in if it is private.",
        ) from cause
    except Exception as cause:  # requests, httpx and the hub each have their own for "no network"
        raise _unreachable(known, split, looked, cause) from cause


def _unreachable(known: Known, split: str, looked: Sequence[Path], cause: Exception) -> DataError:
    folders = " or ".join(repr(str(folder)) for folder in looked) or "a data directory (none is named)"
    return DataError(
        "name",
        f"{known.folder!r} in {folders} or on the hub",
        f"neither ({_line(cause)})",
        f"Put its files at FOLDER/{known.folder}/{split}-<number>*.parquet and point GNOMON_DATA or --data-dir "
        "(data_dir) at FOLDER; or connect to the network (HF_HUB_OFFLINE=1 only reuses earlier downloads).",
    )


def _line(cause: Exception) -> str:
    """The first line of an error's message, without its full stop."""
    text = str(cause).strip() or type(cause).__name__
    return text.splitlines()[0].rstrip(".")
