"""Numbers and names, as people write them."""

import math


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


def shortened(name: str, length: int) -> str:
    """The name; of one that has more characters than this its beginning and its end."""
    half = max(1, (length - 1) // 2)
    return name if len(name) <= max(length, 3) else f"{name[:half]}…{name[-half:]}"
