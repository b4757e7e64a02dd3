"""Warnings at the line of the user's that called."""

import sys
import warnings

OURS = ("gnomon", "contextlib", "functools")
"""The packages whose frames are passed over: ours, and those of the wrappers around its functions."""


def warn(message: str, category: type[Warning] = RuntimeWarning) -> None:
    """Warns at the line outside of gnomon that called it, however deep inside of it this is called."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OURS:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
