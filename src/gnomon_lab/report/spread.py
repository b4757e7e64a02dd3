"""Tables of several seeds as one: the mean of each cell, and its lowest and highest."""

import re
from collections import Counter
from collections.abc import Sequence

Rows = Sequence[Sequence[str]]

SIGN = r"(?:(?<![\w%])[-+\N{MINUS SIGN}])?"
"""A sign; after a digit, a letter or a percent sign it is a dash."""
NUMBER = re.compile(SIGN + r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:e[-+]?\d+)?")


def spread(tables: Sequence[tuple[Sequence[str], Rows]]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The table over all seeds, rows and columns matched by their names, and by their order where several share one.

    A row that only some seeds have says so in its name, and a cell that only some of a row's seeds have in the cell.

    Args:
        tables: for each seed the columns and the rows, whose first cells are their names.

    Returns:
        The columns and the rows.
    """
    columns = [*dict.fromkeys(column for heads, _ in tables for column in _numbered(heads))]
    same: dict[tuple[str, int], list[dict[tuple[str, int], str]]] = {}
    for heads, rows in tables:
        for row, cells in zip(_numbered([name for name, *_ in rows]), rows, strict=True):
            same.setdefault(row, []).append(dict(zip(_numbered(heads), cells, strict=True)))
    return tuple(head for head, _ in columns), tuple(
        (
            name if len(found) == len(tables) else f"{name}, in {len(found)} of {len(tables)} seeds",
            *(over([row[column] for row in found if column in row], len(found)) for column in columns[1:]),
        )
        for (name, _), found in same.items()
    )


def _numbered(names: Sequence[str]) -> list[tuple[str, int]]:
    """Each name with how often it came before."""
    before = Counter[str]()
    numbered = []
    for name in names:
        numbered.append((name, before[name]))
        before[name] += 1
    return numbered


def over(cells: Sequence[str], seeds: int) -> str:
    """One cell from those of so many seeds: `0.52 (0.50 to 0.55)`.

    If the words differ, or some seeds have no cell, how many seeds have which.
    """
    kinds: dict[str, list[str]] = {}
    for cell in cells:
        kinds.setdefault(NUMBER.sub("#", cell), []).append(cell)
    if len(kinds) == 1 and len(cells) == seeds:
        return _of_a_kind(cells)
    return "; ".join(f"{_of_a_kind(same)} in {len(same)} of {seeds}" for same in kinds.values())


def _of_a_kind(cells: Sequence[str]) -> str:
    """Cells that differ only in their numbers: each number as its mean, lowest and highest."""
    if len({*cells}) == 1:
        return cells[0]
    words = NUMBER.split(cells[0])
    columns = zip(*(NUMBER.findall(cell) for cell in cells), strict=True)
    text = words[0]
    for numbers, word in zip(columns, words[1:], strict=True):
        unit = "%" if word.startswith("%") else ""
        text += _numbers(numbers, unit) + word.removeprefix(unit)
    return text


def _numbers(numbers: Sequence[str], unit: str) -> str:
    """The mean with as many decimals as the numbers have, the lowest and the highest as they were given.

    A mean of integers has one decimal unless it is an integer.
    """
    values = {_value(number): number for number in numbers}
    low, high = values[min(values)], values[max(values)]
    if low == high:
        return low + unit
    mean = sum(map(_value, numbers)) / len(numbers)
    decimals = max(len(number.partition(".")[2]) for number in numbers) or int(not mean.is_integer())
    separator = "," if any("," in number for number in numbers) else ""
    if any("e" in number for number in numbers):
        decimals = max(len(number.partition("e")[0].partition(".")[2]) for number in numbers)
        how = f".{decimals}e"
    else:
        how = f"{separator}.{decimals}f"
    return f"{_plain(f'{mean:{how}}')}{unit} ({low}{unit} to {high}{unit})"


def _plain(number: str) -> str:
    """Zero has no sign."""
    return number.lstrip("-") if _value(number) == 0 else number


def _value(number: str) -> float:
    return float(number.replace(",", "").replace("\N{MINUS SIGN}", "-"))
