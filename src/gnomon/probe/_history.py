"""What a probe has read so far: plain numbers by step, in memory and in a file that only grows."""

import json
import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from gnomon._extras import extra
from gnomon._lines import append_line
from gnomon.errors import DataError, RangeError, public, within
from gnomon.probe._reading import Reading, tensors

if TYPE_CHECKING:
    import pandas

QUARTILES = {".q25": 0.25, ".q75": 0.75}
RESERVED = frozenset({"arm", "step", "seconds", "samples"})
"""What a line holds beside numbers."""


@dataclass(frozen=True)
class Row:
    """One reading as plain numbers.

    Attributes:
        step: the training step.
        numbers: by name, as `Reading.scalars` has them, with the quartiles where there are several samples.
        seconds: what it cost, by observation and quantity.
        samples: the values of all samples by name, float64; empty where they are not kept.
    """

    step: int
    numbers: dict[str, float]
    seconds: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, Float[Tensor, "n"]] = field(default_factory=dict)


class History:
    """Readings by step, as plain numbers: of each quantity the mean over the samples, extremes and quartiles.

    `history["test/accuracy"]` is one number a step, NaN at steps without one. `Probe.history` is that of a probe, and
    `append` adds a reading of any. A step that comes again, as where training goes on from a checkpoint, takes the
    place of what was read from there on.

    In a file it is one line of JSON a reading, appended at once, so that a killed process loses none; null stands for
    NaN and infinity. The records of `gnomon run` and of `jsonlines_sink` are such files.

    Args:
        path: the file. What it holds already is read first; default: in memory alone.
        samples: whether the values of all samples are kept as well: at 10,000 samples some 200 kB a quantity and
            reading.
    Attributes:
        steps: of the readings, rising.
        names: of all numbers.
    Raises:
        DataError: if the file is no history, or holds those of several arms.
    Example:
        >>> import torch, gnomon
        >>> history, layer = gnomon.History(), torch.nn.Linear(2, 2)
        >>> probe = gnomon.Probe(layer, torch.ones(3, 2), [gnomon.jacobian_norm])
        >>> for step in range(2):
        ...     history.append(probe.read(step))
        >>> history["jacobian_norm"].shape, history.steps
        (torch.Size([2]), [0, 1])
    """

    @public
    def __init__(self, path: str | Path | None = None, *, samples: bool = False) -> None:
        self.path = None if path is None else Path(path)
        self._samples = samples
        self._rows: list[Row] = []
        if self.path is not None and self.path.exists():
            self._extend(_rows_of(self.path, None))

    @classmethod
    @public
    def load(cls, path: str | Path, *, arm: str | None = None) -> "History":
        """What a file holds, without writing to it further.

        Args:
            path: the file.
            arm: of the records of an experiment with several, the name of one.

        Raises:
            DataError: if there is no such file, or it is no history; or if it has several arms, which are named.
        """
        history = cls()
        history._extend(_rows_of(Path(path), arm))
        return history

    @within("History")
    def append(self, reading: Reading) -> None:
        """Adds a reading, in the place of those at its step and behind.

        Raises:
            DataError: if a quantity has the name of what a line holds beside, or the line cannot be written; then
                nothing of it stays.
        """
        row = _row(reading, samples=self._samples)
        if self.path is not None:
            try:
                append_line(self.path, _line(row))
            except OSError as error:
                raise DataError(
                    "path", "a file with room for a line", error, "Make room; what was read before stays."
                ) from error
        self._extend([row])

    @within("History")
    def save(self, path: str | Path) -> None:
        """Writes all of it into a file, whole or not at all.

        Raises:
            DataError: if it cannot be written.
        """
        target = Path(path)
        part = target.with_name(f"{target.name}.part")
        try:
            part.write_bytes(b"".join(_line(row) + b"\n" for row in self._rows))
            part.replace(target)
        except OSError as error:
            raise DataError("path", "a file that can be written", error, "Choose another.") from error

    @property
    def steps(self) -> list[int]:
        """The steps of the readings, rising."""
        return [row.step for row in self._rows]

    @property
    def names(self) -> list[str]:
        """The names of all numbers, in the order in which they first came."""
        return [*dict.fromkeys(name for row in self._rows for name in row.numbers)]

    @within("History")
    def __getitem__(self, name: str) -> Float[Tensor, "t"]:
        """One number a step, float64; NaN at those that have none of this name."""
        self._require(name, self.names)
        return torch.tensor([row.numbers.get(name, math.nan) for row in self._rows], dtype=torch.float64)

    @within("History")
    def samples(self, name: str) -> list[Float[Tensor, "n"]]:
        """The values of all samples at each step that has some.

        Raises:
            RangeError: if they were not kept.
        """
        self._require(name, [*dict.fromkeys(name for row in self._rows for name in row.samples)])
        return [row.samples[name] for row in self._rows if name in row.samples]

    @within("History")
    def to_pandas(self) -> "pandas.DataFrame":
        """A `pandas.DataFrame` with a row a step and a column a number.

        Raises:
            MissingExtraError: if pandas is not installed.
        """
        frame = extra("History.to_pandas", "pandas", "pandas").DataFrame
        return frame({name: self[name].numpy() for name in self.names}, index=self.steps).rename_axis("step")

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __repr__(self) -> str:
        if not self._rows:
            return "History(no readings)"
        count = f"{len(self)} readings" if len(self) > 1 else "1 reading"
        shown = [name for name in self.names if not name.endswith((".min", ".max", *QUARTILES))]
        return f"History({count}, steps {self.steps[0]:,} to {self.steps[-1]:,}: {', '.join(shown)})"

    def _extend(self, rows: Iterable[Row]) -> None:
        for row in rows:
            while self._rows and self._rows[-1].step >= row.step:
                self._rows.pop()
            self._rows.append(row)

    def _require(self, name: str, there: list[str]) -> None:
        if name not in there:
            raise RangeError("name", f"one of {', '.join(there) or 'none'}", repr(name), "Ask the probe for it.")


