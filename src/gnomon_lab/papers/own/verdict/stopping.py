"""When each rule would have ended a training run, what would have followed, and how many steps were wasted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from gnomon.history import RISE, ROUNDING, feature_learning_interval, plateau
from gnomon_lab.papers.own._watched import DOUBLING, Watched
from gnomon_lab.papers.own.verdict.models import Probabilities
from gnomon_lab.papers.own.verdict.moments import Moments

THRESHOLDS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3)
"""Probabilities below which a training run might be ended."""
FALSE_STOPS = 0.05
"""The share of training runs that may be ended too early."""
BETWEEN = 8
"""Readings per doubling that `plateau` is given; it needs some in each half of the steps."""
PLATEAU = partial(plateau, flat=0.02, high=0.5, rank_one=0.9)
"""With the thresholds that were its defaults when the protocol was written."""
Places = Sequence[int | None]
"""By network the reading at which a rule ends it; None if it never does."""


@dataclass(frozen=True, eq=False)
class Ended:
    """The results of a rule.

    Attributes:
        false: by network, whether at least `RISE` of unseen accuracy would have followed.
        wasted: by network, steps after the first reading with an unseen accuracy less than `RISE` below its best.
        stopped: by network, whether it was ended at all.
    """

    false: NDArray[Any]
    wasted: NDArray[Any]
    stopped: NDArray[Any]


def ended(networks: Sequence[Watched], places: Places) -> Ended:
    """The results by network."""
    false, wasted = [], []
    for network, place in zip(networks, places, strict=True):
        last = len(network.steps) - 1 if place is None else place
        later = network.unseen[last:]
        false.append(later.max() - later[0] >= RISE - ROUNDING)
        wasted.append(max(0, network.steps[last] - network.steps[settles(network)]))
    return Ended(np.array(false), np.array(wasted), np.array([place is not None for place in places]))


def settles(network: Watched) -> int:
    """The first reading with an unseen accuracy less than `RISE` below the best of all."""
    return int(np.flatnonzero(network.unseen > network.unseen.max() - RISE + ROUNDING)[0])


def when(networks: Sequence[Watched], holds: Callable[[Watched, int], bool]) -> Places:
    """The first reading at which a rule holds, from the one on at which the training data are fitted."""
    return [
        None
        if network.fits is None
        else next((place for place in range(network.fits, len(network.steps)) if holds(network, place)), None)
        for network in networks
    ]


def improbable(data: Moments, predicted: Probabilities, networks: int, threshold: float) -> Places:
    """Where a rise is first predicted to be improbable, of the fitted moments."""
    places: list[int | None] = [None] * networks
    for row in np.flatnonzero(data.fitted & (predicted < threshold))[::-1]:
        places[data.network[row]] = int(data.place[row])
    return places


def threshold(
    data: Moments, predicted: Probabilities, networks: Sequence[Watched], counted: Int[np.ndarray, "k"]
) -> float:
    """The highest threshold with few enough false stops of these networks; 0 if there is none."""
    those, allowed = [networks[which] for which in counted], 0.0
    for each in THRESHOLDS:
        places = improbable(data, np.nan_to_num(predicted, nan=1.0), len(networks), each)
        if ended(those, [places[which] for which in counted]).false.mean() <= FALSE_STOPS:
            allowed = each
    return allowed


def patience(names: Sequence[str], networks: Sequence[Watched], doublings: int) -> Places:
    """Where the best accuracy on a validation split has not been exceeded for this many doublings of the steps."""
    column = list(names).index("validation/accuracy")

    def out_of_patience(network: Watched, place: int) -> bool:
        return place - int(network.levels[: place + 1, column].argmax()) >= DOUBLING * doublings

    return when(networks, out_of_patience)


def flat(names: Sequence[str], networks: Sequence[Watched]) -> Places:
    """Where `plateau` says that more training is unlikely to help, with readings in between too."""
    aligned, pc1 = (list(names).index(f"some/{name}") for name in ("centroid_alignment", "explained_variance_ratio"))

    def at_rest(network: Watched, place: int) -> bool:
        if place == 0:
            return False
        steps, series = denser(network, place, (aligned, pc1))
        return bool(np.isfinite(series).all()) and PLATEAU(steps.tolist(), *series.tolist()).reached

    return when(networks, at_rest)


def denser(
    network: Watched, place: int, columns: Sequence[int]
) -> tuple[Float[np.ndarray, "t"], Float[np.ndarray, "q t"]]:
    """Numbers up to a reading, interpolated linearly over the logarithm of the steps."""
    times = np.log2(network.steps[: place + 1].astype(float))
    count = round((times[-1] - times[0]) * BETWEEN) + 1
    there = np.linspace(times[0], times[-1], count)
    series = [np.interp(there, times, network.levels[: place + 1, column]) for column in columns]
    return 2**there, np.stack(series)


def rested(names: Sequence[str], networks: Sequence[Watched]) -> Places:
    """Where `feature_learning_interval` says of the neural tangent kernel that it has rested for a doubling."""
    column = list(names).index("few/kernel_cosine")

    def at_rest(network: Watched, place: int) -> bool:
        series = network.levels[: place + 1, column]
        if place < DOUBLING or not np.isfinite(series).all():
            return False
        found = feature_learning_interval(network.steps[: place + 1].tolist(), series.tolist())
        return not found.moves or (found.end or 0) <= network.steps[place] / 2 * 1.05

    return when(networks, at_rest)
