"""What a training looks like at its last reading, in numbers that compare with those of another network's."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

Series = Float[NDArray[Any], "t"]
Scale = Callable[[Series], Series]
SMALLEST = 1e-9
"""What is smaller counts as this, so that its logarithm is finite."""
SPARSEST = 2.0
"""The largest factor between the steps of two readings around a moment at which a value is asked for."""


def share(values: Series) -> Series:
    """As it is, of what lies between -1 and 1."""
    return values


def logarithm(values: Series) -> Series:
    """To base 2, of what is never below 0."""
    return np.log2(np.maximum(values, SMALLEST))


def nats(values: Series) -> Series:
    """The logarithm to base 2 of the negative, of what is never above 0."""
    return logarithm(-values)


TRAITS: Mapping[str, tuple[Scale, tuple[str, ...]]] = {
    "accuracy": (share, ("level", "change")),
    "log_probability": (nats, ("level", "change", "change before")),
    "training_loss": (logarithm, ("level", "change", "change before")),
    "parameter_norm": (logarithm, ("change", "change before")),
    "jacobian_norm": (logarithm, ("change", "change before")),
    "jacobian_alignment": (share, ("level", "change")),
    "centroid_alignment": (share, ("level", "change")),
    "explained_variance_ratio": (share, ("level", "change")),
    "validation_accuracy": (share, ("level", "change")),
    "validation_log_probability": (nats, ("level", "change")),
}
"""Of each quantity its scale, and what is looked at: its level, only where that has no unit; the change that the last
doubling of the steps brought; and that of the doubling before."""


def traits(steps: Series, values: Mapping[str, Series]) -> dict[str, float] | None:
    """The traits at the last reading, by `quantity, form`.

    Args:
        steps: of the readings, rising; those before step 1 count for nothing.
        values: of each of some of the quantities of `TRAITS`, one number a step.

    Returns:
        NaN where a quantity has no value; None if there are no readings of the last two doublings, at least one each.
    """
    there = steps >= 1
    times = np.log2(steps[there].astype(float))
    if len(times) == 0 or times[-1] - times[0] < 2 - 0.05:
        return None
    places = [place_of(times, times[-1] - doublings) for doublings in (0, 1, 2)]
    if any(place is None for place in places):
        return None
    found: dict[str, float] = {}
    for name, series in values.items():
        scale, forms = TRAITS[name]
        scaled = scale(series[there])
        now, then, before = (between(scaled, *place) for place in places if place is not None)
        said = {"level": now, "change": now - then, "change before": then - before}
        found |= {f"{name}, {form}": said[form] for form in forms}
    return found


def place_of(times: Series, moment: float) -> tuple[int, float] | None:
    """The reading before a moment, and the share of the way from it to the next; None between two far apart."""
    place = int(np.searchsorted(times, moment, side="right")) - 1
    if place < 0:
        return 0, 0.0  # the first reading, a rounding after the moment
    if place == len(times) - 1:
        return place - 1, 1.0
    gap = times[place + 1] - times[place]
    if gap > math.log2(SPARSEST) + 0.05:
        return None
    return place, float((moment - times[place]) / gap)


def between(values: Series, place: int, way: float) -> float:
    """The value there; what is not looked at may be NaN."""
    if way in (0.0, 1.0):
        return float(values[place + int(way)])
    return float((1 - way) * values[place] + way * values[place + 1])
