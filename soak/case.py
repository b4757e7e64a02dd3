"""A case: one thing that was done to gnomon, and how it took it."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol

FAULTS = ("lost", "wrong", "raw", "hung")
"""Results that did not come back; results that are not right; a traceback or a death; no end."""


STRIDE = 7919


@dataclass(frozen=True)
class Case:
    """What was done, and the verdict: one of FAULTS with what was seen, or none of them."""

    did: str
    verdict: str = ""
    saw: str = ""
    tries: int = 1
    kills: int = 0
    """How many processes were alive and were killed."""


class Kind(Protocol):
    """Cases of one kind. A case stands on its number and the chance made from it, and on nothing before it."""

    name: str
    share: float
    """Of the time."""
    unit: int
    """Cases to make in one go, some seconds' worth."""
    limit: float
    """Seconds after which a case hangs."""

    def prepare(self, folder: Path) -> None:
        """Once, before all cases: what they are held against, in a folder of its own."""
        ...

    def case(self, chance: Random, number: int, folder: Path) -> Case:
        """Makes one case in an empty folder, which is the current one."""
        ...


def tried(kind: Kind, seed: int, number: int, folder: Path) -> Case:
    """One case; what it raises is the fault of whatever was tried, or of the kind itself.

    What a kind goes through in order, such as file operations, it begins elsewhere with another seed.
    """
    try:
        return kind.case(chance(kind, seed, number), number + STRIDE * seed, folder)
    except Exception:  # noqa: BLE001 - it is what the case shows
        return Case("the case itself", "raw", traceback.format_exc())


def chance(kind: Kind, seed: int, number: int) -> Random:
    """The chance that a case is drawn from."""
    return Random(f"{seed} {kind.name} {number}")


Do = Callable[[], object]
