"""Measures from the records of truncation: each is the worst over readings and clusters of one arm."""

import itertools
import math
from collections.abc import Callable

from gnomon_lab.runs import Arm, Record


def clearance(arm: Arm) -> float:
    """The least height of a cluster over the other one's faces, in spreads; above 0 each map leaves the other alone."""
    return min(min(record["clearance"]) for record in arm)


def where_separated(measure: Callable[[Arm], float]) -> Callable[[Arm], float]:
    """The same measure; -1 where the truncations are not separated throughout."""
    return lambda arm: measure(arm) if clearance(arm) > 0 else -1.0


def largest_error(name: str) -> Callable[[Arm], float]:
    """The measure that returns the largest number of a column that has none near a face; infinite if all are there."""
    return lambda arm: max((record[name] for record in arm if record[name] is not None), default=math.inf)


def slope(arm: Arm) -> float:
    """The largest of the rates at which β and R of a cluster change the loss, in units of the first loss."""
    rates = [rate for record in arm for both in record["slopes"] or () for rate in both]
    return max(rates) / sum(arm[0]["loss"]) if rates else math.inf


def balance(arm: Arm) -> float:
    """By how much the first loss, the loss and the two decreases disagree, in units of the first loss."""
    return max(
        abs(first - now - sum(spent)) / first
        for record in arm
        for first, now, spent in zip(arm[0]["loss"], record["loss"], record["decrease"], strict=True)
    )


def rise(arm: Arm) -> float:
    """The most by which a cluster's loss rises from one reading to the next, in units of the first; below 0 if none."""
    pairs = itertools.pairwise(record["loss"] for record in arm)
    rises = [b - a for before, after in pairs for a, b in zip(before, after, strict=True)]
    return max(rises) / sum(arm[0]["loss"])


def largest(name: str) -> Callable[[Arm], float]:
    """The measure that returns the largest number of a column."""
    return lambda arm: max(max(record[name]) for record in arm)


def restless(arm: Arm) -> float:
    """How far the map that truncates nothing moves; infinite if it is not recognised as an equilibrium."""
    if arm[0]["equilibrium"][0] != "untruncated":
        return math.inf
    return max(max(record["moved"][0], record["turned"][0]) for record in arm)


def drifting(arm: Arm) -> float:
    """How far β of the map that truncates everything moves, over its distance; infinite if that is not recognised."""
    if arm[0]["equilibrium"][1] != "truncated":
        return math.inf
    return max(record["moved"][1] for record in arm) / arm[0]["distance"][1]


def over_bound(estimates: str) -> Callable[[Arm], float]:
    """The measure of s₁ over its bound; -1 where no cluster has a bound."""

    def measure(arm: Arm) -> float:
        pairs = zip(arm[0]["collapse"], arm[0][estimates], strict=True)
        known = [(time, bound["bound"]) for time, bound in pairs if bound["bound"]]
        return max((math.inf if time is None else time / bound for time, bound in known), default=-1.0)

    return measure


def over_way(arm: Arm) -> float:
    """How far R turns, over η₂, where there is a bound; -1 where there is none."""
    pairs = zip(arm[-1]["turned"], arm[0]["sharp"], strict=True)
    return max((turned / bound["eta2"] for turned, bound in pairs if bound["bound"]), default=-1.0)


def over_decay(arm: Arm) -> float:
    """The distance of β from minus the target over what the rate 1 - η₀ leaves of it, where there is a bound."""
    found = [-1.0]
    for k, bound in enumerate(arm[0]["sharp"]):
        if bound["bound"]:
            rate, first = 1 - bound["eta0"], arm[0]["distance"][k]
            found += [record["distance"][k] / first * math.exp(rate * record["s"]) for record in arm]
    return max(found)


def after(arm: Arm, what: Callable[[Record, Record, int], float]) -> float:
    """The largest value of a measure over the readings from a cluster's collapse on, given the first; -1 if none is."""
    found = [-1.0]
    for k, time in enumerate(arm[0]["collapse"]):
        later = [record for record in arm if time is not None and record["s"] >= time]
        found += [what(later[0], record, k) for record in later]
    return max(found)


def off_exponential(arm: Arm) -> float:
    """How far the integrated distance is from its exponential after collapse, as a share."""

    def off(first: Record, record: Record, k: int) -> float:
        expected = first["whole_distance"][k] * math.exp(first["s"] - record["s"])
        return abs(float(record["whole_distance"][k]) / expected - 1)

    return after(arm, off)


def unrest(arm: Arm) -> float:
    """How far the integrated R turns after collapse."""
    return after(arm, lambda _, record, k: float(record["whole_unrest"][k]))
