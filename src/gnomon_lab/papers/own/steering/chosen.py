"""Which of the settings that were tried is the best, and how a method does compared with another."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from gnomon_lab.papers.own._methods import REFINED
from gnomon_lab.runs import Record, Seeds

BASELINE, UNTUNED, NO_DECAY = "weight decay", "weight decay, untuned", "no weight decay"
ALONE, ON_TOP = "alone", "on top"
REFERENCE = f"{REFINED}, {ON_TOP}"
"""What all are compared with: weight decay, tuned with as many settings as a method on top of it."""
RESAMPLES = 1000


def best_place(records: Sequence[Record]) -> int:
    """The index of the best setting, from an entrant's trials for tuning.

    The fewest that do not arrive, then the fewest steps, then the highest unseen accuracy; for a task in which
    networks train to the end, the last alone.
    """
    tried = by_place(records)
    return min(tried, key=lambda place: rank(tried[place])) if tried else 0


def by_place(records: Sequence[Record]) -> dict[int, list[Record]]:
    """An entrant's trials for tuning, by setting."""
    tried: dict[int, list[Record]] = {}
    for record in records:
        if not record["scored"]:
            tried.setdefault(record["place"], []).append(record)
    return tried


def rank(trials: Sequence[Record]) -> tuple[float, ...]:
    """The lower the better."""
    known = -statistics.mean(trial["unseen"] for trial in trials)
    if trials[0]["whole"]:
        return (known,)
    arrived = [trial["steps"] for trial in trials if trial["steps"] is not None]
    return len(trials) - len(arrived), sum(arrived), known


def worth_trying(records: Sequence[Record], place: int, most: int) -> int:
    """The steps after which a setting can no longer be the best, for its next trial; `most` where nothing says so.

    Once another has arrived with all seeds, one that fails with a seed, or takes more steps in total, is out.
    """
    tried = by_place(records)
    own = tried.pop(place, [])
    whole = [ranked for ranked in map(rank, tried.values()) if ranked[0] == 0]
    if not whole:
        return most
    left = min(steps for _, steps, _ in whole) - sum(trial["steps"] or most for trial in own)
    return int(max(1, min(most, left)))


def scored(records: Sequence[Record], task: str, entrant: str) -> list[Record]:
    """The trials that count, by seed."""
    return [r for r in records if r["entrant"] == entrant and r["task"] == task and r["scored"]]


@dataclass(frozen=True)
class Comparison:
    """An entrant compared with another on one task: the median over seeds, with a 95 % interval.

    Attributes:
        value: how many times fewer steps, or times less time; or how many points of unseen accuracy more.
        low: of the interval, by resampling runs, which tune separately, and their seeds.
        high: of the interval.
        arrived: how many seeds reached the goal.
        seeds: how many there are.
        bound: whether the value is a lower bound: the median depends on seeds with which the other never arrived.
    """

    value: float
    low: float
    high: float
    arrived: int
    seeds: int
    bound: bool = False


def compare(runs: Seeds, task: str, entrant: str, other: str, unit: str) -> Comparison | None:
    """An entrant compared with another, seed by seed; unit is "steps", "time" or "unseen".

    An entrant that never arrives is infinitely slow: a factor of 0. Where the other never does, its steps until the end
    are used, so that the true factor is at least the reported one; where neither does, it is 1. Time is steps times the
    cost of a step: the ratio of both costs is the median over runs, and resampled with them. None where either has no
    scored trials.
    """
    trials = [(scored(records, task, entrant), scored(records, task, other)) for records in runs]
    both = [pair for pair in trials if all(pair)]
    if not both:
        return None
    gains = np.array([[gain(*pair, unit) for pair in zip(*trials_of, strict=True)] for trials_of in both])
    ours, theirs = (np.array([[trial["steps"] is not None for trial in of[place]] for of in both]) for place in (0, 1))
    cheaper = np.array([cost(of_theirs) / cost(of_ours) for of_ours, of_theirs in both])
    # Where neither arrives, neither is faster, whatever its steps cost.
    raced = (ours | theirs) & (unit == "time")
    random, (runs_there, seeds_there) = np.random.default_rng(0), gains.shape
    of_runs = random.integers(runs_there, size=(RESAMPLES, runs_there, 1))
    of_seeds = random.integers(seeds_there, size=(RESAMPLES, runs_there, seeds_there))
    less = np.median(cheaper[of_runs], 1, keepdims=True)
    drawn = np.where(raced[of_runs, of_seeds], less, 1) * gains[of_runs, of_seeds]
    low, high = np.quantile(middle(drawn), (0.025, 0.975), method="inverted_cdf")
    found = np.where(raced, np.median(cheaper), 1) * gains
    value = float(middle(found))
    bound = unit != "unseen" and middle(np.where(ours & ~theirs, np.inf, found)) > value
    return Comparison(value, float(low), float(high), int(ours.sum()), gains.size, bool(bound))


def middle(factors: Float[np.ndarray, "*draws run seed"]) -> Float[np.ndarray, "*draws"]:
    """The median of all; for an even number the lower of the two in the middle, which is never a mean with a 0."""
    return np.quantile(factors, 0.5, axis=(-2, -1), method="inverted_cdf")


def gain(ours: Record, theirs: Record, unit: str) -> float:
    """The gain for one seed, in steps or in points."""
    if unit == "unseen":
        return 100 * float(ours["unseen"] - theirs["unseen"])
    if ours["steps"] is None:
        return float(theirs["steps"] is None)
    return float((theirs["most"] if theirs["steps"] is None else theirs["steps"]) / ours["steps"])


def cost(trials: Sequence[Record]) -> float:
    """CPU seconds per step, over all steps of these trials."""
    steps = [trial["steps"] or trial["most"] for trial in trials]
    return sum(trial["cost"] * count for trial, count in zip(trials, steps, strict=True)) / sum(steps)
