"""A cut that moves along one direction, from the records of a flow at a fixed rotation, and the checks on it."""

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from gnomon_lab.runs import Record

Moment = tuple[float, float, float]
"""A time, the position of the cut then, and its rate from then on."""


@dataclass(frozen=True)
class Component:
    """One direction of a flow: the cut on the line on which its points lie."""

    points: list[float]
    """In order."""
    goal: float
    """Where the target is."""
    readings: list[Moment]
    """From time 0 on."""
    met: list[Moment]
    """When the cut meets a point."""
    truncated: list[int]
    """How many points the integrated flow truncates, at the readings."""

    @property
    def falls(self) -> bool:
        """Whether the cut comes from above."""
        return self.goal < self.readings[0][1]


def components(arm: Sequence[Record]) -> list[Component]:
    """The directions of a flow."""
    first, found = arm[0], []
    for r, (points, goal) in enumerate(zip(first["points"], first["goal"], strict=True)):
        readings = [(record["time"], record["cut"][r], record["rate"][r]) for record in arm]
        met = [(time, place, rate) for time, of, place, rate in first["events"] if of == r]
        found.append(Component(sorted(points), goal, readings, met, [record["truncated"][r] for record in arm]))
    return found


def off_recursion(flow: Component) -> float:
    """The error of equation 4.49 with the number of points below the cut for n, relative to times above 1."""
    below, worst = bisect_left if flow.falls else bisect_right, 0.0
    for (time, place, _), (later, to, _) in itertools.pairwise([flow.readings[0], *flow.met]):
        taken = len(flow.points) / below(flow.points, place) * math.log((flow.goal - place) / (flow.goal - to))
        worst = max(worst, abs(later - time - taken) / max(1, later))
    return worst


def not_by_one(flow: Component) -> int:
    """Events at which the rate does not change by one point: up where the cut rises, down where it falls."""
    n, one = len(flow.points), -1 if flow.falls else 1
    moments = itertools.pairwise([flow.readings[0], *flow.met])
    return sum(round(n * (after - before)) != one for (_, _, before), (_, _, after) in moments)


def off_count(flow: Component) -> float:
    """The largest difference of the rate from the share of points that the integrated flow truncates at that time."""
    pairs = zip(flow.readings, flow.truncated, strict=True)
    return max(abs(rate - count / len(flow.points)) for (_, _, rate), count in pairs)


def never_met(flow: Component) -> int:
    """Points above the cut at the start that it does not meet."""
    return len(flow.points) - bisect_right(flow.points, flow.readings[0][1]) - len(flow.met)


def wrongly_met(flow: Component) -> int:
    """Points that lie between the first cut and the target and are not met, or are met and lie elsewhere."""
    low, high = sorted([flow.readings[0][1], flow.goal])
    return len({point for point in flow.points if low < point < high} ^ {place for _, place, _ in flow.met})


def off_share(flow: Component) -> float:
    """How far the rate at the end is from the share of points below the target."""
    return abs(flow.readings[-1][2] - bisect_left(flow.points, flow.goal) / len(flow.points))


def off_end(flow: Component) -> float:
    """How far the cut ends from its target; where that lies below all points, from the least of them."""
    return abs(flow.readings[-1][1] - max(flow.goal, flow.points[0]))
