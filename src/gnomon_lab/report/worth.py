"""Whether more training is worth it, said of readings, or why that cannot be said of them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gnomon import History, Verdict
from gnomon.errors import RangeError
from gnomon.probe import from_records
from gnomon_lab.runs import Record, by_arm

QUESTION = "is more training worth it?"
CLASSIFIES = frozenset({"accuracy", "train/accuracy"})
"""What is read of a network that is trained to classify."""
UNREAD = "No verdict: no accuracy on training samples was read."


def worth(history: History, split: str = "train", validation: str = "validation") -> Verdict | str:
    """The verdict on a training; where its readings lack what it looks at, that in a sentence."""
    try:
        return history.verdict(split, validation)
    except RangeError as error:
        return f"No verdict: the readings lack {error.expected}."


def sentences(found: Verdict | str) -> list[str]:
    """What is said, the verdict first."""
    if isinstance(found, str):
        return [found]
    beside = (found.evidence, found.mind)
    return [found.message, *(sentence for sentence in beside if sentence and sentence not in found.message)]


def as_numbers(found: Verdict | str) -> dict[str, Any]:
    """The same as what JSON can hold, without the similar runs."""
    if isinstance(found, str):
        return {"says": None, "message": found}
    return {name: value for name, value in asdict(found).items() if name != "similar"}


def by_arms(records: Sequence[Record]) -> dict[str, Verdict | str]:
    """What is said of each arm of a run that classifies; where none does, such as in solved models, that."""
    trained = {arm: own for arm, own in by_arm(records).items() if any(CLASSIFIES & one.keys() for one in own)}
    return {arm: worth(from_records(own)) for arm, own in trained.items()} or {"": UNREAD}


def once(told: Mapping[str, Verdict | str]) -> Mapping[str, Verdict | str]:
    """The same; where there is no verdict at all, why, once for all of them and under no name."""
    if any(isinstance(found, Verdict) for found in told.values()):
        return told
    return {"": " ".join(dict.fromkeys(map(str, told.values())))} if told else {}


def in_sight(told: Mapping[str, Verdict | str]) -> dict[str, str]:
    """By name what a page says, where there is a probability among it."""
    answered = any(isinstance(found, Verdict) and found.probability is not None for found in told.values())
    return {name: " ".join(sentences(found)) for name, found in told.items()} if answered else {}


def in_details(told: Mapping[str, Verdict | str]) -> dict[str, object]:
    """The same as a page's details have it, with a probability or without."""
    said = {name: " ".join(sentences(found)) for name, found in once(told).items()}
    return {QUESTION: said.get("", said)} if said else {}
