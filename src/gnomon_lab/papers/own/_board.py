"""The scores of one predictor: in each family, over all of them, and in each with its sign from the others."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from gnomon_lab.figures import Points
from gnomon_lab.papers.own._judged import (
    Scores,
    alarm,
    auroc,
    predictions_when_fitted,
    rank_correlation,
    resampled_auroc,
)
from gnomon_lab.papers.own._watched import DOUBLING, Watched

LATER = 4
"""Doublings of the steps after the training data are fitted, up to which it is asked again."""
Numbers = dict[str, float | None]
Networks = Mapping[str, Sequence[Watched]]
"""By family."""
Scored = Mapping[str, Sequence[Scores]]
"""By family the scores of each network, which are meant to be high where it will generalise."""
Draws = Mapping[str, Float[np.ndarray, "b m"]]
"""By family how often each of its networks is drawn, in each resample."""


def resamples(networks: Networks, count: int, generator: np.random.Generator) -> Draws:
    """Draws as many networks of each family as there are, with replacement; the same for all predictors."""
    return {
        name: generator.multinomial(len(those), np.full(len(those), 1 / len(those)), count).astype(float)
        for name, those in networks.items()
    }


@dataclass(frozen=True, eq=False)
class ByFamily:
    """A number by family, with those of the resamples; it says nothing at `nothing`.

    Attributes:
        values: by family; NaN where there is none.
        drawn: by resample and family.
        nothing: 0.5 for an AUROC, 0 for a correlation.
    """

    values: Float[np.ndarray, "f"]
    drawn: Float[np.ndarray, "b f"]
    nothing: float

    def left_out(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The mean over families, each turned the way that the others point; and that of each resample."""
        return mean(self._turned(self.values)), mean(self._turned(self.drawn))

    def signs(self, values: NDArray[Any]) -> NDArray[Any]:
        """For each family 1 where, on average, high scores in the others go with generalising, otherwise -1.

        NaN where no other family has a value.
        """
        there = ~np.isnan(values)
        off = np.where(there, values - self.nothing, 0)
        others = there.sum(-1, keepdims=True) - there
        return np.where(others == 0, np.nan, np.where(off.sum(-1, keepdims=True) - off >= 0, 1.0, -1.0))

    def _turned(self, values: NDArray[Any]) -> NDArray[Any]:
        return self.nothing + self.signs(values) * (values - self.nothing)


def areas(networks: Networks, scores: Scored, draws: Draws, later: int = 0) -> ByFamily:
    """The AUROC at the reading at which the training data are fitted, or `later` readings after it."""
    known = {name: predictions_when_fitted(those, scores[name], later) for name, those in networks.items()}
    drawn = [resampled_auroc(found, draws[name]) for name, found in known.items()]
    return ByFamily(np.array([auroc(found) for found in known.values()]), np.stack(drawn, axis=1), 0.5)


def correlations(networks: Networks, scores: Scored, draws: Draws) -> ByFamily:
    """The rank correlation with the rise that follows."""
    found = [rank_correlation(those, scores[name], draws[name]) for name, those in networks.items()]
    return ByFamily(np.array([value for value, _ in found]), np.stack([drawn for _, drawn in found], axis=1), 0.0)


def judged(networks: Networks, scores: Scored, draws: Draws) -> dict[str, object]:
    """All that is recorded of a predictor."""
    found, correlated = areas(networks, scores, draws), correlations(networks, scores, draws)
    signs = dict(zip(networks, np.nan_to_num(found.signs(found.values), nan=1.0).tolist(), strict=True))
    highs = dict.fromkeys(networks, 1.0)
    return {
        "families": {
            name: spread(found.values[place], found.drawn[:, place])
            | {
                "correlation": spread(correlated.values[place], correlated.drawn[:, place]),
                **counts(networks[name], scores[name]),
            }
            for place, name in enumerate(networks)
        },
        "all": spread(mean(found.values), mean(found.drawn)),
        "left_out": spread(*found.left_out()) | {"correlation": spread(*correlated.left_out())},
        "later": [
            spread(*areas(networks, scores, draws, DOUBLING * doubling).left_out()) for doubling in range(LATER + 1)
        ],
        "high": alarms_in_time(networks, turned(scores, highs)),
        "low": alarms_in_time(networks, turned(scores, dict.fromkeys(networks, -1.0))),
        "own": alarms_in_time(networks, turned(scores, signs)),
        "elsewhere": alarms_elsewhere(networks, scores, signs),
    }


