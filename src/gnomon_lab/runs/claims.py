"""What a paper says, what was measured, and whether it holds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """One claim, checked.

    Attributes:
        says: the claim in words.
        source: where it is made.
        expected: the paper's threshold or value, in words.
        measured: what the run measured, in words.
        holds: whether the measured meets the expected.
    """

    says: str
    source: str
    expected: str
    measured: str
    holds: bool
