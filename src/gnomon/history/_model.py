"""The probability that unseen accuracy still rises, as learnt from the corpus: plain data, and no library."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

Row = Float[np.ndarray, "q"]


class Model:
    """Gradient boosting on traits, its calibration, and what came at each probability.

    Args:
        data: as `gnomon run verdict` writes them.

    Attributes:
        names: the names of the traits.
        stop: the probability of a rise below which training may end.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.names: tuple[str, ...] = tuple(data["traits"])
        self.stop: float = data["stop"]
        self._middle = np.array(data["middle"])
        self._trees: list[Mapping[str, list[Any]]] = data["trees"]
        self._start: float = data["start"]
        self._slope, self._shift = data["calibration"]
        self._ranges: Mapping[str, Any] = data["ranges"]

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

    def range(self, probability: float) -> tuple[float, float, float | None]:
        """The range of rises at a probability, and after how many doublings five points of them are reached."""
        place = int(np.searchsorted(self._ranges["edges"], probability, side="right"))
        return self._ranges["low"][place], self._ranges["high"][place], self._ranges["doublings"][place]


def _leaf(tree: Mapping[str, list[Any]], row: Row) -> float:
    """What one tree says, going from its root, 0, to a leaf, which has no branches."""
    node = 0
    while (left := tree["left"][node]) != node:
        node = left if row[tree["trait"][node]] <= tree["threshold"][node] else tree["right"][node]
    value: float = tree["value"][node]
    return value
