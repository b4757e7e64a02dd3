"""What a verdict says and rests on, in sentences."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from gnomon.history._corpus import Corpus, SimilarRun
from gnomon.history._model import Model, Row
from gnomon.history._traits import Series, doubling_ago

FITTING, UNFITTED = "still fitting", "no longer fits its training data"
"""The states of a network that does not fit its training data: it never did, or it did and has fallen clearly."""
RESERVATIONS = {
    FITTING: " Before training data are fitted that is right on average in the corpus, and hardly tried in ordinary "
    "training.",
    UNFITTED: " The corpus has hardly any such networks.",
}
"""What is said of these states besides."""
USED = " The probability is from the validation split too."
WAYS = {None: "", True: " A validation split points the same way.", False: " A validation split points the other way."}
"""By whether a validation split that the probability is not from agrees: what is said of it."""
MOVED = {
    "training accuracy": ("accuracy", ".1%"),
    "log-probability": ("log_probability", ".3g"),
    "weight norm": ("parameter_norm", ".3g"),
    "Jacobian norm": ("jacobian_norm", ".3g"),
    "Jacobian alignment": ("jacobian_alignment", ".3g"),
}
"""What the evidence shows before and after the last doubling of the steps, by its words, and how it is written."""
LIKELY = 0.5
"""The probability from which something is predicted to happen."""


def sentence(says: str, probability: float, low: float, high: float, expected: float | None) -> str:
    """The verdict in a sentence, and by when, if a rise is likely."""
    by_then = ""
    if expected is not None and probability >= LIKELY:
        step = f"{expected:,.0f}" if expected >= 100 else f"{expected:.3g}"  # it may be counted in epochs
        by_then = f" Half of those that rise have done so by step {step}."
    return (
        f"{says[0].upper()}{says[1:]}: with four times the steps unseen accuracy rises by five points or more with a "
        f"probability of {probability:.0%} (nine of ten such runs change by {round(100 * low):+d} to "
        f"{round(100 * high):+d} points).{by_then}{RESERVATIONS.get(says, '')}"
    )


def evidence(steps: Series, values: Mapping[str, Series], similar: Sequence[SimilarRun]) -> str:
    """What can be checked: the readings, what the last doubling brought, and what became of similar runs."""
    moved = [
        f"{words} {doubling_ago(steps, values[name]):{form}} → {values[name][-1]:{form}}"
        for words, (name, form) in MOVED.items()
    ]
    rose = sum(run.rises for run in similar)
    return (
        f"In the last doubling of the steps, up to step {steps[-1]:,.12g}: {', '.join(moved)}; {rose} of the "
        f"{len(similar)} most similar runs rose by five points or more (the probability is not their share)."
    )


def of_validation(
    steps: Float[np.ndarray, "r"], held_out: Mapping[str, Float[np.ndarray, "r"]], used: bool, agrees: bool | None
) -> str:
    """The best accuracy of a validation split and its last, and whether it agrees with the probability."""
    if not held_out:
        return ""
    accuracy = held_out["validation_accuracy"]
    best = len(accuracy) - 1 - int(accuracy[::-1].argmax())
    now = "" if best == len(accuracy) - 1 else f" → {accuracy[-1]:.1%} at step {steps[-1]:,.12g}"
    way = USED if used else WAYS[agrees]
    return f" Validation accuracy {accuracy[best]:.1%} at step {steps[best]:,.12g} (its best){now}.{way}"


def counterfactual(model: Model, row: Row, probability: float) -> str:
    """What the verdict depends on most, and the probability without it."""
    name, instead = model.counterfactual(row)
    return (
        f"Most depends on {in_words(name)}: with the corpus's mean in its place the {probability:.0%} would be "
        f"{instead:.0%}."
    )


def unlike(known: Corpus, row: Row, distance: float) -> str:
    """Why a training run is not judged that is too far from the corpus."""
    return (
        f"The training is unlike the runs that gnomon knows: distance {distance:.2f}, above {known.limit:.2f}; "
        f"what is most unusual is {in_words(known.most_unusual(row))}."
    )


def in_words(trait: str) -> str:
    """A trait's name in words."""
    name, _, form = trait.partition(", ")
    words = name.replace("_", " ").replace("jacobian", "Jacobian").replace("parameter norm", "weight norm")
    words = words.replace("log probability", "log-probability")
    if form == "level":
        return f"the {words}"
    return f"the change of the {words} in the {'last doubling' if form == 'change' else 'doubling before the last'}"
