"""What ships, asked about families left out: what it says, how often that comes true, how often one has to ask."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from gnomon.history import LIKELY
from gnomon_lab.papers.own._board import number, spread
from gnomon_lab.papers.own._judged import AHEAD, will_generalise
from gnomon_lab.papers.own._watched import DOUBLING, Watched
from gnomon_lab.papers.own.verdict.models import Probabilities
from gnomon_lab.papers.own.verdict.moments import Moments
from gnomon_lab.papers.own.verdict.nested import HeldOutPredictions
from gnomon_lab.papers.own.verdict.scores import Scored, of_networks
from gnomon_lab.papers.own.verdict.stopping import Ended, Places, ended, improbable

SURE = 0.6
"""A probability that is high for the corpus."""
SOME = (0.2, 0.3)
"""A band of usual probabilities."""
ASKED = (1, DOUBLING, 2 * DOUBLING)
"""One reading in so many is asked: all of them, one per doubling of the steps, one per two."""


def words(scored: Scored, predicted: Probabilities, stop: float) -> list[dict[str, object]]:
    """What is said at the scored moments, by the probability alone, and how often a rise came; two bands of it too.

    A validation split says "stuck" or "settled" in place of "at rest".
    """
    given = predicted[scored.rows]
    bands = {
        "generalising": given >= LIKELY,
        f"{SURE:.0%} or more": given >= SURE,
        "still changing": (given < LIKELY) & (given >= stop),
        f"{SOME[0]:.0%} to {SOME[1]:.0%}": (given >= SOME[0]) & (given < SOME[1]),
        "at rest": given < stop,
    }
    return [{"says": says, **came(scored, given, there)} for says, there in bands.items()]


def came(scored: Scored, given: Float[np.ndarray, "k"], there: Bool[np.ndarray, "k"]) -> dict[str, object]:
    """At some of the scored moments: the mean probability, and how often a rise came, also by family."""
    families = {name: there & (scored.family == name) for name in np.unique(scored.family[there])}
    return {
        "moments": int(there.sum()),
        "networks": len(np.unique(scored.network[there])),
        "given": number(scored.average(given, there)[0]),
        "came": spread(*scored.average(scored.outcomes.astype(float), there)),
        "families": {
            name: {"moments": int(own.sum()), "came": float(scored.outcomes[own].mean())}
            for name, own in families.items()
        },
    }


def late(data: Moments, predicted: HeldOutPredictions, networks: Sequence[Watched]) -> dict[str, int]:
    """How many networks generalise late, and how many of these are ever called generalising once they fit."""
    said = data.fitted & predicted.answered & (predicted.probability >= LIKELY)
    will = [which for which, one in enumerate(networks) if one.fits is not None and will_generalise(one, one.fits)]
    return {"networks": len(will), "told": len(np.intersect1d(will, data.network[said]))}


def wary(predicted: HeldOutPredictions) -> Probabilities:
    """The probability, and 1 where it abstains, so that nothing is stopped there."""
    return np.where(predicted.answered, predicted.probability, 1.0)


def asked(
    data: Moments, predicted: Probabilities, networks: Sequence[Watched], stop: float, drawn: NDArray[Any]
) -> dict[str, object]:
    """The runs that are stopped and those of them too early; of those with four times the steps to come; by readings.

    That is, if only one reading in so many is asked, from each of the first on.
    """

    def counted(every: int, first: int) -> dict[str, int]:
        rarely = np.where(data.place % every == first, predicted, 1.0)
        return counts(ended(networks, improbable(data, rarely, len(networks), stop)))

    places = improbable(data, predicted, len(networks), stop)
    found = ended(networks, places)
    false, stopped = (of_networks(each.astype(float), drawn) for each in (found.false, found.stopped))
    with np.errstate(invalid="ignore"):
        share = spread(np.divide(false[0], stopped[0]), false[1] / stopped[1])
    return {
        "false": share,
        "followed": counts(found, followed(networks, places)),
        "one in": {str(every): [counted(every, first) for first in range(every)] for every in ASKED},
    }


def followed(networks: Sequence[Watched], places: Places) -> Bool[np.ndarray, "n"]:
    """Which of them are stopped and were read at four times the steps."""
    return np.array([
        place is not None and place + AHEAD < len(network.steps)
        for network, place in zip(networks, places, strict=True)
    ])  # fmt: skip


def counts(found: Ended, only: Bool[np.ndarray, "n"] | None = None) -> dict[str, int]:
    """How many are stopped, and how many of these too early."""
    there = found.stopped if only is None else found.stopped & only
    return {"stopped": int(there.sum()), "false": int((found.false & there).sum())}
