"""Readings as plain numbers, one per line of a file."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gnomon._warn import warn
from gnomon.errors import DataError
from gnomon.probe._reading import Reading

T = TypeVar("T")

QUARTILES = {".q25": 0.25, ".q75": 0.75}
RESERVED = frozenset({"arm", "step", "seconds", "samples"})
"""What a line holds in addition to numbers."""


@dataclass(frozen=True)
class Row:
    """One reading as plain numbers.

    Attributes:
        step: the training step.
        numbers: by name, as `Reading.scalars` has them, with the quartiles if there are several samples.
        seconds: what the reading cost, by observation and quantity.
        samples: the values of all samples by name, float64; empty if they are not kept.
        setting: what `gnomon measure` says of how it was taken, such as the split; empty for readings of a probe.
    """

    step: int
    numbers: dict[str, float]
    seconds: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, Float[Tensor, "n"]] = field(default_factory=dict)
    setting: dict[str, Any] = field(default_factory=dict, repr=False)


def row_of(reading: Reading, *, samples: bool) -> Row:
    """The reading as plain numbers, with or without the values of all samples."""
    numbers = reading.scalars()
    kept: dict[str, Tensor] = {}
    for name, value in reading.tensors().items():
        if value.numel() > 1:
            # A copy: what is read may be the quantity's own, which it goes on to change.
            flat = value.detach().flatten().to("cpu", torch.float64, copy=samples)
            finite = bool(flat.isfinite().all())
            quartiles = np.quantile(flat.numpy(), [*QUARTILES.values()]) if finite else [math.nan] * len(QUARTILES)
            numbers |= {f"{name}{end}": float(value) for end, value in zip(QUARTILES, quartiles, strict=True)}
            kept |= {name: flat} if samples else {}
    if taken := sorted(numbers.keys() & RESERVED):
        raise DataError("reading", f"names other than {', '.join(sorted(RESERVED))}", taken, "Rename one.")
    return Row(reading.step, numbers, dict(reading.seconds), kept)


def names_in(rows: Iterable[Row]) -> tuple[str, ...]:
    """The names of all numbers, in the order in which they first appear."""
    return tuple(dict.fromkeys(name for row in rows for name in row.numbers))


def column(rows: Iterable[Row], name: str) -> Float[Tensor, "t"]:
    """One number per row, float64; NaN where there is none of this name."""
    return torch.tensor([row.numbers.get(name, math.nan) for row in rows], dtype=torch.float64, device="cpu")


def merged(one: Row, other: Row) -> Row:
    """Two readings of the same step as one."""
    return Row(
        one.step,
        one.numbers | other.numbers,
        added(one.seconds, other.seconds),
        one.samples | other.samples,
        one.setting | other.setting,
    )


def without(row: Row, names: Set[str]) -> Row | None:
    """The row without what it has under these names; None if nothing is left of it."""

    def rest(part: Mapping[str, T]) -> dict[str, T]:
        return {name: value for name, value in part.items() if name not in names}

    if not row.numbers.keys() - names:
        return None
    return replace(row, numbers=rest(row.numbers), seconds=rest(row.seconds), samples=rest(row.samples))


def added(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The seconds of two readings, added up for what both observed; what is no number, as in records, is the latter."""
    words = {name for part in (one, other) for name, took in part.items() if not isinstance(took, int | float)}
    both = (one.keys() & other.keys()) - words
    return {**one, **other, **{name: one[name] + other[name] for name in both}}


def line_of(row: Row) -> bytes:
    """The row as JSON."""
    return json.dumps(_plainly(row), allow_nan=False, separators=(",", ":")).encode()


def as_record(reading: Reading) -> dict[str, Any]:
    """What a line of a history holds of a reading; things other than numbers may be added to it."""
    return _plainly(row_of(reading, samples=False))


def _plainly(row: Row) -> dict[str, Any]:
    line = {"step": row.step, **{name: _plain(value) for name, value in row.numbers.items()}, "seconds": row.seconds}
    if row.samples:
        line["samples"] = {name: [_plain(value) for value in values.tolist()] for name, values in row.samples.items()}
    if row.setting:
        line["measured"] = {"setting": row.setting}
    return line


def _plain(value: float | int) -> float | None:
    """The number as JSON holds it, which has no NaN."""
    return value if math.isfinite(value) else None


def rows_in_file(path: Path, arm: str | None) -> list[Row]:
    """The readings in a file, or those of one arm."""
    found = records_of(path)
    arms = arms_of(found)
    if arm is not None and arm not in arms:
        raise DataError("arm", f"one of {', '.join(map(str, arms))}", repr(arm), "Name one that the file has.")
    if arm is None and len(arms) > 1:
        names = ", ".join(map(str, arms))
        raise DataError("path", "readings of one arm", f"those of {names}", "Name one: History.load(path, arm=...).")
    return [row_in(record) for record in found if arm is None or record.get("arm") == arm]


def rows_to_continue(path: Path) -> list[Row]:
    """The readings in a file to which more are added, which have no arm."""
    found = records_of(path)
    if (arms := arms_of(found)) not in ([], [None]):
        raise DataError(
            "path",
            "readings without an arm, to which more can be added",
            f"those of {', '.join(map(str, arms))}",
            "Read them with History.load(path, arm=...).",
        )
    return [*map(row_in, found)]


def arms_of(records: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """The arms of records, in the order in which they first appear; None for those without one."""
    return [*dict.fromkeys(record.get("arm") for record in records)]


def records_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a file that hold a reading; a last line that begins as one is left out: it is being written.

    Empty lines, which processes that write at the same moment may leave, count for nothing.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError("path", "a file of readings", error, "Name one, such as a run's records.jsonl.") from error
    if _record(lines[-1]) is None and lines[-1][:1] in (b"", b"{"):
        lines.pop()
    records = [_record(line) for line in lines]
    broken = [number for number, record in enumerate(records, 1) if record is None and lines[number - 1]]
    found = [record for record in records if record is not None]
    if broken and not found:
        raise DataError(
            "path",
            "one reading per line",
            f"{lines[broken[0] - 1][:40]!r} in line {broken[0]}",
            "Name a file of readings.",
        )
    if broken:
        lost = f"line {broken[0]}" if len(broken) == 1 else f"lines {', '.join(map(str, broken))}"
        warn(
            f"History: {path} has no reading in {lost}, as a killed process leaves; the others are taken.", UserWarning
        )
    return found


def _record(line: bytes) -> dict[str, Any] | None:
    """The reading in a line; None if it holds none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    whole = isinstance(record, dict) and type(record.get("step")) is int
    return record if whole and isinstance(record.get("arm"), str | None) else None


def row_in(record: Mapping[str, Any]) -> Row:
    """The numbers in a line: experiments keep other things in theirs too."""
    numbers = {name: _number(value) for name, value in record.items() if name not in RESERVED and _is_number(value)}
    seconds, samples, measured = (record.get(name) for name in ("seconds", "samples", "measured"))
    setting = measured.get("setting") if isinstance(measured, dict) else None
    kept = {
        name: torch.tensor([_number(value) for value in values], dtype=torch.float64, device="cpu")
        for name, values in (samples if isinstance(samples, dict) else {}).items()
        if isinstance(values, list) and all(map(_is_number, values))
    }
    took, how = (part if isinstance(part, dict) else {} for part in (seconds, setting))
    return Row(record["step"], numbers, took, kept, how)


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _number(value: float | int | None) -> float:
    try:
        return math.nan if value is None else float(value)
    except OverflowError:  # hundreds of digits
        return math.inf