def _row(reading: Reading, *, samples: bool) -> Row:
    numbers = reading.scalars()
    kept: dict[str, Tensor] = {}
    for name, value in tensors(reading.values).items():
        if value.numel() > 1:
            flat = value.detach().flatten().double().cpu()
            finite = bool(flat.isfinite().all())
            quartiles = np.quantile(flat.numpy(), [*QUARTILES.values()]) if finite else [math.nan] * len(QUARTILES)
            numbers |= {f"{name}{end}": float(value) for end, value in zip(QUARTILES, quartiles, strict=True)}
            kept |= {name: flat} if samples else {}
    if taken := sorted(numbers.keys() & RESERVED):
        raise DataError("reading", f"names other than {', '.join(sorted(RESERVED))}", taken, "Rename one.")
    return Row(reading.step, numbers, dict(reading.seconds), kept)


def _line(row: Row) -> bytes:
    line = {"step": row.step, **{name: _plain(value) for name, value in row.numbers.items()}, "seconds": row.seconds}
    if row.samples:
        line["samples"] = {name: [_plain(value) for value in values.tolist()] for name, values in row.samples.items()}
    return json.dumps(line, allow_nan=False, separators=(",", ":")).encode()


def _plain(value: float | int) -> float | None:
    """As JSON has it, which has no NaN."""
    return value if math.isfinite(value) else None


def _rows_of(path: Path, arm: str | None) -> list[Row]:
    """The readings in a file, or those of one arm; its last line is left out if it has no end: it is being written."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise DataError("path", "a file of readings", error, "Name one, such as a run's records.jsonl.") from error
    records = [_record(line) for line in lines]
    broken = [number for number, record in enumerate(records, 1) if record is None]
    found = [record for record in records if record is not None]
    if broken and not found:
        raise DataError("path", "a reading a line", f"{lines[0][:40]!r} in line 1", "Name a file of readings.")
    if broken:
        lost = f"line {broken[0]}" if len(broken) == 1 else f"lines {', '.join(map(str, broken))}"
        warnings.warn(
            f"History: {path} has no reading in {lost}, as a killed process leaves; the others are taken.", stacklevel=4
        )
    arms = [*dict.fromkeys(record.get("arm") for record in found)]
    if arm is not None and arm not in arms:
        raise DataError("arm", f"one of {', '.join(map(str, arms))}", repr(arm), "Name one that the file has.")
    if arm is None and len(arms) > 1:
        names = ", ".join(map(str, arms))
        raise DataError("path", "readings of one arm", f"those of {names}", "Name one: History.load(path, arm=...).")
    return [_row_in(record) for record in found if arm is None or record.get("arm") == arm]


def _record(line: bytes) -> dict[str, Any] | None:
    """The reading in a line; None if it holds none."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and type(record.get("step")) is int else None


def _row_in(record: dict[str, Any]) -> Row:
    """What of a line is numbers: experiments keep other things in theirs too."""
    numbers = {name: _number(value) for name, value in record.items() if name not in RESERVED and _is_number(value)}
    seconds, samples = (record.get(name) for name in ("seconds", "samples"))
    kept = {
        name: torch.tensor([_number(value) for value in values], dtype=torch.float64)
        for name, values in (samples if isinstance(samples, dict) else {}).items()
        if isinstance(values, list) and all(map(_is_number, values))
    }
    return Row(record["step"], numbers, seconds if isinstance(seconds, dict) else {}, kept)


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _number(value: float | int | None) -> float:
    return math.nan if value is None else float(value)
