"""The networks of the corpus as arrays: what a predictor may use, and separately what came."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from gnomon._extras import extra
from gnomon.errors import DataError
from gnomon_lab.papers._shared import SEEN, UNSEEN
from gnomon_lab.papers.own._outcome import FITS

DOUBLING = 2
"""Readings in a doubling of the steps."""
HORIZON = 4
"""How many times as many steps to look ahead."""
LOOKED_AT = ("train/", "some/", "few/", "validation/")
"""Beginnings of the names of the numbers that a predictor may use."""
NEEDED = {"step", "arm", "seed", SEEN, UNSEEN}
"""Columns without which a table is not one of the corpus."""
CORPUS = Path(__file__).parent / "corpus" / "corpus.parquet"
"""The readings of the networks of the corpus, as they are shipped."""


@dataclass(frozen=True, eq=False)
class Watched:
    """One network, at the readings after step 0.

    Attributes:
        family: what kind it is.
        seed: of its run.
        steps: of the readings, as far as it was read.
        unseen: the unseen accuracy, by reading.
        fits: the index of the first reading with the training data fitted; None if there is none.
        diverged: whether it did.
        levels: by reading and predictor, its number; NaN where there is none.
        changes: the same for the change over the last doubling of the steps.
    """

    family: str
    seed: int
    steps: Int[np.ndarray, "m"]
    unseen: Float[np.ndarray, "m"]
    fits: int | None
    diverged: bool
    levels: Float[np.ndarray, "m q"]
    changes: Float[np.ndarray, "m q"]


def corpus_at(path: str) -> Path:
    """The table at this path; without one, that which comes with gnomon."""
    return Path(path) if path else CORPUS


def corpus_by_name(path: str) -> dict[str, Path]:
    """The same table, under the name that a run's config.json has for it."""
    return {path or CORPUS.name: corpus_at(path)}


def read_corpus(
    path: Path, needed: Iterable[str] = (), where: str = "who-knows-first"
) -> tuple[list[str], list[Watched]]:
    """The names of the predictors, of which the first is the step itself, and the networks.

    Raises:
        DataError: if there is no such file, it is something else, or it lacks numbers that are needed.
        MissingExtraError: if pyarrow is not installed.
    """

    def none(got: str) -> DataError:
        advice = "Call `gnomon run corpus --seeds 0-49`, and `gnomon report corpus --table FILE`."
        return DataError("--corpus", "a table of the corpus", got, advice, where=where)

    if not path.is_file():
        raise none(f"no file {str(path)!r}")
    parquet = extra(where, "pyarrow.parquet", "data")
    try:
        table = parquet.read_table(path)
    except (OSError, ValueError) as error:  # pyarrow's own are among the latter
        raise none(f"{str(path)!r}, which is no Parquet file") from error
    if lacks := sorted({*NEEDED, *needed} - {*table.column_names}):
        raise none(f"{str(path)!r}, without {', '.join(lacks)}")
    columns = {name: table.column(name).to_numpy(zero_copy_only=False) for name in table.column_names}
    return watched(columns)


def watched(columns: dict[str, NDArray[Any]]) -> tuple[list[str], list[Watched]]:
    """The same from columns."""
    names = ["step", *sorted(name for name in columns if name.startswith(LOOKED_AT))]
    numbers = np.stack([columns[name].astype(float) for name in names], axis=1)
    positive: NDArray[Any] = np.logical_not((numbers < 0).any(0))
    return names, [_one(columns, np.asarray(rows), numbers, positive) for rows in _runs(columns)]


def _runs(columns: dict[str, NDArray[Any]]) -> Iterator[list[int]]:
    """The rows of each network, by step; those of a run that was stopped and resumed may lie apart."""
    whose: dict[tuple[int, str], list[int]] = {}
    for row, key in enumerate(zip(columns["seed"].tolist(), columns["arm"].tolist(), strict=True)):
        whose.setdefault(key, []).append(row)
    for rows in whose.values():
        yield sorted(rows, key=lambda row: columns["step"][row])


def _one(
    columns: dict[str, NDArray[Any]], rows: NDArray[Any], numbers: NDArray[Any], positive: NDArray[Any]
) -> Watched:
    """One network; its step 0, and the line that says that it diverged, do not count as readings."""
    unseen = columns[UNSEEN][rows].astype(float)
    there = rows[~np.isnan(unseen) & (columns["step"][rows] > 0)]
    read = np.array(list({columns["step"][row]: row for row in there}.values()), dtype=int)
    fitting = np.flatnonzero(columns[SEEN][read].astype(float) >= FITS)
    return Watched(
        family=str(columns["arm"][rows[0]]),
        seed=int(columns["seed"][rows[0]]),
        steps=columns["step"][read].astype(int),
        unseen=columns[UNSEEN][read].astype(float),
        fits=int(fitting[0]) if len(fitting) else None,
        diverged=bool(np.isnan(unseen[-1])) or has_diverged(columns, rows),
        levels=numbers[read],
        changes=changes(numbers[read], positive),
    )


def has_diverged(columns: dict[str, NDArray[Any]], rows: NDArray[Any]) -> bool:
    """Whether a network is recorded as having diverged."""
    return "diverged" in columns and any(step is not None for step in columns["diverged"][rows])


def changes(levels: NDArray[Any], positive: NDArray[Any]) -> NDArray[Any]:
    """The change over the last doubling of the steps; for quantities that are never below 0, of the logarithm."""
    scale = np.where(positive, np.log2(np.where(levels > 0, levels, np.nan)), levels)
    found = np.full_like(scale, np.nan)
    found[DOUBLING:] = scale[DOUBLING:] - scale[:-DOUBLING]
    return found


def families(networks: Sequence[Watched]) -> dict[str, list[Watched]]:
    """The networks of each family, in the order in which they come."""
    found: dict[str, list[Watched]] = {}
    for network in networks:
        found.setdefault(network.family, []).append(network)
    return found
