"""The page: what each training run came to know, and what became of it after each moment when the verdict was asked."""

from collections.abc import Sequence

from gnomon import Verdict
from gnomon.history import RISE, ROUNDING
from gnomon.probe import from_records
from gnomon_lab.figures import Figure
from gnomon_lab.papers._shared import SEEN, UNSEEN, accuracy_curves
from gnomon_lab.runs import Cells, Claim, Record, Seeds, by_arm

MOMENTS = (32, 16, 8, 4)
"""The verdict is asked when a training run has done one in this many of its steps."""
VALIDATION = "validation"
"""The split of held-out samples."""
SPLITS = (None, VALIDATION)
"""The verdict is asked from training data alone, and with the validation split."""


def moments(records: Sequence[Record]) -> list[tuple[int, int]]:
    """The indices of the readings at which it is asked, each with the reading at four times as many steps."""
    steps = [record["step"] for record in records]
    return [(steps.index(steps[-1] // part), steps.index(4 * steps[-1] // part)) for part in MOMENTS]


def table(records: Sequence[Record]) -> Cells:
    """What the verdict said at each of the moments, and what became of each training run after it."""
    columns = (
        "", "at step", "training", "unseen", "verdict", "rise by 5 points", "range",
        "verdict with validation", "rise by 5 points", "range", "rise that came",
    )  # fmt: skip
    return columns, [
        (name, f"{read[now]['step']:,}", *known(read, now, then))
        for name, read in by_arm(records).items()
        for now, then in moments(read)
    ]


def known(records: Sequence[Record], now: int, then: int) -> tuple[str, ...]:
    """Accuracies at a reading, what was predicted then without and with the validation split, and the rise after it."""
    seen, unseen = records[now][SEEN], records[now][UNSEEN]
    predicted = [cell for split in SPLITS for cell in said(verdict_at(records[: now + 1], split))]
    return f"{seen:.1%}", f"{unseen:.1%}", *predicted, f"{100 * rise_after(records, now, then):+.1f} points"


def said(found: Verdict) -> tuple[str, str, str]:
    """A verdict in three cells: in words, the probability and the range."""
    if found.probability is None or found.rise is None:
        return found.says, "", ""
    return found.says, f"{found.probability:.0%}", span(found.rise)


def verdict_at(records: Sequence[Record], validation: str | None) -> Verdict:
    """The verdict on readings of training data, also of a validation split if one is named."""
    return from_records(records).verdict(validation=validation)


def rise_after(records: Sequence[Record], now: int, then: int) -> float:
    """By how much the accuracy on unseen samples rose from one reading to another, as a share."""
    return records[then][UNSEEN] - records[now][UNSEEN]


def span(rise: tuple[float, float]) -> str:
    """A range in points."""
    return f"{round(100 * rise[0]):+d} to {round(100 * rise[1]):+d}"


def summary(records: Sequence[Record]) -> str:
    """How often the verdict was right, from training data and with the validation split."""
    return f"From training data, {score(records, None)} With a validation split, {score(records, VALIDATION)}"


def score(records: Sequence[Record], validation: str | None) -> str:
    """How often it answered and was right, in a sentence."""
    asked = [
        (verdict_at(read[: now + 1], validation), rise_after(read, now, then))
        for read in by_arm(records).values()
        for now, then in moments(read)
    ]
    answered = [
        (found.probability, found.rise, rise)
        for found, rise in asked
        if found.probability is not None and found.rise is not None
    ]
    right = sum((probability >= 0.5) == (rise >= 0.05) for probability, _, rise in answered)
    held = sum(low <= rise <= high for _, (low, high), rise in answered)
    gains = [gain for read in by_arm(records).values() if (gain := gained_after_stop(read, validation)) is not None]
    return (
        f"the verdict answered {len(answered)} of {len(asked)} times, and was right about a rise by five points "
        f"{right} times; the range held {held} times. Asked at every reading, it stops {len(gains)} of "
        f"{len(by_arm(records))} training runs, {sum(gain >= RISE - ROUNDING for gain in gains)} of them too early."
    )


def gained_after_stop(records: Sequence[Record], validation: str | None) -> float | None:
    """By how much the best accuracy on unseen samples is higher after the stopping rule; None if it does not stop."""
    unseen = [record[UNSEEN] for record in records]
    stops = (now for now in range(len(records)) if verdict_at(records[: now + 1], validation).reached)
    return next((max(unseen[now:]) - unseen[now] for now in stops), None)


def figures(records: Sequence[Record]) -> list[Figure]:
    """The accuracies of all training runs."""
    return [accuracy_curves(records, "The accuracy of each network on 256 training samples, and on 2,000 unseen ones.")]


def claims(seeds: Seeds) -> list[Claim]:
    """None: the outcomes are shown."""
    return []
