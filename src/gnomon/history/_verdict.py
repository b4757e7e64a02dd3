"""Is more training worth it? What became of similar networks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Num
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.errors import RangeError, ShapeError
from gnomon.history._corpus import Corpus, SimilarRun, corpus
from gnomon.history._model import Model
from gnomon.history._series import as_numbers, series
from gnomon.history._traits import TRAITS, Series, traits
from gnomon.history._verdict_words import (
    FITTING,
    LIKELY,
    UNFITTED,
    counterfactual,
    evidence,
    of_validation,
    sentence,
    unlike,
)

FITS = 0.99
"""The training accuracy from which training data count as fitted."""
CLOSED = 0.1
"""How far accuracy on unseen data may be below that on training data in a network that has generalised."""
RISE = 0.05
"""What counts as a rise in accuracy."""
ROUNDING = 1e-6
"""Accuracies may be of float32, in which 0.9 - 0.85 is less than 0.05."""
HeldOut = Float[np.ndarray, "r"]
OF_VALIDATION = ("validation_accuracy", "validation_log_probability")
BESIDE = [f"{name}, {form}" for name in OF_VALIDATION for form in TRAITS[name][1]]
"""The traits of a validation split that a model uses, if it has all of them."""
BOUNDS = {
    "accuracy": (0, 1),
    "log_probability": (-math.inf, 0),
    "parameter_norm": (0, math.inf),
    "jacobian_norm": (0, math.inf),
    "jacobian_alignment": (-1, 1),
    "centroid_alignment": (-1, 1),
    "explained_variance_ratio": (0, 1),
    "validation_accuracy": (0, 1),
    "validation_log_probability": (-math.inf, 0),
}
"""What the quantities lie between."""


@dataclass(frozen=True)
class Verdict:
    """What is said about a training run, and the evidence.

    Attributes:
        says: "still fitting", "no longer fits its training data", "generalising", "fits its training data and is still
            changing", "fits and is at rest", "cannot tell"; with a validation split, instead of "at rest": "fits and is
            stuck" or "settled".
        probability: the probability that unseen accuracy rises by five points or more if training continues to four
            times the steps; None if that cannot be told.
        rise: the range in which the rise lies in nine of ten cases, as shares; None if it cannot be told.
        expected_step: the step by which half of the networks that have such a rise, with a similar probability, had
            five points of it; None if hardly any has one.
        similar: the most similar runs of the corpus, the nearest first.
        distance: the mean distance to them; None where traits are missing.
        limit: the distance above which no verdict is given.
        agrees: whether a validation split says the same: that accuracy rises, or that it does not; None without one,
            where it was read too seldom, where the probability is from it too, and in every "cannot tell".
        reached: whether more training is unlikely to help; `if verdict(...).reached: stop` is the stopping rule.
        evidence: what it rests on, in a sentence that can be checked.
        counterfactual: what it depends on most, and the probability without that, in a sentence.
        message: the verdict in a sentence.
    """

    says: str
    probability: float | None
    rise: tuple[float, float] | None
    expected_step: float | None
    similar: tuple[SimilarRun, ...] = field(repr=False)
    distance: float | None
    limit: float
    agrees: bool | None
    reached: bool
    evidence: str
    counterfactual: str
    message: str


@full_precision
def verdict(
    steps: Sequence[float | int] | Num[Tensor, "t"],
    accuracy: Sequence[float | int] | Num[Tensor, "t"],
    log_probability: Sequence[float | int] | Num[Tensor, "t"],
    parameter_norm: Sequence[float | int] | Num[Tensor, "t"],
    jacobian_norm: Sequence[float | int] | Num[Tensor, "t"],
    jacobian_alignment: Sequence[float | int] | Num[Tensor, "t"],
    centroid_alignment: Sequence[float | int] | Num[Tensor, "t"],
    explained_variance_ratio: Sequence[float | int] | Num[Tensor, "t"],
    *,
    validation_accuracy: Sequence[float | int] | Num[Tensor, "r"] | None = None,
    validation_log_probability: Sequence[float | int] | Num[Tensor, "r"] | None = None,
    validation_steps: Sequence[float | int] | Num[Tensor, "r"] | None = None,
) -> Verdict:
    r"""Whether more training is worth it: how probable it is that unseen accuracy still rises, and what that rests on.

    Reading:
        Low, high: The probability that with four times the steps unseen accuracy is higher by five points or more.
        Generalising: On digits, when the training data are fitted, 78 % in a network that generalises; 26 % in one
            that memorised. It was fitted to digits: without them such networks are less far apart.
        Misleads: Of two moments in a family that it was not fitted to, one of them before a rise, it names that one 79
            times in 100, with a validation split of a tenth 84 times, from that alone 82. It is no oracle: of the fifth
            of such runs that get below 5 %, asked twice per doubling of the steps, one in six would still have risen
            (asked more often, more), of those below 3 % with the split one in eleven.

    What is used has no unit, so that networks of any size are comparable: for each share its level and its change over
    the last doubling of the steps, for each norm the change of its logarithm over each of the last two doublings, for
    the log-probability both. Gradient boosting on these traits, fitted to 394 networks of eight families
    (docs/experiments/corpus.md) and calibrated on families left out, gives the probability; the range of the rise is
    that of moments with a similar probability. A training run that is further from the 25 most similar runs than most
    runs are from those of other families is not judged. No step and no setting is used.

    The words: below a training accuracy of 99 % a network is *still fitting*, or, if it had as much and has fallen by
    five points, it *no longer fits*. Otherwise it is *generalising* if a rise is more likely than not, *still changing*
    if its probability is above 5 % (3 % if a validation split is used), the highest of ten thresholds at which at most
    5 % of the corpus's training runs would have been stopped too early, and *at rest* below. The training data do not
    tell whether it is at rest because it is *stuck* or because it has *settled*, within ten points of its training
    accuracy: a validation split does. Where its accuracy and its log-probability were read over the last two doublings,
    a second model adds the level and the change of both. Whether accuracy has fallen, a small split does not tell,
    since the best of its values is the luckiest too: where the last was five points lower, accuracy on many unseen
    samples had fallen as far 6 times in 102. The evidence gives the split's best and its last.

    Source:
        gnomon's own; judged in docs/experiments/verdict.md, which says how often it is right, and when it is not.
    Args:
        steps: when the readings were taken, increasing; one per doubling or more, over two doublings or more.
        accuracy: on training data.
        log_probability: the mean log-probability of the labels of training data.
        parameter_norm: of all parameters.
        jacobian_norm: the mean over training samples.
        jacobian_alignment: the mean over training samples.
        centroid_alignment: the mean over training samples.
        explained_variance_ratio: the mean over training samples.
        validation_accuracy: on held-out samples, if there are any, and NaN where it was not read; it decides between
            settled and stuck, and without its log-probability `agrees` says whether it points the same way. It does not
            bound the rise, since such a split is small: of the corpus's 287 moments with more than 95 % on a tenth of
            the samples, 17 still rose by five points or more on the test samples.
        validation_log_probability: the mean log-probability of their labels. With both, read over two doublings too,
            the probability is from a model that uses them as well.
        validation_steps: when these were taken, if not at `steps`; increasing, the last the same.
    Returns:
        The verdict; "cannot tell" with too few readings, or if the training run is unlike the corpus. The same for all
        multiples of the steps, and of the norms as long as these are above 1e-9.
    Raises:
        ShapeError: if a quantity does not have as many values as there are steps.
        EmptyError: if there are no readings.
        RangeError: at NaN or infinity, if steps are negative or do not increase, or if a quantity has a value that it
            cannot have, such as an accuracy in per cent; if the validation split was not read at the last step.
    Cost: O(m) for the m = 5,000 moments of the corpus: a few milliseconds; the first call loads it.
    Example:
        >>> from gnomon import verdict
        >>> steps, norms, alignment = [1, 2, 4, 8, 16, 32], [20.0, 19.5, 19.0, 18.0, 17.0, 16.0], [0.1] * 6
        >>> found = verdict(steps, [0.95] * 6, [-0.5] * 6, norms, norms, alignment, alignment, [0.4] * 6)
        >>> found.says, len(found.similar)
        ('still fitting', 25)
    """
    given = {
        "accuracy": accuracy,
        "log_probability": log_probability,
        "parameter_norm": parameter_norm,
        "jacobian_norm": jacobian_norm,
        "jacobian_alignment": jacobian_alignment,
        "centroid_alignment": centroid_alignment,
        "explained_variance_ratio": explained_variance_ratio,
    }
    times, values = checked(steps, given)
    read_at, held_out = where_read(times, validation_accuracy, validation_log_probability, validation_steps)
    known, found = corpus(), traits(times, values)
    if found is None:
        return undecided(
            known,
            "Too few readings: two doublings of the steps are needed, and no two readings in them further apart than "
            "one doubling.",
        )
    row = known.alone.row(found)
    similar = known.similar(row)
    distance = float(np.mean([run.distance for run in similar]))
    if distance > known.limit:
        return undecided(known, unlike(known, row, distance), similar, distance)
    beside = traits(read_at, held_out) or {}
    both = all(math.isfinite(beside.get(name, math.nan)) for name in BESIDE)
    model = known.with_validation if both else known.alone
    row = model.row(found | beside)
    probability = model.probability(row)
    low, high, doublings = model.range(probability)
    expected = None if doublings is None else float(times[-1] * 2**doublings)
    says = state(model, values["accuracy"], probability, held_out.get("validation_accuracy"))
    agrees = None if both else agreement(beside, probability)
    return Verdict(
        says,
        probability,
        (low, high),
        expected,
        similar,
        distance,
        known.limit,
        agrees,
        says not in (FITTING, UNFITTED) and probability < model.stop,
        evidence(times, values, similar) + of_validation(read_at, held_out, both, agrees),
        counterfactual(model, row, probability),
        sentence(says, probability, low, high, expected),
    )


def checked(steps: Sequence[float | int] | Tensor, given: Mapping[str, Any]) -> tuple[Series, dict[str, Series]]:
    """The steps and what was read at them, as numbers that they can be."""
    at, *columns = series(steps, 1, **given)
    named = dict(zip(given, columns, strict=True))
    _checks.same_shape(steps=at, **named)
    if at[0] < 0:
        raise RangeError("steps", "numbers from 0 up", float(at[0]), "Count from the start of training.")
    for name, column in named.items():
        _checks.between(*BOUNDS[name], **{name: column})
    return at.numpy(), {name: column.numpy() for name, column in named.items()}


def where_read(
    steps: Series,
    validation_accuracy: Sequence[float | int] | Tensor | None,
    validation_log_probability: Sequence[float | int] | Tensor | None,
    validation_steps: Sequence[float | int] | Tensor | None,
) -> tuple[HeldOut, dict[str, HeldOut]]:
    """The steps at which the accuracy of a validation split was read, and what was read there; none without a split."""
    beside = {"validation_log_probability": validation_log_probability, "validation_steps": validation_steps}
    if validation_accuracy is None:
        if given := [name for name, values in beside.items() if values is not None]:
            raise RangeError(given[0], "a validation_accuracy with them", "none", "Pass it, or leave them out.")
        return np.empty(0), {}
    if validation_steps is not None:
        at, last = as_numbers("validation_steps", validation_steps), steps[-1]
        if at.ndim != 1 or len(at) == 0 or not (at.diff() > 0).all() or at[-1] != last:
            expected, advice = f"steps that increase up to {last:,.12g}", "Sort them, and end them with the last step."
            raise RangeError("validation_steps", expected, at.tolist(), advice)
        steps = at.numpy()
    found = {"validation_accuracy": held_out("validation_accuracy", validation_accuracy, steps)}
    if validation_log_probability is not None:
        name = "validation_log_probability"
        found[name] = held_out(name, validation_log_probability, steps)
    read = ~np.isnan(found["validation_accuracy"])
    if not read[-1]:
        raise RangeError("validation_accuracy", "a number at the last step", "NaN", "Leave the split out.")
    return steps[read], {name: values[read] for name, values in found.items()}


def held_out(name: str, values: Sequence[float | int] | Tensor, steps: Series) -> HeldOut:
    """What was read of a validation split, one number per step, as numbers that it can be."""
    found = as_numbers(name, values)
    if tuple(found.shape) != steps.shape:
        raise ShapeError(
            name,
            f"shape {steps.shape} as steps has",
            _checks.shape_of(found),
            "Pass one value per step, NaN where there is none.",
        )
    _checks.between(*BOUNDS[name], **{name: found})
    return found.numpy()


def agreement(beside: Mapping[str, float], probability: float) -> bool | None:
    """Whether a validation split points the same way; None if it was read too seldom, or there is none."""
    if (change := beside.get("validation_accuracy, change")) is None:
        return None
    return bool((change >= RISE - ROUNDING) == (probability >= LIKELY))


def undecided(known: Corpus, why: str, similar: tuple[SimilarRun, ...] = (), distance: float | None = None) -> Verdict:
    """The verdict where none can be given, and why."""
    return Verdict(
        "cannot tell", None, None, None, similar, distance, known.limit, None, False, why, "", f"Cannot tell. {why}"
    )


def state(model: Model, accuracy: Series, probability: float, held_out: HeldOut | None) -> str:
    """The state, in a word or a few."""
    if accuracy[-1] < FITS:
        best = accuracy.max()
        return UNFITTED if best >= FITS and best - accuracy[-1] >= RISE - ROUNDING else FITTING
    if probability >= LIKELY:
        return "generalising"
    if probability >= model.stop:
        return "fits its training data and is still changing"
    if held_out is None:
        return "fits and is at rest"
    return "settled" if accuracy[-1] - held_out[-1] <= CLOSED + ROUNDING else "fits and is stuck"
