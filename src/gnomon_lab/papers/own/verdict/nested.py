"""Nested cross-validation: predictions for groups of networks from which nothing was learnt."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gnomon_lab.papers.own.verdict.models import (
    Fit,
    Predict,
    Probabilities,
    Traits,
    constant,
    imputer,
    one_outcome,
    similar,
)
from gnomon_lab.papers.own.verdict.moments import Moments

BINS = 20
"""Bins into which moments are divided by their probability, each with equally many."""
UNLIKE = 0.95
"""The share of the known moments whose distance to other groups is below the limit."""
NEARLY = 1.01
"""A log loss up to this many times the lowest is as good."""


@dataclass(frozen=True, eq=False)
class HeldOutPredictions:
    """The predictions for each moment by what was fitted without its group.

    Attributes:
        probability: of a positive outcome.
        low, high: bounds between which 90 in a hundred rises lie.
        answered: whether the moment is like those that the model was fitted to.
        inner: for each group, the predictions for all others while each of them was left out too; NaN in the group.
        chosen: the name of the model, by group.
    """

    probability: Probabilities
    low: Float[np.ndarray, "m"]
    high: Float[np.ndarray, "m"]
    answered: Bool[np.ndarray, "m"]
    inner: Float[np.ndarray, "g m"]
    chosen: dict[int, str]


def nested(
    data: Moments, outcomes: Bool[np.ndarray, "m"], group: Int[np.ndarray, "m"], models: Mapping[str, Fit]
) -> HeldOutPredictions:
    """Leaves out each group, and from the rest each group again, to choose between the models and to calibrate."""
    count, groups = len(group), np.unique(group)
    predicted = HeldOutPredictions(
        np.full(count, np.nan),
        np.full(count, np.nan),
        np.full(count, np.nan),
        np.zeros(count, dtype=bool),
        np.full((len(groups), count), np.nan),
        {},
    )
    for which, left_out in enumerate(groups):
        there, query = group != left_out, group == left_out
        name, scores, calibrate = chosen(data, outcomes, np.where(there, group, -1), models)
        learnt = there & data.known
        predict = models[name](data.traits[learnt], outcomes[learnt], data.network[learnt])
        inner = calibrate(scores[name])
        predicted.inner[which, there] = inner[there]
        predicted.probability[query] = calibrate(predict(data.traits[query]))
        ranges = Ranges.of(inner[learnt], data.rise[learnt])
        predicted.low[query], predicted.high[query] = ranges.at(predicted.probability[query])
        predicted.answered[query] = near(data, np.where(there & data.known, group, -1), query)
        predicted.chosen[int(left_out)] = name
    return predicted


def chosen(
    data: Moments, outcomes: Bool[np.ndarray, "m"], group: Int[np.ndarray, "m"], models: Mapping[str, Fit]
) -> tuple[str, dict[str, Probabilities], Predict]:
    """The first model whose log loss is nearly the lowest, what each predicts for groups left out, its calibration."""
    scores = {name: left_out(data, outcomes, group, fit) for name, fit in models.items()}
    counted = (group >= 0) & data.known
    calibrations = {name: platt(predicted[counted], outcomes[counted]) for name, predicted in scores.items()}
    losses = {
        name: log_loss(outcomes[counted], calibrations[name](scores[name][counted]), labels=(False, True))
        for name in models
    }
    name = next(name for name in models if losses[name] <= NEARLY * min(losses.values()))
    return name, scores, calibrations[name]


def left_out(data: Moments, outcomes: Bool[np.ndarray, "m"], group: Int[np.ndarray, "m"], fit: Fit) -> Probabilities:
    """The prediction for each group by what was fitted to the others; one half for those in group -1."""
    predicted = np.full(len(group), 0.5)
    for each in np.unique(group[group >= 0]):
        learnt, query = (group >= 0) & (group != each) & data.known, group == each
        predicted[query] = fit(data.traits[learnt], outcomes[learnt], data.network[learnt])(data.traits[query])
    return predicted


def platt(predicted: Probabilities, outcomes: Bool[np.ndarray, "m"]) -> Predict:
    """Platt's calibration: logistic regression on the logarithm of the odds."""
    if one_outcome(outcomes):
        return constant(outcomes)
    fitted = LogisticRegression(C=1e6).fit(odds(predicted), outcomes)
    return lambda query: fitted.predict_proba(odds(query))[:, 1]


def odds(predicted: Probabilities) -> Float[np.ndarray, "m 1"]:
    """The logarithm of the odds."""
    kept = np.clip(predicted, 1e-6, 1 - 1e-6)
    return np.log(kept / (1 - kept))[:, None]


@dataclass(frozen=True, eq=False)
class Ranges:
    """The ranges in which rises lie, by the probability predicted for moments while their group was left out.

    Attributes:
        edges: of the bins, between the lowest and the highest.
        low: a quantile of the rises in each.
        high: another, replaced by the nearest that does not fall where the probability rises. The lower one is left as
            it is: it has no such order, being lowest in between.
    """

    edges: Float[np.ndarray, "b"]
    low: Float[np.ndarray, "b1"]
    high: Float[np.ndarray, "b1"]

    @staticmethod
    def of(predicted: Probabilities, rise: Float[np.ndarray, "m"], outside: float = 0.1) -> "Ranges":
        """From the rises that followed: conformal prediction in bins."""
        edges = np.quantile(predicted, np.arange(1, BINS) / BINS)
        bins = np.searchsorted(edges, predicted, side="right")
        kept, moments = np.unique(bins, return_counts=True)
        low, high = np.array([np.quantile(rise[bins == each], (outside / 2, 1 - outside / 2)) for each in kept]).T
        rising = IsotonicRegression().fit_transform(kept, high, sample_weight=moments)
        return Ranges(edges[kept[1:] - 1], low, rising)

    def at(self, predicted: Probabilities) -> tuple[Float[np.ndarray, "m"], Float[np.ndarray, "m"]]:
        """The range for each probability."""
        bins = np.searchsorted(self.edges, predicted, side="right")
        return self.low[bins], self.high[bins]


def near(data: Moments, group: Int[np.ndarray, "m"], query: Bool[np.ndarray, "m"]) -> Bool[np.ndarray, "m"]:
    """Whether moments are no further from the known ones than most of these are from those of other groups."""
    learnt = group >= 0
    scaled = standard(data.traits[learnt])(data.traits)
    off = similar(scaled[query], scaled[learnt], data.network[learnt])[1].mean(1)
    return (off <= limit(data, group)) & data.whole[query]


def limit(data: Moments, group: Int[np.ndarray, "m"]) -> float:
    """The distance to other groups' most similar networks below which most moments of each group are."""
    learnt = group >= 0
    scaled = standard(data.traits[learnt])(data.traits)
    apart = []
    for each in np.unique(group[learnt]):
        others = learnt & (group != each)
        apart.append(similar(scaled[group == each], scaled[others], data.network[others])[1].mean(1))
    return float(np.quantile(np.concatenate(apart), UNLIKE))


def standard(traits: Traits) -> Callable[[Traits], Traits]:
    """Scales as these are scaled to mean 0 and spread 1, after filling in their median where there is no value."""
    fitted = make_pipeline(imputer(), StandardScaler()).fit(traits)
    return lambda query: fitted.transform(query)
