"""What the page is sent: the curves that changed since its last request, with few enough points to draw."""

import json
import math
import time

import numpy as np

from gnomon_lab.watching.curves import Numbers
from gnomon_lab.watching.folder import Curve, Watched

POINTS, FEWEST, MOST = 300_000, 60, 600
"""Points of all curves together, and the fewest and the most of one curve."""
SINGLE = 9
"""Digits that tell any two numbers of single precision apart."""


def answer(watched: Watched, since: int = 0, *, seconds: float = 1.0) -> str:
    """Reads the files, and returns as JSON what changed after version `since`.

    Args:
        watched: the files.
        since: the version that the page has; 0: none.
        seconds: how long to read at most; `reading` says that there is more.
    """
    whole = watched.look(seconds)
    drawn = watched.curves()
    count = sum(len(curve.curves.names) for curve in drawn)
    points = max(FEWEST, min(MOST, POINTS // max(1, count)))
    head = {
        "folder": str(watched.path),
        "there": watched.there,
        "reading": not whole,
        "now": time.time(),
        "version": watched.version,
        "points": points,
        "left_out": watched.left_out(),
        "unmatched": watched.unmatched(),
    }
    runs = ",\n".join(_content(curve, points, numbers=curve.version > since) for curve in drawn)
    return f'{json.dumps(head)[:-1]}, "runs": [\n{runs}\n]}}'


def _content(curve: Curve, points: int, *, numbers: bool) -> str:
    """One run; its numbers only if they changed."""
    content = {
        "key": curve.key,
        "colour": curve.colour,
        "dash": curve.dash,
        "label": curve.label,
        "setting": curve.setting,
        "readings": len(curve.curves),
        "step": curve.curves.last_step,
        "early": curve.curves.early,
        "changed": curve.changed,
        "finished": curve.finished,
        "broken": curve.broken,
    }
    if not numbers:
        return json.dumps(content)
    steps, columns = curve.curves.thinned(points)
    values = ", ".join(f"{json.dumps(name)}: [{_written(column)}]" for name, column in columns.items())
    return f'{json.dumps(content)[:-1]}, "steps": {json.dumps(steps.tolist())}, "values": {{{values}}}}}'


def _written(column: Numbers) -> str:
    """The numbers, null for none, "-" for NaN or infinity."""
    digits = _digits(column[np.isfinite(column)])
    words = [f"{number:.{digits}g}" for number in column.tolist()]
    return ",".join(words).replace("nan", "null").replace("inf", '"-"')


def _digits(numbers: Numbers) -> int:
    """How many digits to write: those of single precision, or where these differ by less, four of how far they go.

    On an axis that shows nothing else, numbers that are written alike would look constant.
    """
    largest = abs(numbers).max(initial=0)
    share = float(np.ptp(numbers / largest)) if largest else 0.0  # without the overflow of 1e308 and -1e308
    return max(SINGLE, 4 - math.floor(math.log10(share))) if share else SINGLE
