"""The networks on which a verdict is based, and what was learnt from them: plain data that come with gnomon."""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnomon.history._model import Model, Row

RUNS = 25
"""How many of the most similar networks are used."""


@dataclass(frozen=True)
class SimilarRun:
    """A network of the corpus that once looked like the one in question.

    Attributes:
        family: its kind, as in docs/experiments/corpus.md.
        seed: the seed of its run.
        step: the step at which it looked like that.
        steps: the steps of its readings.
        unseen: its unseen accuracy at these steps.
        rises: whether its unseen accuracy was five points higher at four times as many steps as `step`.
        distance: the distance of its traits from those in question.
    """

    family: str
    seed: int
    step: int
    steps: tuple[int, ...]
    unseen: tuple[float, ...]
    rises: bool
    distance: float


class Corpus:
    """What was learnt, and from which networks.

    Args:
        data: as `gnomon run verdict` writes them.

    Attributes:
        quantities: the quantities of the training data that are used, in their order.
        alone: the model that uses these.
        with_validation: the one that uses those of a validation split too.
        limit: the distance to the most similar runs above which a training run is unlike all of them.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.quantities: tuple[str, ...] = tuple(data["quantities"])
        self.alone, self.with_validation = Model(data), Model(data["with_validation"])
        self.limit: float = data["limit"]
        self._middle, self._width = np.array(data["middle"]), np.array(data["width"])
        self._runs: list[Mapping[str, Any]] = data["runs"]
        self._known = np.concatenate([np.array(run["traits"]) for run in self._runs])
        self._starts = np.cumsum([0, *(len(run["traits"]) for run in self._runs)])

    def most_unusual(self, row: Row) -> str:
        """The trait that is furthest from the corpus's mean, as a multiple of its spread."""
        return self.alone.names[int(np.abs((row - self._middle) / self._width).argmax())]

    def similar(self, row: Row) -> tuple[SimilarRun, ...]:
        """The most similar networks, each at the moment at which it is most similar, the nearest first.

        Distances are root mean squares over the traits, as multiples of their spread in the corpus.
        """
        apart = np.sqrt(((self._known - (row - self._middle) / self._width) ** 2).mean(1))
        closest = np.minimum.reduceat(apart, self._starts[:-1])
        return tuple(self._one(int(which), apart) for which in np.argsort(closest, kind="stable")[:RUNS])

    def _one(self, which: int, apart: NDArray[Any]) -> SimilarRun:
        run, own = self._runs[which], apart[self._starts[which] : self._starts[which + 1]]
        moment = int(own.argmin())
        return SimilarRun(
            run["family"],
            run["seed"],
            run["steps"][run["places"][moment]],
            tuple(run["steps"]),
            tuple(run["unseen"]),
            run["rises"][moment],
            float(own[moment]),
        )


@functools.cache
def corpus() -> Corpus:
    """The corpus that comes with gnomon."""
    return Corpus(json.loads((files("gnomon.history") / "corpus.json").read_text(encoding="utf-8")))
