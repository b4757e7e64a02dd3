"""How well probabilities and ranges agree with what came."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from gnomon_lab.papers.own.verdict.models import Probabilities
from gnomon_lab.papers.own.verdict.moments import Moments
from gnomon_lab.papers.own.verdict.nested import Said
from gnomon_lab.papers.own.who_knows_first.board import Draws, Numbers, mean, spread
from gnomon_lab.papers.own.who_knows_first.judged import Told, auroc, resampled_auroc

PARTS = 10
"""Parts of equally many moments, in which the calibration error compares what was said with what came."""
Score = tuple[float, NDArray[Any]]
"""The score on all networks, and on each resample."""


class Scored:
    """What came of the moments that are asked, and the resamples of their networks.

    Args:
        data: all moments.
        came: whether it came true of each.
        family: of each network.
        draws: by family how often each of its networks is drawn.
        asked: which moments count.
    """

    def __init__(
        self,
        data: Moments,
        came: Bool[NDArray[Any], "m"],
        family: NDArray[Any],
        draws: Draws,
        asked: Bool[NDArray[Any], "m"],
    ) -> None:
        self.rows = np.flatnonzero(data.known & asked)
        self.came, self.rise = came[self.rows], data.rise[self.rows]
        self.whose, self.family = data.network[self.rows], family[data.network[self.rows]]
        self.draws = draws
        self.within = np.zeros(len(family), dtype=int)
        together = np.empty((len(next(iter(draws.values()))), len(family)))
        for name, drawn in draws.items():
            self.within[family == name] = np.arange(drawn.shape[1])
            together[:, family == name] = drawn
        self.weights = together[:, self.whose]

    def auroc(self, said: Probabilities, only: Bool[NDArray[Any], "m"] | None = None) -> Score:
        """The mean over families of the chance that of two moments the one of which it came true was rated higher."""
        kept = np.ones(len(self.rows), dtype=bool) if only is None else only[self.rows]
        found = []
        for name, drawn in self.draws.items():
            chosen = kept & (self.family == name)
            told = Told(self.within[self.whose[chosen]], said[self.rows][chosen], self.came[chosen])
            found.append((auroc(told), resampled_auroc(told, drawn)))
        values, resampled = zip(*found, strict=True)
        return float(mean(np.array(values))), mean(np.stack(resampled, axis=1))

    def by_family(self, said: Probabilities) -> dict[str, float | None]:
        """The AUROC in each family."""
        found = {}
        for name in self.draws:
            chosen = self.family == name
            area = auroc(Told(self.within[self.whose[chosen]], said[self.rows][chosen], self.came[chosen]))
            found[name] = None if np.isnan(area) else area
        return found

    def brier(self, said: Probabilities) -> Score:
        """The mean squared error of the probability."""
        return self.average((said[self.rows] - self.came) ** 2)

    def covered(self, said: Said) -> Score:
        """The share of the rises that lie in their range."""
        low, high = said.low[self.rows], said.high[self.rows]
        return self.average(((low <= self.rise) & (self.rise <= high)).astype(float))

    def answered(self, said: Said) -> Score:
        """The share of the moments that are like those the model knew."""
        return self.average(said.answered[self.rows].astype(float))

    def calibration(self, said: Probabilities) -> Score:
        """The mean, over parts of equally many moments, of how far the mean of what was said is from what came."""
        part = np.empty(len(self.rows), dtype=int)
        part[np.argsort(said[self.rows], kind="stable")] = np.arange(len(self.rows)) * PARTS // len(self.rows)
        off = said[self.rows] - self.came
        sums = np.stack([np.where(part == each, off, 0) for each in range(PARTS)])
        drawn = np.abs(self.weights @ sums.T).sum(1) / self.weights.sum(1)
        return float(np.abs(sums.sum(1)).sum() / len(self.rows)), drawn

    def average(self, values: Float[NDArray[Any], "k"]) -> Score:
        """The average over the moments."""
        return float(values.mean()), self.weights @ values / self.weights.sum(1)


def scores(asked: Scored, said: Said) -> dict[str, object]:
    """All that is recorded of what was said."""
    probability = said.probability
    return {
        "auroc": spread(*asked.auroc(probability)),
        "auroc_answered": spread(*asked.auroc(probability, said.answered)),
        "brier": spread(*asked.brier(probability)),
        "calibration": spread(*asked.calibration(probability)),
        "covered": spread(*asked.covered(said)),
        "answered": spread(*asked.answered(said)),
        "families": asked.by_family(probability),
        "moments": len(asked.rows),
        "came": int(asked.came.sum()),
    }


def beyond(asked: Scored, said: Said, rivals: Mapping[str, Said]) -> dict[str, dict[str, Numbers]]:
    """By how much the AUROC is higher and the Brier score lower than a rival's, on the same resamples."""
    found: dict[str, dict[str, Numbers]] = {}
    for name, rival in rivals.items():
        area, theirs = asked.auroc(said.probability), asked.auroc(rival.probability)
        error, their_error = asked.brier(said.probability), asked.brier(rival.probability)
        found[name] = {
            "auroc": spread(area[0] - theirs[0], area[1] - theirs[1]),
            "brier": spread(their_error[0] - error[0], their_error[1] - error[1]),
        }
    return found


def of_networks(values: Float[NDArray[Any], "n"], family: Sequence[str], draws: Draws) -> Score:
    """The mean over networks."""
    together = np.empty((len(next(iter(draws.values()))), len(values)))
    for name, drawn in draws.items():
        together[:, np.array(family) == name] = drawn
    return float(values.mean()), together @ values / together.sum(1)
