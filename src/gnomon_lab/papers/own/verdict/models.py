"""From the traits of a moment to a probability: the nearest runs, logistic regression, gradient boosting."""

import math
from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.spatial.distance import cdist
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

Traits = Float[np.ndarray, "m q"]
Probabilities = Float[np.ndarray, "m"]
Predict = Callable[[Traits], Probabilities]
Fit = Callable[[Traits, Bool[np.ndarray, "m"], Int[np.ndarray, "m"]], Predict]
"""From the traits and outcomes of moments, and the network of each, to what predicts the probability of others."""
RUNS = 25
"""How many of the most similar networks are asked."""
TOGETHER = 500
"""Moments whose distances to all known ones are computed at once."""


def logistic(strength: float) -> Fit:
    """Logistic regression on standardised traits; the smaller `strength`, the larger the penalty."""

    def fit(traits: Traits, outcomes: Bool[np.ndarray, "m"], whose: Int[np.ndarray, "m"]) -> Predict:
        if one_outcome(outcomes):
            return constant(outcomes)
        fitted = make_pipeline(imputer(), StandardScaler(), LogisticRegression(C=strength, max_iter=1000))
        fitted.fit(traits, outcomes)
        return lambda query: fitted.predict_proba(query)[:, 1]

    return fit


def nearest(traits: Traits, outcomes: Bool[np.ndarray, "m"], whose: Int[np.ndarray, "m"]) -> Predict:
    """The share of positive outcomes, at the most similar moment of each of the `RUNS` most similar networks."""
    standard = make_pipeline(imputer(), StandardScaler())
    known = standard.fit_transform(traits)

    def predict(query: Traits) -> Probabilities:
        rows, _ = similar(standard.transform(query), known, whose)
        return (outcomes[rows].sum(1) + 0.5) / (rows.shape[1] + 1)

    return predict


def boosting(traits: Traits, outcomes: Bool[np.ndarray, "m"], whose: Int[np.ndarray, "m"]) -> Predict:
    """Gradient boosting of shallow trees."""
    if one_outcome(outcomes):
        return constant(outcomes)
    fitted = booster()
    known = ~np.isnan(traits).all(0)  # it cannot use a trait without a single value
    fitted.fit(traits[:, known], outcomes)
    return lambda query: fitted.predict_proba(query[:, known])[:, 1]


def booster() -> HistGradientBoostingClassifier:
    """100 trees of depth 3."""
    return HistGradientBoostingClassifier(max_depth=3, max_iter=100, l2_regularization=1.0, early_stopping=False)


SIMPLE: Mapping[str, Fit] = {
    "logistic regression, C = 0.01": logistic(0.01),
    "logistic regression, C = 1": logistic(1.0),
    "nearest runs": nearest,
}
"""Those that a person can inspect."""
BOOSTED: Mapping[str, Fit] = {"gradient boosting": boosting}


def one_outcome(outcomes: Bool[np.ndarray, "m"]) -> bool:
    """Whether there is only one outcome."""
    return bool(outcomes.all() or not outcomes.any())


def constant(outcomes: Bool[np.ndarray, "m"]) -> Predict:
    """Always that outcome."""
    return lambda query: np.full(len(query), float(outcomes[0]))


def imputer() -> SimpleImputer:
    """Fills in the median where there is no value."""
    return SimpleImputer(strategy="median", keep_empty_features=True)


def similar(
    query: Traits, known: Traits, whose: Int[np.ndarray, "m"]
) -> tuple[Int[np.ndarray, "a k"], Float[np.ndarray, "a k"]]:
    """The most similar moment of each of the most similar networks, the nearest first, and the distances to them.

    Distances are root mean squares over the traits. A network's known moments are adjacent.
    """
    starts = np.flatnonzero(np.diff(whose, prepend=-1))
    ends = np.append(starts[1:], len(whose))
    rows, distances = [np.empty((0, min(RUNS, len(starts))), int)], [np.empty((0, min(RUNS, len(starts))))]
    for part in np.array_split(query, math.ceil(len(query) / TOGETHER) or 1):
        apart = cdist(part, known) / math.sqrt(known.shape[1])
        closest = np.minimum.reduceat(apart, starts, axis=1)
        chosen = np.argsort(closest, axis=1, kind="stable")[:, :RUNS]
        distances.append(np.take_along_axis(closest, chosen, axis=1))
        rows.append(
            np.array([
                [starts[each] + int(off[starts[each] : ends[each]].argmin()) for each in whole]
                for off, whole in zip(apart, chosen, strict=True)
            ]).reshape(-1, chosen.shape[1])
        )  # fmt: skip
    return np.concatenate(rows), np.concatenate(distances)
