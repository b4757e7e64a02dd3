"""What a model says of networks that it has not seen, with everything that is learnt learnt without them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gnomon_lab.papers.own.verdict.models import Fit, Probabilities, Tell, Traits, alike, always, imputer, similar
from gnomon_lab.papers.own.verdict.moments import Moments

BINS = 20
"""Bins into which moments are divided by their probability, each with equally many."""
UNLIKE = 0.95
"""The share of the known moments whose distance to other groups is below the limit."""
NEARLY = 1.01
"""A log loss up to this many times the lowest is as good."""


@dataclass(frozen=True, eq=False)
class Said:
    """What was said of each moment by what was fitted without its group.

    Attributes:
        probability: that it comes.
        low, high: bounds between which 90 in a hundred rises lie.
        answered: whether the moment is like those that the model was fitted to.
        inner: for each group, what was said of all others while each of them was left out; NaN in the group.
        chosen: the name of the model, by group.
    """

    probability: Probabilities
    low: Float[NDArray[Any], "m"]
    high: Float[NDArray[Any], "m"]
    answered: Bool[NDArray[Any], "m"]
    inner: Float[NDArray[Any], "g m"]
    chosen: dict[int, str]


def nested(
    data: Moments, came: Bool[NDArray[Any], "m"], group: Int[NDArray[Any], "m"], models: Mapping[str, Fit]
) -> Said:
    """Leaves out each group, and from the rest each group again, to choose between the models and to calibrate."""
    count, groups = len(group), np.unique(group)
    said = Said(
        np.full(count, np.nan),
        np.full(count, np.nan),
        np.full(count, np.nan),
        np.zeros(count, dtype=bool),
        np.full((len(groups), count), np.nan),
        {},
    )
    for which, left_out in enumerate(groups):
        there, asked = group != left_out, group == left_out
        name, scores, calibrate = chosen(data, came, np.where(there, group, -1), models)
        learnt = there & data.known
        tell = models[name](data.traits[learnt], came[learnt], data.network[learnt])
        inner = calibrate(scores[name])
        said.inner[which, there] = inner[there]
        said.probability[asked] = calibrate(tell(data.traits[asked]))
        ranges = Ranges.of(inner[learnt], data.rise[learnt])
        said.low[asked], said.high[asked] = ranges.at(said.probability[asked])
        said.answered[asked] = near(data, np.where(there & data.known, group, -1), asked)
        said.chosen[int(left_out)] = name
    return said


def chosen(
    data: Moments, came: Bool[NDArray[Any], "m"], group: Int[NDArray[Any], "m"], models: Mapping[str, Fit]
) -> tuple[str, dict[str, Probabilities], Tell]:
    """The first model whose log loss is nearly the lowest, what each said of groups left out, and its calibration."""
    scores = {name: left_out(data, came, group, fit) for name, fit in models.items()}
    counted = (group >= 0) & data.known
    calibrations = {name: platt(said[counted], came[counted]) for name, said in scores.items()}
    losses = {
        name: log_loss(came[counted], calibrations[name](scores[name][counted]), labels=(False, True))
        for name in models
    }
    name = next(name for name in models if losses[name] <= NEARLY * min(losses.values()))
    return name, scores, calibrations[name]


def left_out(data: Moments, came: Bool[NDArray[Any], "m"], group: Int[NDArray[Any], "m"], fit: Fit) -> Probabilities:
    """What is said of each group by what was fitted to the others; one half of those in group -1."""
    said = np.full(len(group), 0.5)
    for each in np.unique(group[group >= 0]):
        learnt, asked = (group >= 0) & (group != each) & data.known, group == each
        said[asked] = fit(data.traits[learnt], came[learnt], data.network[learnt])(data.traits[asked])
    return said


def platt(said: Probabilities, came: Bool[NDArray[Any], "m"]) -> Tell:
    """Platt's calibration: logistic regression on the logarithm of the odds."""
    if alike(came):
        return always(came)
    fitted = LogisticRegression(C=1e6).fit(odds(said), came)
    return lambda asked: fitted.predict_proba(odds(asked))[:, 1]


def odds(said: Probabilities) -> Float[NDArray[Any], "m 1"]:
    """The logarithm of the odds."""
    kept = np.clip(said, 1e-6, 1 - 1e-6)
    return np.log(kept / (1 - kept))[:, None]


@dataclass(frozen=True, eq=False)
class Ranges:
    """The ranges in which rises lie, by the probability that was said of moments while their group was left out.

    Attributes:
        edges: of the bins, between the lowest and the highest.
        low, high: quantiles of the rises in each.
    """

    edges: Float[NDArray[Any], "b"]
    low: Float[NDArray[Any], "b1"]
    high: Float[NDArray[Any], "b1"]

    @staticmethod
    def of(said: Probabilities, rise: Float[NDArray[Any], "m"], outside: float = 0.1) -> "Ranges":
        """From what came: conformal prediction in bins."""
        edges = np.quantile(said, np.arange(1, BINS) / BINS)
        bins = np.searchsorted(edges, said, side="right")
        quantiles = [np.quantile(rise[bins == each], (outside / 2, 1 - outside / 2)) for each in np.unique(bins)]
        low, high = np.array(quantiles).T
        return Ranges(edges[np.unique(bins)[1:] - 1], low, high)

    def at(self, said: Probabilities) -> tuple[Float[NDArray[Any], "m"], Float[NDArray[Any], "m"]]:
        """The range for each probability."""
        bins = np.searchsorted(self.edges, said, side="right")
        return self.low[bins], self.high[bins]


def near(data: Moments, group: Int[NDArray[Any], "m"], asked: Bool[NDArray[Any], "m"]) -> Bool[NDArray[Any], "m"]:
    """Whether moments are no further from the known ones than most of these are from those of other groups."""
    learnt = group >= 0
    scaled = standard(data.traits[learnt])(data.traits)
    off = similar(scaled[asked], scaled[learnt], data.network[learnt])[1].mean(1)
    return (off <= limit(data, group)) & data.whole[asked]


def limit(data: Moments, group: Int[NDArray[Any], "m"]) -> float:
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
    return lambda asked: fitted.transform(asked)
