"""Images on the Hugging Face hub, by its own library."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gnomon._extras import extra
from gnomon.data._table import Table, line
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


def of_hub(known: Known, split: str, looked: Sequence[Path]) -> Table:
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
            line(cause),
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
        f"neither ({line(cause)})",
        f"Put its files at FOLDER/{known.folder}/{split}-<number>*.parquet and point GNOMON_DATA or --data-dir "
        "(data_dir) at FOLDER; or connect to the network (HF_HUB_OFFLINE=1 only reuses earlier downloads).",
    )
