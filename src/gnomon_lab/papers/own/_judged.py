"""How well one number predicts: how often it ranks two networks correctly, how soon it would have rung."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from scipy.stats import rankdata

from gnomon_lab.papers.own._outcome import rises
from gnomon_lab.papers.own._watched import DOUBLING, HORIZON, Watched

FALSE_ALARMS = 0.1
"""The largest share of the networks that do not generalise that may nevertheless set off an alarm."""
ROUNDING = 1e-12
"""A spread below this share is that of equal numbers."""
AHEAD = DOUBLING * (HORIZON.bit_length() - 1)
"""Readings until there are four times as many steps."""
Scores = Float[np.ndarray, "m"]


def will_generalise(network: Watched, place: int) -> bool:
    """Whether unseen accuracy is ten points higher at the end than at a reading; no network that diverges does."""
    return not network.diverged and rises(network.unseen[-1] - network.unseen[place])


@dataclass(frozen=True, eq=False)
class Predictions:
    """The scores of networks, and their outcomes.

    Attributes:
        places: the indices of the networks among all of their family.
        scores: of each.
        outcomes: whether each will generalise from there on.
    """

    places: Int[np.ndarray, "m"]
    scores: Scores
    outcomes: Bool[np.ndarray, "m"]

    @property
    def usable(self) -> bool:
        """Whether there are both outcomes."""
        return bool(self.outcomes.any() and not self.outcomes.all())


def predictions_when_fitted(networks: Sequence[Watched], scores: Sequence[Scores], later: int = 0) -> Predictions:
    """At the reading at which each network fits its training data, or `later` after it, for those read there."""
    found = [
        (number, score[place], will_generalise(network, place))
        for number, (network, score) in enumerate(zip(networks, scores, strict=True))
        if network.fits is not None
        and (place := network.fits + later) < len(network.steps) - AHEAD
        and not np.isnan(score[place])
    ]
    places, scored, outcomes = zip(*found, strict=True) if found else ((), (), ())
    return Predictions(np.array(places, dtype=int), np.array(scored, dtype=float), np.array(outcomes, dtype=bool))


def auroc(found: Predictions) -> float:
    """The chance that a network that will generalise has the higher score of two; 0.5 is chance."""
    if not found.usable:
        return float("nan")
    ranks, positive = rankdata(found.scores), int(found.outcomes.sum())
    return float((ranks[found.outcomes].sum() - positive * (positive + 1) / 2) / (positive * (len(ranks) - positive)))


def resampled_auroc(found: Predictions, draws: NDArray[Any]) -> NDArray[Any]:
    """The AUROC in each resample, by how often it drew each network of the family; NaN where one outcome is missing."""
    if not found.usable:
        return np.full(len(draws), np.nan)
    above = found.scores[found.outcomes][:, None] - found.scores[~found.outcomes]
    wins = (above > 0) + 0.5 * (above == 0)
    drawn = draws[:, found.places]
    positive, negative = drawn[:, found.outcomes], drawn[:, ~found.outcomes]
    pairs = positive.sum(1) * negative.sum(1)
    with np.errstate(invalid="ignore"):
        return ((positive @ wins) * negative).sum(1) / np.where(pairs > 0, pairs, np.nan)


def rank_correlation(
    networks: Sequence[Watched], scores: Sequence[Scores], draws: NDArray[Any]
) -> tuple[float, NDArray[Any]]:
    """Spearman's, over all readings, of the score and the rise of unseen accuracy up to four times as many steps.

    And that of each resample of the networks, in which the ranks are still those among all readings of all networks.
    """
    whose, known, rises = [np.empty(0, int)], [np.empty(0)], [np.empty(0)]
    for number, (network, score) in enumerate(zip(networks, scores, strict=True)):
        readings = max(0, len(network.steps) - AHEAD)
        there = np.flatnonzero(~np.isnan(score[:readings]))
        whose.append(np.full(len(there), number))
        known.append(score[there])
        rises.append(network.unseen[there + AHEAD] - network.unseen[there])
    left, right = (rankdata(np.concatenate(part)) for part in (known, rises))
    terms = np.stack([np.ones_like(left), left, right, left**2, right**2, left * right])
    sums = np.zeros((len(networks), len(terms)))
    np.add.at(sums, np.concatenate(whose), terms.T)
    return float(pearson(sums.sum(0))), pearson(draws @ sums)


def pearson(sums: NDArray[Any]) -> NDArray[Any]:
    """The correlation from the sums of 1, x, y, x², y² and xy, which are on the last axis; NaN without spread."""
    with np.errstate(invalid="ignore"):
        _, x, y, xx, yy, xy = np.moveaxis(sums / sums[..., :1], -1, 0)
        spread = (xx - x**2) * (yy - y**2)
        found: NDArray[Any] = (xy - x * y) / np.sqrt(np.where(spread > ROUNDING * xx * yy, spread, np.nan))
    return found


@dataclass(frozen=True)
class Alarm:
    """How an alarm that rings when the score first passes a threshold would have done.

    Attributes:
        threshold: the lowest at which at most a tenth of the networks that do not generalise set it off.
        false: the share of those networks that do.
        leads: for each network that generalises, how many doublings of the steps before half of its rise it rang;
            minus infinity if never.
    """

    threshold: float
    false: float
    leads: tuple[float, ...]


def alarm(networks: Sequence[Watched], scores: Sequence[Scores], threshold: float | None = None) -> Alarm | None:
    """The alarm, or the one with a threshold from elsewhere; None unless there are both outcomes."""
    peaks, rising = [], []
    for network, score in zip(networks, scores, strict=True):
        if network.fits is None:
            continue
        if will_generalise(network, network.fits):
            rising.append((network, score))
        else:
            peaks.append(_peak(score[network.fits :]))
    if not (peaks and rising):
        return None
    if threshold is None:
        threshold = sorted(peaks, reverse=True)[int(FALSE_ALARMS * len(peaks))]
    false = sum(peak > threshold for peak in peaks) / len(peaks)
    return Alarm(threshold, false, tuple(lead(network, score, threshold) for network, score in rising))


def lead(network: Watched, score: Scores, threshold: float) -> float:
    """The doublings of the steps from the alarm to the reading with half of the rise behind it."""
    first = network.fits or 0
    half = (network.unseen[first] + network.unseen[-1]) / 2
    risen = first + int(np.flatnonzero(network.unseen[first:] >= half)[0])
    rang = np.flatnonzero(score[first:] > threshold)
    return float(np.log2(network.steps[risen] / network.steps[first + rang[0]])) if len(rang) else -float("inf")


def _peak(score: Scores) -> float:
    return -float("inf") if np.isnan(score).all() else float(np.nanmax(score))
