"""Which of the settings that were tried is the best, and how a method does beside another."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gnomon_lab.runs import Record

BASELINE, UNTUNED, REFINED = "weight decay", "weight decay, untuned", "weight decay, refined"
ALONE, ON_TOP = "alone", "on top"
REFERENCE = f"{REFINED}, {ON_TOP}"
"""What all are held against: weight decay, tuned with as many settings as a method on top of it."""
RESAMPLES = 1000


def best_place(records: Sequence[Record]) -> int:
    """The place of the best setting, from an entrant's trials for tuning.

    The fewest that do not arrive, then the fewest steps, then the highest unseen accuracy; of a task in which networks
    train to the end the last alone.
    """
    tried: dict[int, list[Record]] = {}
    for record in records:
        if not record["scored"]:
            tried.setdefault(record["place"], []).append(record)

    def rank(place: int) -> tuple[float, ...]:
        trials = tried[place]
        known = -statistics.mean(trial["unseen"] for trial in trials)
        if trials[0]["whole"]:
            return (known,)
        arrived = [trial["steps"] for trial in trials if trial["steps"] is not None]
        return len(trials) - len(arrived), sum(arrived), known

    return min(tried, key=rank) if tried else 0


def scored(records: Sequence[Record], task: str, entrant: str) -> list[Record]:
    """The trials that count, by seed."""
    return [r for r in records if (r["task"], r["entrant"], r["scored"]) == (task, entrant, True)]


@dataclass(frozen=True)
class Beside:
    """How an entrant does beside another on one task: the median over seeds, with a 95 % interval.

    Attributes:
        value: times fewer steps, or times less time; or points of unseen accuracy more.
        low: of the interval, by resampling the seeds.
        high: of the interval.
        arrived: how many seeds reached the goal.
        seeds: how many there are.
    """

    value: float
    low: float
    high: float
    arrived: int
    seeds: int


def beside(seeds: Sequence[Sequence[Record]], task: str, entrant: str, other: str, unit: str) -> Beside | None:
    """An entrant beside another, seed by seed; unit is "steps", "processor" or "unseen".

    Who never arrives is infinitely slow: a factor of 0. Where the other never does, its steps until the end are taken,
    so that the factor is at least what is said; where neither does, it is 1. None where either has no scored trials.
    """
    trials = [(scored(records, task, entrant), scored(records, task, other)) for records in seeds]
    pairs = [pair for both in trials if all(both) for pair in zip(*both, strict=True)]
    if not pairs:
        return None
    found = np.array([gain(ours, theirs, unit) for ours, theirs in pairs])
    drawn = np.random.default_rng(0).integers(len(found), size=(RESAMPLES, len(found)))
    low, high = np.quantile(np.median(found[drawn], axis=1), (0.025, 0.975))
    arrived = sum(ours["steps"] is not None for ours, _ in pairs)
    return Beside(float(np.median(found)), float(low), float(high), arrived, len(pairs))


def gain(ours: Record, theirs: Record, unit: str) -> float:
    """Of one seed."""
    if unit == "unseen":
        return 100 * float(ours["unseen"] - theirs["unseen"])
    if ours["steps"] is None:
        return float(theirs["steps"] is None)
    return float(taken(theirs, unit) / taken(ours, unit))


def taken(trial: Record, unit: str) -> float:
    """Steps or seconds until the goal, or until the end."""
    return float(trial[unit] if trial["steps"] is not None or unit == "processor" else trial["most"])
