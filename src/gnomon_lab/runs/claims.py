"""What a paper says, what was measured, and whether it holds."""

from collections.abc import Sequence
from dataclasses import dataclass

from gnomon._words import counted


@dataclass(frozen=True)
class Claim:
    """One claim, checked.

    Attributes:
        message: the claim in words.
        source: where it is made.
        expected: the paper's threshold or value, in words.
        measured: what the run measured, in words.
        holds: whether what was measured meets what was expected.
    """

    message: str
    source: str
    expected: str
    measured: str
    holds: bool


def reproduced(claims: Sequence[Claim]) -> str:
    """How many of the claims hold, in words."""
    good = sum(claim.holds for claim in claims)
    return f"{good} of {counted(len(claims), 'claim')} reproduced"


def at_most(message: str, source: str, limit: float, values: Sequence[float]) -> Claim:
    """The claim that a value is at most the limit in every seed."""
    worst = max(values)
    holds = worst <= limit
    digits = next(n for n in range(3, 18) if (float(f"{worst:.{n}g}") <= limit) == holds)  # that show whether it does
    return Claim(message, source, f"at most {limit:g}", over_seeds(values, f".{digits}g"), holds)


def over_seeds(values: Sequence[float], how: str = ".3g") -> str:
    """What was measured, in words: the value, or the lowest and the highest of several seeds."""
    low, high = (_without_minus_zero(format(value, how)) for value in (min(values), max(values)))
    if len(values) == 1:
        return low
    return f"{low} in each of {len(values)} seeds" if low == high else f"{low} to {high} over {len(values)} seeds"


def _without_minus_zero(number: str) -> str:
    """A number in words; a zero, such as -0.00%, without its sign."""
    return number if number.strip("-0.%") else number.lstrip("-")
