"""The rows of a history, in which a name that comes again replaces what was read of it, and of nothing else."""

from bisect import bisect_left

from gnomon._parts import replaced
from gnomon.probe._rows import Row, merged, without


class MergedRows:
    """One row per step, with what all readings of that step have left there.

    Attributes:
        rows: by increasing step.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._last: dict[str, int] = {}  # by name, a step after which there is none of it

    def add(self, row: Row) -> list[str]:
        """Adds a row, and returns the names of which it replaces something."""
        gone = self._forget(row)
        place = self._place(row.step)
        if place < len(self.rows) and self.rows[place].step == row.step:
            self.rows[place] = merged(self.rows[place], row)
        else:
            self.rows.insert(place, row)
        self._last |= dict.fromkeys(row.numbers, row.step)
        return gone

    def _forget(self, row: Row) -> list[str]:
        """Takes out what this row replaces, in the order of its names."""
        if not self.rows or self.rows[-1].step < row.step:
            return []
        later = [name for name, last in self._last.items() if last >= row.step]
        again = replaced(later, row.numbers)
        if again:
            place = self._place(row.step)
            rest = [each if again.isdisjoint(each.numbers) else without(each, again) for each in self.rows[place:]]
            self.rows[place:] = [each for each in rest if each is not None]
            self._last |= dict.fromkeys(again, row.step - 1)
        return [name for name in later if name in again]

    def _place(self, step: int) -> int:
        """Where a row of this step is, or would be."""
        return bisect_left(self.rows, step, key=lambda row: row.step)
