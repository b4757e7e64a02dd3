"""What a verdict says and rests on, in sentences."""

from collections.abc import Mapping, Sequence

from gnomon.history._corpus import Corpus, SimilarRun
from gnomon.history._model import Model, Row
from gnomon.history._traits import Series

UNFITTED = (
    " Before training data are fitted that is right on average in the corpus, and hardly tried in ordinary training."
)
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
        f"{round(100 * high):+d} points).{by_then}{UNFITTED * (says == 'still fitting')}"
    )


def evidence(
    steps: Series, values: Mapping[str, Series], found: Mapping[str, float], similar: Sequence[SimilarRun]
) -> str:
    """What can be checked: the readings, what the last doubling brought, and what became of similar runs."""
    now = {name: float(series[-1]) for name, series in values.items()}
    norms = (("weight norm", "parameter_norm"), ("Jacobian norm", "jacobian_norm"))
    moved = [f"{words} {now[name] / 2 ** found[f'{name}, change']:.3g} → {now[name]:.3g}" for words, name in norms]
    aligned = now["jacobian_alignment"]
    moved.append(f"Jacobian alignment {aligned - found['jacobian_alignment, change']:.2f} → {aligned:.2f}")
    rose = sum(run.rises for run in similar)
    return (
        f"At step {steps[-1]:,.12g} training accuracy {now['accuracy']:.1%}, log-probability "
        f"{now['log_probability']:.2g}; in the last doubling of the steps {', '.join(moved)}; {rose} of the "
        f"{len(similar)} most similar runs rose by five points or more (the probability is not their share)."
    )


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
