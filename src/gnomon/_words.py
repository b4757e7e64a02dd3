"""Numbers and names, as people write them."""

import math
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher

LEAST = 4
"""From so many characters on, what names share is shortened."""


def number(value: float, gap: float = 0.0) -> str:
    """Three digits or four; more where a value below 1 would read 1, or where one by `gap` larger would read the same.

    The digits beyond the sixth of a value below 1 may be rounding: these do not tell it from 1.
    """
    if math.isnan(value):
        return "–"
    digits = 3
    if 0 < abs(value) < 1:
        digits = next((n for n in (3, 4, 5, 6) if abs(float(f"{value:.{n}g}")) < 1), 3)
    if value and 0 < gap < math.inf:
        digits = max(digits, 3 + math.floor(math.log10(abs(value) / gap)))
    words = f"{value + 0.0:,.{digits}g}"  # without the sign of a zero
    return f"{value:,.0f}" if "e" in words and abs(value) > 999 and abs(round(value)) < 1e6 else words


def counted(count: int, what: str) -> str:
    """How many there are of what is named in the singular."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def shortened(name: str, length: int) -> str:
    """The name; of one that has more characters than this its beginning and its end."""
    half = max(1, (length - 1) // 2)
    return name if len(name) <= max(length, 3) else f"{name[:half]}…{name[-half:]}"


def apart(names: Sequence[str], length: int) -> list[str]:
    """Different names, those with more characters than this shortened in their middle, and still different.

    Names that this would make the same are shortened in what they share; where that leaves too much, all are numbered.
    """
    short = {name: shortened(name, length) for name in names}
    for cut, count in Counter(short.values()).items():
        if count > 1:
            alike = [name for name in names if short[name] == cut]
            short |= zip(alike, _where_alike(alike, length), strict=True)
    if len({*short.values()}) < len(short):
        return [f"{place} {shortened(name, length - len(str(place)) - 1)}" for place, name in enumerate(names, 1)]
    return [*short.values()]


def _where_alike(names: Sequence[str], length: int) -> list[str]:
    """The names, with what they share as short as this length requires, or all shortened in their middle."""
    shared = names[0]
    for name in names[1:]:
        blocks = SequenceMatcher(None, shared, name, autojunk=False).get_matching_blocks()
        shared = "\0".join(shared[block.a : block.a + block.size] for block in blocks if block.size >= LEAST)
    parts = [part for part in shared.split("\0") if part]
    for most in range(length, LEAST - 2, -1):
        short = [_replaced(name, parts, most) for name in names]
        if max(map(len, short)) <= length:
            return short
    return [shortened(name, length) for name in names]


def _replaced(name: str, parts: Sequence[str], length: int) -> str:
    """The name with these of its parts, in their order, shortened."""
    short = ""
    for part in parts:
        before, _, name = name.partition(part)
        short += before + shortened(part, length)
    return short + name
