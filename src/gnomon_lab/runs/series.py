"""Reading records: the series of one arm, its end, and the step from which on a value stays."""

from collections.abc import Sequence

from gnomon.errors import EmptyError
from gnomon_lab.runs.records import Record


def series(records: Sequence[Record], arm: str, name: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The steps at which `name` was recorded in this arm, and its values."""
    chosen = [record for record in records if record["arm"] == arm and name in record]
    return tuple(float(record["step"]) for record in chosen), tuple(float(record[name]) for record in chosen)


def last(records: Sequence[Record], arm: str) -> Record:
    """The last record of an arm.

    Raises:
        EmptyError: if there is none.
    """
    for record in reversed(records):
        if record["arm"] == arm:
            return record
    raise EmptyError("records", f"records of {arm!r}", "none", "Run the experiment to its end first.", where="last")


def by_arm(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The records of each arm, in the order in which the arms ran."""
    arms: dict[str, list[Record]] = {}
    for record in records:
        arms.setdefault(record["arm"], []).append(record)
    return arms


def settled_at(records: Sequence[Record], arm: str, name: str, least: float) -> int | None:
    """The first recorded step from which on `name` stays at `least` or above; None if it does not end there."""
    settled = None
    for step, value in reversed(list(zip(*series(records, arm, name), strict=True))):
        if value < least:
            break
        settled = int(step)
    return settled


def seconds_of(records: Sequence[Record]) -> float:
    """The wall time that the records account for, spent on training and on reading."""
    ends = {record["arm"]: record["seconds"] for record in records}
    return sum(end["trained"] + end["read"] for end in ends.values())
