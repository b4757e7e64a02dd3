"""When to read: functions from a step to whether a reading is due."""

import math
import operator
from collections.abc import Callable, Set
from functools import partial
from typing import SupportsIndex

from gnomon import _checks
from gnomon._kinds import checked
from gnomon.errors import ArgumentTypeError, RangeError, public, within

Schedule = Callable[[int], bool]


@checked
def every(steps: int) -> Schedule:
    """At step 0 and each multiple of `steps`.

    Example:
        >>> [step for step in range(10) if every(4)(step)]
        [0, 4, 8]
    """
    if not 1 <= steps < math.inf:
        raise RangeError("steps", "at least 1", steps, "Give the distance between readings.")
    return partial(_is_multiple, steps)


@public
def at(*steps: int) -> Schedule:
    """At the given steps.

    Example:
        >>> [step for step in range(10) if at(2, 7)(step)]
        [2, 7]
    """
    try:
        due = frozenset(map(operator.index, steps))
    except TypeError:
        due = frozenset()
    if not due or min(due) < 0:
        raise RangeError("steps", "one or more steps from 0 on", steps, "Name the steps, as in at(100, 200).")
    return partial(_is_among, due)


@checked
def log_spaced(per_decade: int) -> Schedule:
    """At step 0 and `per_decade` times in each factor of ten, evenly on a log axis; every step where these are dense.

    Example:
        >>> [step for step in range(101) if log_spaced(4)(step)]
        [0, 1, 2, 3, 6, 10, 18, 32, 56, 100]
    """
    if not 1 <= per_decade < math.inf:
        raise RangeError("per_decade", "at least 1", per_decade, "Ask for more readings.")
    return partial(_is_spaced, per_decade)


# Functions of the module, not closures: a probe, and a callback with one, can then be pickled.
def _is_multiple(steps: int, step: int) -> bool:
    return step % steps == 0


def _is_among(due: Set[int], step: int) -> bool:
    return operator.index(step) in due


def _is_spaced(per_decade: int, step: int) -> bool:
    if step <= 0:
        return step == 0
    near = round(per_decade * math.log10(step))
    return any(round(10 ** (power / per_decade)) == step for power in (near - 1, near, near + 1))


@within("Probe")
def whole_step(step: SupportsIndex) -> int:
    """The step as an int of Python, from NumPy and torch too."""
    if not _checks.whole(step):
        raise ArgumentTypeError(
            "step", "a whole number", repr(step), "Pass how many steps the network has been trained for."
        )
    taken = operator.index(step)
    if taken < 0:
        raise RangeError("step", "0 or above", taken, "Count from 0, the network before training.")
    return taken
