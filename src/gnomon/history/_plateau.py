"""Whether more training is likely to help, from alignment and rank."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Num
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.history._series import series

LEAST = 3
"""Readings that each of the two compared parts must have."""


@dataclass(frozen=True)
class Plateau:
    """The verdict, and the evidence.

    Attributes:
        reached: whether more training is unlikely to help; `if plateau(...).reached: stop` is the stopping rule.
        gain: by how much the alignment rose with the last doubling of the steps; None with too few readings.
        error: the standard error of `gain`, from the scatter of the readings; None with too few readings.
        first: the alignment at the first reading.
        alignment: the median over the last half of the steps.
        pc1: the median over the last half of the steps.
        flat: how large the gain over a doubling may be, and the rise since the first reading has to be.
        high: how large the alignment must be.
        rank_one: how large PC1 must be.
        message: all this in one sentence.
    """

    reached: bool
    gain: float | None
    error: float | None
    first: float
    alignment: float
    pc1: float
    flat: float
    high: float
    rank_one: float
    message: str


@full_precision
def plateau(
    steps: Sequence[float | int] | Num[Tensor, "t"],
    alignment: Sequence[float | int] | Num[Tensor, "t"],
    pc1: Sequence[float | int] | Num[Tensor, "t"],
    *,
    flat: float = 0.05,
    high: float = 0.2,
    rank_one: float = 0.3,
) -> Plateau:
    r"""Whether alignment and PC1 say that more training is unlikely to help.

    Reading:
        Low, high: Its message: whether the last doubling of the steps still changed the alignment, and whether the
            alignment and PC1 are high.
        Generalising: On digits the alignment gained +0.497 over the last doubling in a network that generalises. In one
            that memorised it is at rest, +0.002, but low, which the rule does not count as an end.
        Misleads: Of the 396 training runs of docs/experiments/corpus.md it stops 16 % with the centroid's alignment,
            1.3 % of all too early; 19 % with the Jacobian's, 2.5 % too early. Its thresholds were chosen on these;
            chosen on other families they stop 4 % too early, 15 % of parity. So it rarely stops a run, and most go on
            long after they have nothing to gain. With one output PC1 is 1 whatever the network does, with c outputs and
            d inputs at least 1 / min(c, d), and with few inputs an untrained network is aligned by chance, by 0.64 with
            two: then the rise since the first reading alone tells.

    The rule: with T the last step, medians of the alignment over $T/2 < t \le T$ and over $T/4 < t \le T/2$ give the
    `gain` of the last doubling, and the scatter within these parts its `error`. More training is unlikely to help if
    PC1 is at least `rank_one`, the alignment at least `high` and more than `flat` above the first reading's, and
    $|\mathrm{gain}| + 2\,\mathrm{error}$ at most `flat`. So the first reading is to be one of the untrained network.

    All are needed. An alignment that is at rest while it is low may rise later: networks that memorised show just
    that. With rank one, robustness can only come from alignment (theorem 3), so a high one at rest leaves little to
    gain. No rule sees the future: the papers' networks pause one more time on the way (figure 3 of Jacobian Alignment),
    and a pause of more than half of all steps at a high alignment would deceive this one.

    Medians tolerate outliers in up to half of a part's readings; noise that hides the trend makes `error` large and the
    verdict "not reached". Readings may be spaced linearly or logarithmically, the latter with twelve or more per factor
    of ten: both parts need three.

    Source:
        Walker et al., arXiv:2506.12284, section 4.2, on CIFAR-10: "the effective rank of the Jacobians is close to one
        and the centroid alignments are relatively high and have started plateauing". The thresholds are gnomon's: round
        numbers that stop at most 2 % of the corpus too early. Few networks come near rank one.
    Args:
        steps: when the readings were taken, increasing, from 0 or above.
        alignment: the mean alignment of the training samples, the centroid's or, under cross-entropy, the Jacobian's.
        pc1: their mean explained variance.
        flat: the largest gain over a doubling that counts as rest, and since the first reading as chance.
        high: the smallest alignment that counts as high.
        rank_one: the smallest PC1 that counts as rank one.
    Returns:
        The verdict. Not reached, with no gain, while one of the two parts has fewer than three readings. Invariant
        under positive scaling of the steps.
    Raises:
        ShapeError: if there are not as many alignments or PC1 as steps.
        EmptyError: if there are no readings.
        RangeError: at NaN or infinity, if steps do not increase or are negative, or if an alignment, a PC1 or a
            threshold is out of range.
    Cost: O(t log t).
    Example:
        >>> from gnomon import plateau
        >>> found = plateau(range(1, 101), [min(0.9, 0.05 * step) for step in range(1, 101)], [0.95] * 100)
        >>> found.reached
        True
    """
    _checks.settings(
        _checks.above_0("flat", flat),
        ("high", high, "in [-1, 1]", -1 <= high <= 1),
        ("rank_one", rank_one, "in [0, 1]", 0 <= rank_one <= 1),
    )
    times, aligned, shares = series(steps, 1, alignment=alignment, pc1=pc1)
    _checks.same_shape(steps=times, alignment=aligned, pc1=shares)
    _checks.between(-1, 1, alignment=aligned)
    _checks.between(0, 1, pc1=shares)
    last = times[-1]
    _checks.settings(("steps", float(times[0]), "from 0 or above", bool(times[0] >= 0)))
    first = float(aligned[0])
    late = times > last / 2 if last > 0 else times == last
    before = (times > last / 4) & ~late
    level, pc1_level = float(np.median(aligned[late])), float(np.median(shares[late]))
    thresholds = {"flat": flat, "high": high, "rank_one": rank_one}
    fewest = min(int(late.sum()), int(before.sum()))
    if fewest < LEAST:
        message = f"Too few readings to tell: one of the parts up to step {float(last):,.12g} has {fewest} of {LEAST}."
        return Plateau(False, None, None, first, level, pc1_level, **thresholds, message=message)
    gain = float(np.median(aligned[late]) - np.median(aligned[before]))
    error = math.hypot(median_error(aligned[late]), median_error(aligned[before]))
    missing = [
        reason
        for holds, reason in (
            (pc1_level >= rank_one, f"PC1 is {pc1_level:.3f}, below {rank_one:g}"),
            (level >= high, f"alignment is {level:.3f}, below {high:g}"),
            (
                level < high or level - first > flat,
                f"alignment is {level:.3f}, and was {first:.3f} at the first reading: it may be so by chance",
            ),
            (
                abs(gain) + 2 * error <= flat,
                f"alignment changed by {gain:+.3f} ± {error:.3f} with the last doubling of steps, beyond {flat:g}",
            ),
        )
        if not holds
    ]
    message = (
        f"More training may help: {'; '.join(missing)}."
        if missing
        else f"More training is unlikely to help: PC1 is {pc1_level:.3f}, alignment {level:.3f}, and the last doubling "
        f"of steps changed it by {gain:+.3f} ± {error:.3f}."
    )
    return Plateau(not missing, gain, error, first, level, pc1_level, **thresholds, message=message)


def median_error(values: Tensor) -> float:
    """The standard error of the median under normal noise, with its width from the median absolute deviation."""
    width = 1.4826 * float(np.median((values - np.median(values)).abs()))
    return math.sqrt(math.pi / 2 / len(values)) * width
