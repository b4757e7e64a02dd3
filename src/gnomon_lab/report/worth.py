"""Whether more training is worth it, judged by readings, or why they do not allow a verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gnomon import History, Verdict
from gnomon.errors import RangeError
from gnomon.probe import from_records
from gnomon_lab.runs import Record, by_arm

QUESTION = "is more training worth it?"
CLASSIFIES = frozenset({"accuracy", "train/accuracy"})
"""What is read from a network that is trained to classify."""
UNREAD = "No verdict: the readings have no quantity of the name accuracy or train/accuracy."
NONE = "No verdict: there are no readings yet."


def worth(history: History, split: str = "train", validation: str = "validation") -> Verdict | str:
    """The verdict on a training run; if its readings lack what the verdict needs, a sentence that says so."""
    if not history.names:
        return NONE
    try:
        return history.verdict(split, validation)
    except RangeError as error:
        if error.argument != "split":
            return f"No verdict: {error.argument} needs {error.expected}, and has {error.got}. {error.advice}"
        all_names = error.got == ", ".join(history.quantities)  # which may be many, and say nothing about the cause
        instead = "" if all_names else f", and have {error.got}"
        return f"No verdict: the readings lack {error.expected}{instead}. {error.advice}"


def sentences(found: Verdict | str) -> list[str]:
    """The sentences to show, the verdict first."""
    if isinstance(found, str):
        return [found]
    beside = (found.evidence, found.counterfactual)
    return [found.message, *(sentence for sentence in beside if sentence and sentence not in found.message)]


def as_numbers(found: Verdict | str) -> dict[str, Any]:
    """The verdict as values that JSON can hold, without the similar runs."""
    if isinstance(found, str):
        return {"says": None, "message": found}
    return {name: value for name, value in asdict(found).items() if name != "similar"}


def by_arms(records: Sequence[Record]) -> dict[str, Verdict | str]:
    """The verdict on each arm of a run that classifies; if none does, as in solved models, a sentence that says so."""
    trained = {arm: own for arm, own in by_arm(records).items() if any(CLASSIFIES & one.keys() for one in own)}
    return {arm: worth(from_records(own)) for arm, own in trained.items()} or {"": UNREAD}


def once(verdicts: Mapping[str, Verdict | str]) -> Mapping[str, Verdict | str]:
    """The same; if there is no verdict at all, the reasons, once for all of them and under an empty name."""
    if any(isinstance(found, Verdict) for found in verdicts.values()):
        return verdicts
    return {"": " ".join(dict.fromkeys(map(str, verdicts.values())))} if verdicts else {}


def in_sight(verdicts: Mapping[str, Verdict | str]) -> dict[str, str]:
    """What a page says, by name; empty if no verdict has a probability."""
    answered = any(isinstance(found, Verdict) and found.probability is not None for found in verdicts.values())
    return {name: " ".join(sentences(found)) for name, found in verdicts.items()} if answered else {}


def in_details(verdicts: Mapping[str, Verdict | str]) -> dict[str, object]:
    """What a page's details say, with a probability or without."""
    texts = {name: " ".join(sentences(found)) for name, found in once(verdicts).items()}
    return {QUESTION: texts.get("", texts)} if texts else {}
