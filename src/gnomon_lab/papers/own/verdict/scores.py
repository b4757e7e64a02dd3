"""How well probabilities and ranges agree with the outcomes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from gnomon_lab.papers.own._board import Draws, Numbers, mean, number, spread
from gnomon_lab.papers.own._judged import Predictions, auroc, resampled_auroc
from gnomon_lab.papers.own.verdict.models import Probabilities
from gnomon_lab.papers.own.verdict.moments import Moments
from gnomon_lab.papers.own.verdict.nested import HeldOutPredictions

PARTS = 10
"""Parts of equally many moments, in which the calibration error compares predictions with outcomes."""
Score = tuple[float, NDArray[Any]]
"""The score on all networks, and on each resample."""


class Scored:
    """The outcomes of the moments that are scored, and the resamples of their networks.

    Args:
        data: all moments.
        outcomes: of each moment.
        family: of each network.
        draws: by family how often each of its networks is drawn.
        scored: which moments count.
    """

    def __init__(
        self,
        data: Moments,
        outcomes: Bool[np.ndarray, "m"],
        family: NDArray[Any],
        draws: Draws,
        scored: Bool[np.ndarray, "m"],
    ) -> None:
        self.rows = np.flatnonzero(data.known & scored)
        self.outcomes, self.rise = outcomes[self.rows], data.rise[self.rows]
        self.network, self.family = data.network[self.rows], family[data.network[self.rows]]
        self.draws = draws
        self.within = np.zeros(len(family), dtype=int)
        for name, drawn in draws.items():
            self.within[family == name] = np.arange(drawn.shape[1])
        self.weights = joined(draws, family)[:, self.network]

    def auroc(self, predicted: Probabilities, only: Bool[np.ndarray, "m"] | None = None) -> Score:
        """The mean over families of the chance that a moment before a rise has a higher score than another."""
        kept = np.ones(len(self.rows), dtype=bool) if only is None else only[self.rows]
        found = []
        for name, drawn in self.draws.items():
            chosen = kept & (self.family == name)
            predictions = self._predictions(predicted, chosen)
            found.append((auroc(predictions), resampled_auroc(predictions, drawn)))
        values, resampled = zip(*found, strict=True)
        return float(mean(np.array(values))), mean(np.stack(resampled, axis=1))

    def by_family(self, predicted: Probabilities) -> dict[str, float | None]:
        """The AUROC in each family."""
        found = {}
        for name in self.draws:
            area = auroc(self._predictions(predicted, self.family == name))
            found[name] = None if np.isnan(area) else area
        return found

    def together(self, predicted: Probabilities) -> float:
        """The AUROC of all families together, which one threshold for all of them would have."""
        return auroc(Predictions(self.network, predicted[self.rows], self.outcomes))

    def _predictions(self, predicted: Probabilities, chosen: Bool[np.ndarray, "k"]) -> Predictions:
        return Predictions(self.within[self.network[chosen]], predicted[self.rows][chosen], self.outcomes[chosen])

    def brier(self, predicted: Probabilities) -> Score:
        """The mean squared error of the probability."""
        return self.average((predicted[self.rows] - self.outcomes) ** 2)

    def base_rate(self, group: Int[np.ndarray, "m"]) -> Float[np.ndarray, "k"]:
        """For each scored moment the share of outcomes at those of other groups."""
        own = group[self.rows]
        return np.array([self.outcomes[own != each].mean() for each in range(group.max() + 1)])[own]

    def covered(self, predicted: HeldOutPredictions) -> Float[np.ndarray, "k"]:
        """Whether each rise lies in its range, 1 or 0."""
        low, high = predicted.low[self.rows], predicted.high[self.rows]
        return ((low <= self.rise) & (self.rise <= high)).astype(float)

    def answered(self, predicted: HeldOutPredictions) -> Score:
        """The share of the moments that are like those the model knew."""
        return self.average(predicted.answered[self.rows].astype(float))

    def calibration(self, predicted: Probabilities) -> Score:
        """The mean over parts of equally many moments: how far the mean prediction is from the share of outcomes."""
        part = np.empty(len(self.rows), dtype=int)
        part[np.argsort(predicted[self.rows], kind="stable")] = np.arange(len(self.rows)) * PARTS // len(self.rows)
        off = predicted[self.rows] - self.outcomes
        sums = np.stack([np.where(part == each, off, 0) for each in range(PARTS)])
        drawn = np.abs(self.weights @ sums.T).sum(1) / self.weights.sum(1)
        return float(np.abs(sums.sum(1)).sum() / len(self.rows)), drawn

    def average(self, values: Float[np.ndarray, "k"], only: Bool[np.ndarray, "k"] | slice = slice(None)) -> Score:
        """The average over the moments, or over some of them; NaN over none."""
        values, weights = values[only], self.weights[:, only]
        with np.errstate(invalid="ignore"):
            return float(np.divide(values.sum(), len(values))), weights @ values / weights.sum(1)


def scores(scored: Scored, predicted: HeldOutPredictions, group: Int[np.ndarray, "m"]) -> dict[str, object]:
    """All that is recorded of the predictions."""
    probability, base = predicted.probability, scored.base_rate(group)
    error, without = (probability[scored.rows] - scored.outcomes) ** 2, (base - scored.outcomes) ** 2
    return {
        "auroc": spread(*scored.auroc(probability)),
        "auroc_answered": spread(*scored.auroc(probability, predicted.answered)),
        "auroc_together": number(scored.together(probability)),
        "brier": spread(*scored.brier(probability)),
        "base_rate": {"brier": float(without.mean()), "above": spread(*scored.average(without - error))},
        "calibration": spread(*scored.calibration(probability)),
        "covered": spread(*scored.average(scored.covered(predicted))),
        "answered": spread(*scored.answered(predicted)),
        "families": scored.by_family(probability),
        "in_family": {
            name: in_family(scored, predicted, base, scored.family == name) for name in np.unique(scored.family)
        },
        "moments": len(scored.rows),
        "came": int(scored.outcomes.sum()),
    }


def in_family(
    scored: Scored, predicted: HeldOutPredictions, base: Float[np.ndarray, "k"], own: Bool[np.ndarray, "k"]
) -> dict[str, object]:
    """What averages over families hide: in one of them what was given and what came, and how often the range held."""
    given, outcomes = predicted.probability[scored.rows], scored.outcomes.astype(float)
    above = (base - outcomes) ** 2 - (given - outcomes) ** 2
    return {
        "moments": int(own.sum()),
        "given": float(given[own].mean()),
        "came": float(outcomes[own].mean()),
        "off": spread(*scored.average(given - outcomes, own)),
        "base_rate": float(base[own].mean()),
        "above": spread(*scored.average(above, own)),
        "covered": spread(*scored.average(scored.covered(predicted), own)),
    }


def beyond(
    scored: Scored, predicted: HeldOutPredictions, rivals: Mapping[str, HeldOutPredictions]
) -> dict[str, dict[str, Numbers]]:
    """By how much the AUROC is higher and the Brier score lower than a rival's, on the same resamples."""
    found: dict[str, dict[str, Numbers]] = {}
    for name, rival in rivals.items():
        area, theirs = scored.auroc(predicted.probability), scored.auroc(rival.probability)
        error, their_error = scored.brier(predicted.probability), scored.brier(rival.probability)
        found[name] = {
            "auroc": spread(area[0] - theirs[0], area[1] - theirs[1]),
            "brier": spread(their_error[0] - error[0], their_error[1] - error[1]),
        }
    return found


def joined(draws: Draws, family: NDArray[Any]) -> Float[np.ndarray, "b n"]:
    """How often each network is drawn in each resample, in the networks' own order."""
    together = np.empty((len(next(iter(draws.values()))), len(family)))
    for name, drawn in draws.items():
        together[:, family == name] = drawn
    return together


def of_networks(values: Float[np.ndarray, "n"], drawn: Float[np.ndarray, "b n"]) -> Score:
    """The mean over networks."""
    return float(values.mean()), drawn @ values / drawn.sum(1)
