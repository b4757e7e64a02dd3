"""What became of a network: when it fitted its training data, and what it came to know about unseen data after that."""

from collections.abc import Sequence
from dataclasses import dataclass

from gnomon_lab.papers._shared import SEEN, UNSEEN
from gnomon_lab.runs import Record

FITS = 0.99
"""The training accuracy from which on a network counts as fitting its training data."""
RISE = 0.1
"""By how much unseen accuracy has to rise until the end for a network to generalise from some moment on."""


def rises(by: float, least: float = RISE) -> bool:
    """Whether a difference of two accuracies is at least this large; they are kept to seven digits."""
    return by >= least - 1e-6


@dataclass(frozen=True)
class Outcome:
    """What became of one network.

    Attributes:
        fits: the first step that was read with the training data fitted; None if there is none.
        then: the unseen accuracy there, or at the start.
        end: the unseen accuracy at the end; for a network that diverged, the last that it had.
        diverged: whether it did.
    """

    fits: int | None
    then: float
    end: float
    diverged: bool

    @property
    def in_words(self) -> str:
        """One of five outcomes."""
        if self.diverged:
            return "diverged"
        if self.fits is None:
            return "did not fit"
        rise = self.end - self.then
        return "generalised late" if rises(rise) else "lost" if rises(-rise) else "stayed"


def outcome(records: Sequence[Record]) -> Outcome:
    """The outcome of the records of one network."""
    read = [record for record in records if record.get(UNSEEN) is not None]
    fitting = [record for record in read if (record.get(SEEN) or 0) >= FITS]
    first = fitting[0] if fitting else None
    return Outcome(
        None if first is None else first["step"],
        (first or read[0])[UNSEEN],
        read[-1][UNSEEN],
        any("diverged" in record for record in records) or records[-1].get(UNSEEN) is None,
    )