def counts(networks: Sequence[Watched], scores: Sequence[Scores]) -> dict[str, int]:
    """Of a family's networks: all, those with a score at the reading at which they fit, and those generalising then."""
    outcomes = predictions_when_fitted(networks, scores).outcomes
    return {"networks": len(networks), "asked": len(outcomes), "generalise": int(outcomes.sum())}


def beyond(networks: Networks, scores: Scored, rival: Scored, draws: Draws) -> Numbers:
    """By how much the AUROC in families left out is above a rival's; both are asked about networks that both score."""
    value, drawn = areas(networks, where(scores, rival), draws).left_out()
    theirs, drawn_theirs = areas(networks, where(rival, scores), draws).left_out()
    return spread(value - theirs, drawn - drawn_theirs)


def where(scores: Scored, other: Scored) -> dict[str, list[Scores]]:
    """The scores, where there are others too."""
    return {
        name: [np.where(np.isnan(theirs), np.nan, own) for own, theirs in zip(scores[name], other[name], strict=True)]
        for name in scores
    }


def turned(scores: Scored, signs: Mapping[str, float]) -> Scored:
    """The scores, or their negatives, by family."""
    return {name: [sign * score for score in scores[name]] for name, sign in signs.items()}


def alarms_in_time(networks: Networks, scores: Scored) -> Numbers:
    """The alarms of all families together, each at its own threshold."""
    alarms = [found for name, those in networks.items() if (found := alarm(those, scores[name]))]
    return in_time([lead for each in alarms for lead in each.leads])


def alarms_elsewhere(networks: Networks, scores: Scored, signs: Mapping[str, float]) -> Numbers:
    """The same with each family's threshold and direction taken from the others, and the false alarms it has then."""
    alarms = []
    for name in networks:
        facing = turned(scores, dict.fromkeys(networks, signs[name]))
        others = [other for other in networks if other != name]
        learnt = alarm(
            [network for other in others for network in networks[other]],
            [score for other in others for score in facing[other]],
        )
        own = learnt and alarm(networks[name], facing[name], learnt.threshold)
        alarms += [own] if own else []
    false = number(np.mean([each.false for each in alarms])) if alarms else None
    return in_time([lead for each in alarms for lead in each.leads]) | {"false": false}


def in_time(leads: Sequence[float]) -> Numbers:
    """The share that rang before half of the rise, and the median lead in doublings: null if most never rang."""
    if not leads:
        return {"in_time": None, "median": None, "networks": 0}
    median = sorted(leads)[(len(leads) - 1) // 2]
    return {"in_time": float(np.mean(np.array(leads) > 0)), "median": number(median), "networks": len(leads)}


def mean(values: NDArray[Any]) -> NDArray[Any]:
    """The mean over the families that have a value, on the last axis."""
    there = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        found: NDArray[Any] = np.where(there, values, 0).sum(-1) / there.sum(-1)
    return found


def spread(value: float | NDArray[Any], drawn: NDArray[Any]) -> Numbers:
    """A value, and what 95 in a hundred of its resamples lie between."""
    there = drawn[~np.isnan(drawn)]
    low, high = np.quantile(there, (0.025, 0.975)) if len(there) else (math.nan, math.nan)
    return {"value": number(value), "low": number(low), "high": number(high)}


def number(value: float | NDArray[Any] | np.floating[Any]) -> float | None:
    """The number; None where there is none."""
    return float(value) if math.isfinite(value) else None


def interval(found: dict[str, Any], digits: int = 2) -> str:
    """A value and its interval."""
    if found["value"] is None:
        return "none"
    value, low, high = (f"{found[name]:.{digits}f}" for name in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


def dots(name: str, values: Sequence[float | None], colour: int) -> Points | None:
    """The AUROCs of a kind, a family for instance, by row; None if it has none."""
    there = [(value, float(row)) for row, value in enumerate(values) if value is not None]
    across, down = tuple(value for value, _ in there), tuple(row for _, row in there)
    return Points(name, across, down, colour=colour) if there else None
