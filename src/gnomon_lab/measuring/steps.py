"""The steps of several checkpoints, all different: as all of them, or their names, say."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from gnomon.autodiff import same as equal
from gnomon.errors import CheckpointError
from gnomon_lab.measuring.about import Checkpoint
from gnomon_lab.measuring.checkpoint import read_weights
from gnomon_lab.measuring.filling import listed
from gnomon_lab.measuring.found import natural

Source = Literal["step", "epoch", "name", "order", "time"]
SOURCES: Mapping[Source, str] = {
    "step": "the step in the file",
    "epoch": "the epoch in the file",
    "name": "the number in the name",
    "order": "the place in the order of names",
    "time": "the place in the order in which they were written",
}
"""Where a step can come from, in words; the first three are tried in this order."""
LASTING: frozenset[Source] = frozenset({"step", "epoch", "name"})
"""The sources that give a checkpoint the same step whichever others there are."""
FACTORS = {"k": 10**3, "K": 10**3, "m": 10**6, "M": 10**6, "B": 10**9}
"""What a letter after a number stands for, unless another letter follows that does not begin `step` or `iter`."""
ROUND = rf"\d+(?:\.\d+)?(?:[{''.join(FACTORS)}]|[eE][+-]?0*\d{{1,2}})(?=(?i:step|iter)|[^A-Za-z\d]|$)"
"""A number with such a letter, such as 500k or 1.5M, or with a power of ten, such as 1e5; 7e845201 is of a hash."""
STEP = rf"(?i:step|iter|iteration)s?[=_-]?({ROUND}|\d+)"
"""How a step is written in a name that has other numbers too."""
EPOCH = rf"(?i:epoch)s?[=_-]?({ROUND}|\d+(?!\.?\d))"
"""How an epoch is, as a whole number."""
NUMBER = rf"(?<![\d.])(?:{ROUND}|\d+(?!\.?\d))"
"""A number that is not a fraction, as an accuracy would be."""
LARGEST = 2**63
"""Steps are below this number."""


class Steps(NamedTuple):
    """Checkpoints by ascending step.

    Attributes:
        source: where the steps come from.
        by_step: the checkpoints.
        twice: those left out because they hold the same weights as another at the same step, each with that other.
        damaged: those left out because they share a step with another and cannot be read, each with what is wrong.
    """

    source: Source
    by_step: dict[int, Checkpoint]
    twice: dict[Path, Path]
    damaged: dict[Path, CheckpointError]


def by_step(checkpoints: Sequence[Checkpoint], asked: Source | None = None, *, judged: bool = False) -> Steps:
    """The checkpoints by the first of `SOURCES` that gives each a step of its own; or by the requested source.

    Two with the same weights at one step, such as the last and the best, count as one.

    Args:
        checkpoints: what was found.
        asked: the requested source.
        judged: whether they are for a verdict, which needs several, and steps of training.

    Raises:
        CheckpointError: naming one that has no step, or two at the same step.
    """
    tried: dict[Source, str] = {}
    for source in (asked,) if asked else ("step", "epoch", "name"):
        found = dict(zip(checkpoints, numbers(checkpoints, source), strict=True))
        steps = {one: step for one, step in found.items() if step is not None and step < LARGEST}
        if len(steps) < len(found):
            tried[source] = f"none in {listed([one.path.name for one in found if one not in steps])}"
            continue
        found_at, tie = parted(source, steps)
        if tie is None:
            return found_at
        tried[source] = tie
    got = "; ".join(f"{SOURCES[source]}: {words}" for source, words in tried.items())
    if judged and len(checkpoints) == 1:
        advice = "Name checkpoints over two doublings of the steps, at least one in each: a verdict needs them."
    elif judged:
        advice = "Name others, or put the step into the names such as ckpt-500.pt."
    else:
        advice = "Name others, put the step into the names such as ckpt-500.pt, or pass --steps order or --steps time."
    raise CheckpointError("checkpoint", "a step for each, and each another", got, advice)


def parted(source: Source, steps: Mapping[Checkpoint, int]) -> tuple[Steps, str | None]:
    """The checkpoints by step, copies and damaged ones apart; and two that share a step without being copies."""
    alone: dict[int, Checkpoint] = {}
    parts = Steps(source, alone, {}, {})
    for one, step in sorted(steps.items(), key=lambda pair: pair[1]):
        other = alone.setdefault(step, one)
        if other is one:
            continue
        first, second = (weights(each.path, parts.damaged) for each in (other, one))
        if first is None:
            alone[step] = one
        elif second is not None and same(first, second):
            parts.twice[one.path] = other.path
        elif second is not None:
            return parts, f"{step} in both {other.path.name} and {one.path.name}"
    return parts, None


def weights(path: Path, damaged: dict[Path, CheckpointError]) -> list[Mapping[str, Tensor]] | None:
    """The tensors of a checkpoint; None if it cannot be read, and then what is wrong is added to `damaged`."""
    try:
        return [part.tensors for part in read_weights(path)]
    except CheckpointError as error:
        damaged[path] = error
        return None


def numbers(checkpoints: Sequence[Checkpoint], source: Source) -> Sequence[int | None]:
    """The step of each checkpoint, from one source."""
    paths = [one.path for one in checkpoints]
    kinds: dict[Source, Callable[[], Sequence[int | None]]] = {
        "step": lambda: [one.metadata.step for one in checkpoints],
        "epoch": lambda: [one.metadata.epoch for one in checkpoints],
        "name": lambda: in_names(paths),
        "order": lambda: list(map(sorted(paths, key=natural).index, paths)),
        "time": lambda: ranks([path.stat().st_mtime_ns for path in paths]),
    }
    return kinds[source]()


def in_names(paths: Sequence[Path]) -> list[int | None]:
    """The steps in names: the number after `step`, else the one after `epoch`, else the last.

    It is that of the last part of a path that has one, of the parts after those that all paths share. Epochs that tell
    fewer apart than the last numbers do, as of checkpoints within one epoch, are no steps.
    """
    shared = Path(os.path.commonpath([path.absolute().parent for path in paths]))
    parts = [path.absolute().relative_to(shared) for path in paths]
    ways = ([in_name(path, *patterns) for path in parts] for patterns in ((STEP, EPOCH, NUMBER), (STEP, NUMBER)))
    return max(ways, key=lambda steps: len({*steps} - {None}))


def in_name(path: Path, *patterns: str) -> int | None:
    """The number in the last part of a path that has one, as the first of these patterns that finds one there does."""
    for part in reversed(path.parts):
        for pattern in patterns:
            if found := re.findall(pattern, part):
                return next((step for step in map(whole, reversed(found)) if step is not None), None)
    return None


def whole(number: str) -> int | None:
    """The whole number that is written as 1500, 1.5k, 1e5 or the like; None for a fraction, such as 0.0001k."""
    value = Fraction(number.rstrip("".join(FACTORS))) * FACTORS.get(number[-1], 1)
    return value.numerator if value.denominator == 1 else None


def ranks(values: Sequence[int]) -> list[int | None]:
    """The rank of each in ascending order; equal ones share it."""
    places = {value: place for place, value in enumerate(sorted({*values}))}
    return [places[value] for value in values]


def same(first: Sequence[Mapping[str, Tensor]], second: Sequence[Mapping[str, Tensor]]) -> bool:
    """Whether two checkpoints hold the same weights."""
    return len(first) == len(second) and all(
        a.keys() == b.keys() and all(alike(a[name], b[name]) for name in a) for a, b in zip(first, second, strict=True)
    )


def alike(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same numbers; NaNs, as of a network that has diverged, count as equal."""
    if (one.dtype, one.layout, one.shape) != (other.dtype, other.layout, other.shape):
        return False
    if one.layout is not torch.strided:
        one, other = (tensor.to_sparse(layout=torch.sparse_coo).coalesce() for tensor in (one, other))
        return alike(one.indices(), other.indices()) and alike(one.values(), other.values())
    return (equal if one.is_floating_point() else torch.equal)(one, other)
