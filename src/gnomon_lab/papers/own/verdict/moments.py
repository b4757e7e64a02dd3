"""The corpus as moments: what a network looks like at a reading, and separately what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from gnomon.history import CLOSED, RISE, ROUNDING, traits
from gnomon_lab.papers._shared import SEEN
from gnomon_lab.papers.own._judged import AHEAD
from gnomon_lab.papers.own._watched import Watched

CHEAP = {
    "accuracy": "train/accuracy",
    "log_probability": "train/log_probability",
    "parameter_norm": "train/parameter_norm",
}
"""Quantities that need no Jacobian, by the name of their number in the corpus."""
CORE = CHEAP | {
    "jacobian_norm": "some/jacobian_norm",
    "jacobian_alignment": "some/jacobian_alignment",
    "centroid_alignment": "some/centroid_alignment",
    "explained_variance_ratio": "some/explained_variance_ratio",
}
VALIDATION = {
    "validation_accuracy": "validation/accuracy",
    "validation_log_probability": "validation/log_probability",
}
KINDS = {
    "digits": "pictures",
    "images": "pictures",
    "images-cnn": "pictures",
    "addition": "addition",
    "addition-transformer": "addition",
}
"""Families that share their data; each other family is its own kind."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Readings with two doublings of the steps behind them, of all networks.

    Attributes:
        names: of the traits.
        traits: what is looked at; NaN where a quantity has no value.
        network: the index of the network among all; a network's moments are adjacent, in their order.
        place: the index of the reading among its network's.
        known: whether the network was read at four times as many steps; what came is NaN or false otherwise.
        fitted: whether its training data have been fitted by then.
        rise: of unseen accuracy up to there.
        soon: doublings of the steps up to the first reading with a rise of `RISE`; NaN if there is none.
        gap: training accuracy less unseen accuracy, now.
    """

    names: tuple[str, ...]
    traits: Float[np.ndarray, "m q"]
    network: Int[np.ndarray, "m"]
    place: Int[np.ndarray, "m"]
    known: Bool[np.ndarray, "m"]
    fitted: Bool[np.ndarray, "m"]
    rise: Float[np.ndarray, "m"]
    soon: Float[np.ndarray, "m"]
    gap: Float[np.ndarray, "m"]

    @property
    def whole(self) -> Bool[np.ndarray, "m"]:
        """Whether every trait has a value."""
        return ~np.isnan(self.traits).any(1)

    @property
    def rises(self) -> Bool[np.ndarray, "m"]:
        """Whether unseen accuracy rises by `RISE`."""
        return self.known & (self.rise >= RISE - ROUNDING)

    @property
    def falls(self) -> Bool[np.ndarray, "m"]:
        """Whether it falls by as much."""
        return self.known & (self.rise <= ROUNDING - RISE)

    @property
    def closed(self) -> Bool[np.ndarray, "m"]:
        """Whether the network has generalised."""
        return self.gap <= CLOSED + ROUNDING

    def only(self, chosen: Bool[np.ndarray, "m"] | slice) -> "Moments":
        """Some of the moments."""
        parts = (getattr(self, name)[chosen] for name in list(self.__dataclass_fields__)[1:])
        return Moments(self.names, *parts)

    def of(self, names: Sequence[str]) -> "Moments":
        """The moments with the traits of some quantities only."""
        kept = [place for place, name in enumerate(self.names) if name.partition(",")[0] in names]
        parts = (getattr(self, name) for name in list(self.__dataclass_fields__)[2:])
        return Moments(tuple(self.names[place] for place in kept), self.traits[:, kept], *parts)


def moments(names: Sequence[str], networks: Sequence[Watched], quantities: Mapping[str, str]) -> Moments:
    """All moments of the networks, with the traits of these quantities."""
    columns = {quantity: list(names).index(number) for quantity, number in quantities.items()}
    rows, numbers, found = [], [], None
    for which, network in enumerate(networks):
        for place in range(len(network.steps)):
            so_far = slice(place + 1)
            values = {quantity: network.levels[so_far, column] for quantity, column in columns.items()}
            measured = traits(network.steps[so_far], values)
            if measured is None:
                continue
            found = tuple(measured)
            rows.append(list(measured.values()))
            numbers.append((which, place, *came(network, place, network.levels[place, list(names).index(SEEN)])))
    kinds = (int, int, bool, bool, float, float, float)
    known: list[NDArray[Any]] = [
        np.array(column, dtype=kind) for column, kind in zip(zip(*numbers, strict=True), kinds, strict=True)
    ]
    return Moments(found or (), np.array(rows), *known)


def came(network: Watched, place: int, seen: float) -> tuple[bool, bool, float, float, float]:
    """What came after a reading."""
    unseen, later = network.unseen, place + AHEAD
    known = later < len(unseen)
    rises = np.flatnonzero(unseen[place + 1 : later + 1] - unseen[place] >= RISE - ROUNDING)
    soon = np.log2(network.steps[place + 1 + rises[0]] / network.steps[place]) if len(rises) else np.nan
    return (
        known,
        network.fits is not None and place >= network.fits,
        float(unseen[later] - unseen[place]) if known else np.nan,
        float(soon),
        float(seen - unseen[place]),
    )
