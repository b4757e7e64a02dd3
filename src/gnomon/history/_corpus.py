"""The networks on which a verdict is based, and what was learnt from them: plain data that come with gnomon."""

import functools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

RUNS = 25
"""How many of the most similar networks are used."""
Row = Float[np.ndarray, "q"]


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
        quantities: the quantities that are used, in their order.
        names: the names of the traits.
        limit: the distance to the most similar runs above which a training run is unlike all of them.
        stop: the probability of a rise below which training may end.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.quantities: tuple[str, ...] = tuple(data["quantities"])
        self.names: tuple[str, ...] = tuple(data["traits"])
        self.limit: float = data["limit"]
        self.stop: float = data["stop"]
        self._middle, self._width = np.array(data["middle"]), np.array(data["width"])
        self._trees: list[Mapping[str, list[Any]]] = data["trees"]
        self._start: float = data["start"]
        self._slope, self._shift = data["calibration"]
        self._ranges: Mapping[str, Any] = data["ranges"]
        self._runs: list[Mapping[str, Any]] = data["runs"]
        self._known = np.concatenate([np.array(run["traits"]) for run in self._runs])
        self._starts = np.cumsum([0, *(len(run["traits"]) for run in self._runs)])

    def row(self, traits: Mapping[str, float]) -> Row:
        """The traits in their order."""
        return np.array([traits[name] for name in self.names])

    def probability(self, row: Row) -> float:
        """The probability of a rise, by gradient boosting: the odds are the initial ones times what each tree says."""
        score = self._start + sum(_leaf(tree, row) for tree in self._trees)
        return 1 / (1 + math.exp(-self._slope * score - self._shift))

    def counterfactual(self, row: Row) -> tuple[str, float]:
        """The trait that matters most, and what the probability would be with the corpus's mean in its place."""
        instead = []
        for place in range(len(row)):
            other = row.copy()
            other[place] = self._middle[place]
            instead.append(self.probability(other))
        most = int(np.abs(np.array(instead) - self.probability(row)).argmax())
        return self.names[most], instead[most]

    def most_unusual(self, row: Row) -> str:
        """The trait that is furthest from the corpus's mean, as a multiple of its spread."""
        return self.names[int(np.abs((row - self._middle) / self._width).argmax())]

    def range(self, probability: float) -> tuple[float, float, float | None]:
        """The range of rises at a probability, and after how many doublings five points of them are reached."""
        place = int(np.searchsorted(self._ranges["edges"], probability, side="right"))
        return self._ranges["low"][place], self._ranges["high"][place], self._ranges["doublings"][place]

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


def _leaf(tree: Mapping[str, list[Any]], row: Row) -> float:
    """What one tree says, going from its root, 0, to a leaf, which has no branches."""
    node = 0
    while (left := tree["left"][node]) != node:
        node = left if row[tree["trait"][node]] <= tree["threshold"][node] else tree["right"][node]
    value: float = tree["value"][node]
    return value


@functools.cache
def corpus() -> Corpus:
    """The corpus that comes with gnomon."""
    return Corpus(json.loads((files("gnomon.history") / "corpus.json").read_text(encoding="utf-8")))
