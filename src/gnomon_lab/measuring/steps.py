"""The steps of several checkpoints: what all of them say of themselves, or their names, each another."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from gnomon.errors import CheckpointError
from gnomon_lab.measuring.about import Checkpoint
from gnomon_lab.measuring.checkpoint import read_weights
from gnomon_lab.measuring.filling import listed

Source = Literal["step", "epoch", "name", "order", "time"]
SAID: Mapping[Source, str] = {
    "step": "the step in the file",
    "epoch": "the epoch in the file",
    "name": "the number in the name",
    "order": "the place in the order of names",
    "time": "the place in the order in which they were written",
}
"""Where a step can be from, in words; the first three are looked at in this order."""
LASTING: frozenset[Source] = frozenset({"step", "epoch", "name"})
"""Those that say the same of a checkpoint whichever others there are."""
NAMED = r"(?i:step|iter|iteration)s?[=_-]?(\d+)"
"""How a step stands in a name that has other numbers too."""
NUMBER = r"(?<![\d.])\d+(?!\.?\d)"
"""One that is no fraction, such as an accuracy."""
LARGEST = 2**63
"""A longer number is no step."""


class Steps(NamedTuple):
    """Checkpoints by step, rising.

    Attributes:
        source: where the steps are from.
        by_step: the checkpoints.
        twice: those left out, as they hold the weights of another at the same step, with that.
    """

    source: Source
    by_step: dict[int, Checkpoint]
    twice: dict[Path, Path]


def by_step(checkpoints: Sequence[Checkpoint], asked: Source | None = None) -> Steps:
    """The checkpoints by the first of `SAID` that each has, and has to itself; or by what is asked for.

    Two with the same weights at one step, such as the last and the best, are one.

    Raises:
        CheckpointError: naming one that has no step, or two at the same.
    """
    tried: dict[Source, str] = {}
    for source in (asked,) if asked else ("step", "epoch", "name"):
        found = dict(zip(checkpoints, numbers(checkpoints, source), strict=True))
        steps = {one: step for one, step in found.items() if step is not None and step < LARGEST}
        if len(steps) < len(found):
            tried[source] = f"none in {listed([one.path.name for one in found if one not in steps])}"
            continue
        alone, twice, tie = parted(steps)
        if tie is None:
            return Steps(source, dict(sorted(alone.items())), twice)
        tried[source] = tie
    got = "; ".join(f"{SAID[source]}: {words}" for source, words in tried.items())
    raise CheckpointError(
        "checkpoint",
        "a step for each, and each another",
        got,
        "Name others, put the step into the names such as ckpt-500.pt, or pass --steps order or --steps time.",
    )


def parted(
    steps: Mapping[Checkpoint, int],
) -> tuple[dict[int, Checkpoint], dict[Path, Path], str | None]:
    """The checkpoints by step, those that are another's copy, and two that share a step and are not."""
    alone: dict[int, Checkpoint] = {}
    twice: dict[Path, Path] = {}
    for one, step in steps.items():
        other = alone.setdefault(step, one)
        if other is not one and not same(one.path, other.path):
            return alone, twice, f"{step} in both {other.path.name} and {one.path.name}"
        if other is not one:
            twice[one.path] = other.path
    return alone, twice, None


def numbers(checkpoints: Sequence[Checkpoint], source: Source) -> Sequence[int | None]:
    """The step of each, from one source."""
    paths = [one.path for one in checkpoints]
    kinds: dict[Source, Callable[[], Sequence[int | None]]] = {
        "step": lambda: [one.said.step for one in checkpoints],
        "epoch": lambda: [one.said.epoch for one in checkpoints],
        "name": lambda: in_names(paths),
        "order": lambda: range(len(paths)),
        "time": lambda: ranks([path.stat().st_mtime_ns for path in paths]),
    }
    return kinds[source]()


def in_names(paths: Sequence[Path]) -> list[int | None]:
    """What names say: the number after `step`, or else the last; of the path, the last part that has one.

    Only the parts behind what all paths share are looked at.
    """
    shared = Path(os.path.commonpath([path.absolute().parent for path in paths]))
    return [in_name(path.absolute().relative_to(shared)) for path in paths]


def in_name(path: Path) -> int | None:
    """The number in the last part of a path that has one."""
    for part in reversed(path.parts):
        if found := re.findall(NAMED, part) or re.findall(NUMBER, part):
            return int(found[-1])
    return None


def ranks(values: Sequence[int]) -> list[int | None]:
    """The place of each in rising order; equal ones share it."""
    places = {value: place for place, value in enumerate(sorted({*values}))}
    return [places[value] for value in values]


def same(one: Path, other: Path) -> bool:
    """Whether two checkpoints hold the same weights."""
    first, second = ([part.tensors for part in read_weights(path)] for path in (one, other))
    return len(first) == len(second) and all(
        a.keys() == b.keys() and all(a[name].dtype == b[name].dtype and torch.equal(a[name], b[name]) for name in a)
        for a, b in zip(first, second, strict=True)
    )
