"""What a training run looks like at its last reading, in numbers that are comparable between networks."""

import math
from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Float

Series = Float[np.ndarray, "t"]
Scale = Callable[[Series], Series]
SMALLEST = 1e-9
"""Smaller values count as this, so that their logarithm is finite."""
SPARSEST = 2.0
"""The largest factor between the steps of two readings around a moment at which a value is needed."""
NEAR = 1e-9
"""Doublings of the steps by which two moments may differ through rounding."""


def share(values: Series) -> Series:
    """The values as they are, for what lies between -1 and 1."""
    return values


def logarithm(values: Series) -> Series:
    """The logarithm to base 2, for what is never below 0."""
    return np.log2(np.maximum(values, SMALLEST))


def nats(values: Series) -> Series:
    """The logarithm to base 2 of the negative, for what is never above 0."""
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
"""For each quantity its scale, and what is used of it: its level, only if that has no unit; its change over the last
doubling of the steps; and that over the doubling before."""


def traits(steps: Series, values: Mapping[str, Series]) -> dict[str, float] | None:
    """The traits at the last reading, by `quantity, form`.

    Args:
        steps: the steps of the readings, increasing and in any unit; that of step 0 is ignored.
        values: for some of the quantities in `TRAITS`, one number per step each.

    Returns:
        NaN where a quantity has no value; None if the last two doublings do not have at least one reading each.
    """
    there = steps > 0
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
        of_form = {"level": now, "change": now - then, "change before": then - before}
        found |= {f"{name}, {form}": of_form[form] for form in forms}
    return found


def doubling_ago(steps: Series, values: Series) -> float:
    """The value one doubling of the steps before the last reading, where there are traits."""
    there = steps > 0
    times = np.log2(steps[there].astype(float))
    place = place_of(times, times[-1] - 1)
    return math.nan if place is None else between(values[there], *place)


def place_of(times: Series, moment: float) -> tuple[int, float] | None:
    """The reading before a moment, and the fraction of the way from it to the next; None between two far apart."""
    place = int(np.searchsorted(times, moment + NEAR, side="right")) - 1
    if place < 0:
        return 0, 0.0  # the first reading, which is after the moment by rounding
    if place == len(times) - 1:
        return place - 1, 1.0
    gap = times[place + 1] - times[place]
    if gap > math.log2(SPARSEST) + 0.05:
        return None
    beyond = float(moment - times[place])
    return place, beyond / gap if beyond > NEAR else 0.0


def between(values: Series, place: int, way: float) -> float:
    """The value there; readings that are not used may be NaN."""
    if way in (0.0, 1.0):
        return float(values[place + int(way)])
    return float((1 - way) * values[place] + way * values[place + 1])
