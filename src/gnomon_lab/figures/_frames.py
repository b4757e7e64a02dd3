"""What figures of several frames share: which of them a still figure shows side by side."""

from collections.abc import Sequence
from typing import TypeVar

from gnomon.errors import RangeError

Frame = TypeVar("Frame")


def check_beside(where: str, beside: tuple[int, ...] | None, frames: int, name: str) -> None:
    """Raises RangeError unless `beside` is None or names one to three of so many frames."""
    if beside is not None and not (1 <= len(beside) <= 3 and {*beside} <= {*range(frames)}):
        raise RangeError(
            None,
            f"one to three places of frames from 0 to {frames - 1}",
            f"{beside} in {name!r}",
            "Leave some out.",
            where=where,
        )


def side_by_side(frames: Sequence[Frame], beside: tuple[int, ...] | None) -> tuple[Frame, ...]:
    """The frames at those places; None takes first, middle and last."""
    last = len(frames) - 1
    places = sorted({0, last // 2, last}) if beside is None else beside
    return tuple(frames[place] for place in places)
