"""Rows that use results for all samples: from a second pass, if what they use does not fit."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from gnomon._budget import budget_of
from gnomon.probe._levels import Level, one_row_per_sample, with_rows
from gnomon.probe._plan import Plan
from gnomon.probe._process_state import process_state
from gnomon.probe._samples import Samples


class SecondPass:
    """The quantities with one row per sample that also use results for all samples, such as class moments.

    What they use of each sample is held during the first pass as long as it fits the memory, and computed again in a
    second pass if it does not.

    Args:
        plan: what is computed in all.
        levels: how many samples each needs at once.
        memory: bytes that may be held.

    Attributes:
        names: the names of these quantities.
        due: whether a second pass is needed.
    """

    def __init__(self, plan: Plan, levels: Mapping[str, Level], memory: int | None) -> None:
        self._plan = plan
        self._room = budget_of(memory)
        self.names = {
            name
            for name, quantity in plan.quantities.items()
            if levels[name] is Level.ALL and one_row_per_sample(quantity)
        }
        self._with_rows = with_rows(plan, levels) | self.names
        self._streams: list[Callable[[], object]] = []
        self.due = False

    def __contains__(self, name: str) -> bool:
        return self.due and name in self.names

    def begin(self, samples: Samples) -> None:
        """Notes the random numbers that quantities will draw; samples draw their own again by themselves."""
        if self.names and not samples.tensors:
            self._streams = process_state(set())

    def begin_again(self) -> None:
        """Restores the random numbers to that state."""
        for put_back in self._streams:
            put_back()

    def take(self, rows: Mapping[str, Any], n: int, others: set[str]) -> set[str]:
        """What not to hold of n more rows, since it does not fit; `others` is what is held for other quantities."""
        looked_at = {key for name in self.names for key in self._plan.arguments[name].values()}
        mine = {name for name, value in rows.items() if isinstance(value, Tensor)} & looked_at
        mine -= others | {*self._plan.reported}
        self._room -= n * sum(rows[key][0].nbytes for key in mine)
        self.due = self.due or self._room < 0
        return mine if self.due else set()

    def plan(self, known: Mapping[str, object], missing: Mapping[str, str]) -> Plan:
        """What is computed in the second pass: all quantities whose other arguments are known by now."""
        chosen: list[str] = []
        for name in self._plan.quantities:
            rest = set(self._plan.arguments[name].values()) - self._with_rows
            if name in self._with_rows and not missing.keys() & {name, *rest} and rest <= known.keys():
                chosen.append(name)
        asked = [name for name in chosen if name in self.names]
        needed = {*asked}
        for name in reversed(chosen):
            if name in needed:
                needed |= set(self._plan.arguments[name].values())
        return replace(
            self._plan,
            quantities={name: self._plan.quantities[name] for name in chosen if name in needed},
            arguments={name: self._plan.arguments[name] for name in chosen if name in needed},
            observations=self._plan.observations & needed,
            features={name: layer for name, layer in self._plan.features.items() if name in needed},
            reported=tuple(asked),
        )

    def without_rows(self, known: Mapping[str, object]) -> dict[str, object]:
        """What is known that has no row for each sample."""
        return {name: value for name, value in known.items() if name not in self._with_rows}
