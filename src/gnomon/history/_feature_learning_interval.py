"""When a recorded quantity moves, and when it rests."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Num
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.history._series import series
from gnomon.linalg import scaled


@dataclass(frozen=True)
class FeatureLearningInterval:
    """Where a series moves, and the evidence.

    Attributes:
        moves: whether it moves at all.
        start: the last step up to which it rests at its first value; None if it rests throughout.
        end: the first step from which it rests at its last value; None if it rests throughout.
        change: how far the last value is from the first, as a share of the largest norm in the series.
        excursion: how far any value is from the first, as the same share.
        tolerance: how far away a resting value may be, as the same share.
        message: all this in one sentence.
    """

    moves: bool
    start: float | None
    end: float | None
    change: float
    excursion: float
    tolerance: float
    message: str


@full_precision
def feature_learning_interval(
    steps: Sequence[float | int] | Num[Tensor, "t"],
    values: Sequence[float | int] | Num[Tensor, "t *v"],
    tolerance: float = 0.1,
) -> FeatureLearningInterval:
    r"""The steps between which a recorded neural tangent kernel or inner product moves.

    Reading:
        Low, high: An interval: where the kernel turns. None: it does not turn enough to tell.
        Generalising: On digits from step 2 to 6,105, the end of grokking, in a network that generalises; from 2 to 720
            in one that memorised, until its large initialisation has decayed.
        Misleads: Its end is not the end of learning: 35 % of the training runs of docs/experiments/verdict.md would
            have gained five points or more after the kernel had rested for a doubling of the steps. It measures
            relative to the largest norm: a kernel that grows to the end, as with the logarithm of the steps, never
            rests.

    The rule: with $s = \max_i\|v_i\|$, the series rests at its beginning while $\|v_i - v_0\| \le
    \mathrm{tolerance}\cdot s$ for every reading so far, and at its end from where $\|v_i - v_T\| \le
    \mathrm{tolerance}\cdot s$ for every reading to come. It moves between the two; where they meet, it rests
    throughout, which for the kernel is the linear (lazy) regime.

    Values are compared, rather than their changes added up, so that noise below half the tolerance moves nothing,
    however many readings there are. More frequent readings sharpen the two steps; a drift of one to two tolerances
    counts as a move where no reading shows it half-way. A moving kernel is feature learning; an inner product moves in
    the linear regime too, as the outputs do (docs/errata.md).

    Source:
        Walker et al., Jacobian Alignment Explains Grokking, section 3, which gives no rule: this one is gnomon's.
    Args:
        steps: when the readings were taken, increasing; any unit.
        values: what was read: numbers, or matrices such as a kernel, compared by their Frobenius distance.
        tolerance: the share of the largest norm within which a value rests, in (0, 1).
    Returns:
        Start and end are steps of readings. Invariant under scaling the values, under rotations of them, and under
        increasing maps of the steps (start and end mapped too).
    Raises:
        ShapeError: if there are not as many values as steps.
        EmptyError: if there are fewer than two readings.
        RangeError: at NaN or infinity, if steps do not increase, or if the tolerance is out of range.
    Cost: O(t v).
    Example:
        >>> from gnomon import feature_learning_interval
        >>> found = feature_learning_interval([0, 1, 10, 100, 1000], [1.0, 1.0, 1.5, 3.0, 3.1])
        >>> found.start, found.end
        (1.0, 100.0)
    """
    _checks.settings(("tolerance", tolerance, "in (0, 1)", 0 < tolerance < 1))
    steps, values = series(steps, 2, values=values)
    flat = scaled(values.reshape(len(values), -1))
    scale = torch.linalg.vector_norm(flat, dim=1).max()
    scale = torch.where(scale > 0, scale, 1)
    from_first = torch.linalg.vector_norm(flat - flat[0], dim=1) / scale
    from_last = torch.linalg.vector_norm(flat - flat[-1], dim=1) / scale
    start = int((from_first <= tolerance).long().cumprod(0).sum()) - 1
    end = len(steps) - int((from_last <= tolerance).flip(0).long().cumprod(0).sum())
    moves = start < end
    change, excursion = float(from_first[-1]), float(from_first.max())
    sentence = (
        f"It moves between steps {float(steps[start]):,.12g} and {float(steps[end]):,.12g}, by {change:.1%} in all"
        if moves
        else f"It rests throughout, near its first or its last value, {excursion:.1%} from the first at most"
    )
    return FeatureLearningInterval(
        moves,
        float(steps[start]) if moves else None,
        float(steps[end]) if moves else None,
        change,
        excursion,
        tolerance,
        f"{sentence} (tolerance {tolerance:.1%} of the largest value).",
    )
