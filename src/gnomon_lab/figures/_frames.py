"""What figures of several frames share: which of them a still figure shows side by side."""

from collections.abc import Sequence
from typing import TypeVar

from gnomon.errors import RangeError
from gnomon_lab.figures._checks import some

Frame = TypeVar("Frame")


def check_frames(frames: Sequence[object], beside: tuple[int, ...] | None, name: str) -> None:
    """Raises unless there are frames, and `beside` is None or names one to three of them."""
    some("frames", frames, "frame", name)
    if beside is not None and not (1 <= len(beside) <= 3 and {*beside} <= {*range(len(frames))}):
        expected = f"one to three places of frames from 0 to {len(frames) - 1}"
        raise RangeError("beside", expected, f"{beside} in {name!r}", "Leave some out.")


def side_by_side(frames: Sequence[Frame], beside: tuple[int, ...] | None) -> tuple[Frame, ...]:
    """The frames at those places; None takes the first, the middle and the last."""
    last = len(frames) - 1
    places = sorted({0, last // 2, last}) if beside is None else beside
    return tuple(frames[place] for place in places)
