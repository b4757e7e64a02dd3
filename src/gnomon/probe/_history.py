"""What a probe has read so far: plain numbers by step, in memory and in a file that only grows."""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon._extras import extra
from gnomon._kinds import checked
from gnomon._lines import append_line, not_written
from gnomon._parts import owners
from gnomon._warn import warn
from gnomon.errors import ArgumentTypeError, DataError, RangeError, within
from gnomon.history import Verdict
from gnomon.probe._about import About
from gnomon.probe._html import table
from gnomon.probe._merged_rows import MergedRows
from gnomon.probe._names import about_in, chosen, logarithmic, quantities
from gnomon.probe._reading import Reading
from gnomon.probe._rows import Row, column, line_of, names_in, row_in, row_of, rows_in_file, rows_to_continue
from gnomon.probe._text import in_words
from gnomon.probe._verdict_of import TRAIN, VALIDATION, verdict_of

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TABLES = {".csv": "csv", ".parquet": "parquet", ".pkl": "pickle", ".xlsx": "excel", ".feather": "feather"}
"""Names of files in other formats, which their readers would not find in lines of JSON; and pandas' words for them."""
OF_ROWS = frozenset({"_merged", "_names", "_appended", "_warned"})
"""The attributes of a history that follow from its rows."""


class History:
    """Readings by step, as plain numbers: for each quantity the mean over its values, extremes and quartiles.

    The values are those of samples, or, as in `nfa_table`, of layers. `history["test/accuracy"]` is one number per
    step, NaN at steps without one. `Probe.history` is a probe's own history, and `append` adds a reading of any probe.
    A name that comes again at a step, or comes at one before its last, as when training resumes from a checkpoint,
    replaces what was read of it from there on; other names stay. So probes whose quantities have different names, such
    as those of splits, can share a history, whose rows have what was read at the same step. Of those with a name in
    common, each deletes readings of the other, which a warning says.

    In a file it is one line of JSON per reading, appended at once, so that a killed process loses none; null stands for
    NaN and infinity. The records of `gnomon run` are such files too, but have arms, and are read with `History.load`.

    A checkpoint can store a history: `torch.load` reads it, also with `weights_only`, after `from gnomon import
    History`; `import gnomon` alone does not import it. It is then what it was when the checkpoint was written, and
    appends to the same file if it has one.

    Args:
        path: the file. What it already holds is read first; default: in memory only.
        samples: whether the values of all samples are kept as well: with 10,000 samples some 200 kB per quantity and
            reading.
    Attributes:
        steps: the steps of the readings, increasing.
        names: the names of all numbers.
    Raises:
        DataError: if its folder does not exist, the file is not a history, or its readings have an arm.
    Example:
        >>> import torch, gnomon
        >>> history, layer = gnomon.History(), torch.nn.Linear(2, 2)
        >>> probe = gnomon.Probe(layer, torch.ones(3, 2), [gnomon.jacobian_norm])
        >>> for step in range(2):
        ...     history.append(probe.read(step))
        >>> history["jacobian_norm"].shape, history.steps
        (torch.Size([2]), [0, 1])
    """

    @checked
    def __init__(self, path: str | PathLike[str] | None = None, *, samples: bool = False) -> None:
        self.path = None if path is None else Path(path)
        self._samples = samples
        self._merged = MergedRows()
        self._names: tuple[str, ...] | None = None  # those of the rows, once they are requested
        self._appended: set[str] = set()
        self._warned = False
        self._docstrings: dict[str, str] = {}
        if self.path is not None and not self.path.absolute().parent.is_dir():
            raise DataError("path", "a file in a folder that exists", repr(str(path)), "Create the folder.")
        if self.path is not None and self.path.exists():
            self._extend(rows_to_continue(self.path))

    @classmethod
    @checked
    def load(cls, path: str | PathLike[str], *, arm: str | None = None) -> "History":
        """The history in a file, without writing to the file further.

        Args:
            path: the file.
            arm: for the records of an experiment with several arms, the name of one.

        Raises:
            DataError: if there is no such file, or it is not a history; or if it has several arms, which the error
                names.
        """
        history = cls()
        history._extend(rows_in_file(Path(path), arm))
        return history

    @within("History")
    def append(self, reading: Reading) -> None:
        """Adds a reading, replacing what was read of its names at its step and after it.

        It warns, once, if what it replaces was appended to this history and not read from a file: it may be another
        probe's.

        Raises:
            TypeError: if it is not a `Reading`.
            DataError: if a quantity has the name of something else that a line holds, or the line cannot be written;
                then nothing of it remains.
        """
        if not isinstance(reading, Reading):
            raise ArgumentTypeError("reading", "a Reading", type(reading).__name__, "Pass what a probe returns.")
        row = row_of(reading, samples=self._samples)
        if self.path is not None:
            try:
                append_line(self.path, line_of(row))
            except OSError as error:
                raise not_written("path", error, "what was read before stays") from error
        gone = [name for name in self._extend([row]) if name in self._appended]
        self._appended.update(row.numbers)
        self._docstrings |= reading.docstrings
        if gone and not self._warned:
            self._warned = True
            first, *others = quantities(gone)
            also = f" So do {', '.join(others)}." if others[1:] else f" So does {others[0]}." if others else ""
            warn(
                f"History: {first} comes again at step {row.step:,}, which replaces what was read of it from there on."
                f"{also} If that was another probe, give the quantities other names, as splits do.",
                UserWarning,
            )

    @checked
    def save(self, path: str | PathLike[str]) -> None:
        """Writes the history to a file of lines of JSON, as `History(path)` does, completely or not at all.

        A file that is replaced keeps its permissions, and a link its target, whose content is replaced.

        Raises:
            DataError: if it cannot be written, or its name is that of a table in another format.
        """
        target = Path(path)
        if target.suffix in TABLES:
            advice = f"Use to_pandas(), whose result has such methods as to_{TABLES[target.suffix]}."
            raise DataError("path", "a file for lines of JSON, such as run.jsonl", repr(str(path)), advice)
        try:
            target = Path(os.path.realpath(target)) if target.is_symlink() else target
            part = target.with_name(f".{target.name}.part")
            try:
                with part.open("wb") as file:
                    if target.exists():
                        with suppress(PermissionError):  # as of file systems that have none
                            part.chmod(stat.S_IMODE(target.stat().st_mode))
                    file.writelines(line_of(row) + b"\n" for row in self._merged.rows)
                    file.flush()
                    os.fsync(file.fileno())  # before the rename, which may reach the disk first
                part.replace(target)
            finally:
                part.unlink(missing_ok=True)
        except (OSError, ValueError) as error:  # the latter for "" and "."
            raise DataError("path", "a file that can be written", error, "Choose another.") from error

    @property
    def steps(self) -> list[int]:
        """The steps of the readings, increasing."""
        return [row.step for row in self._merged.rows]

    @property
    def names(self) -> list[str]:
        """The names of all numbers, in the order in which they first appeared."""
        if self._names is None:
            self._names = names_in(self._merged.rows)
        return [*self._names]

    @property
    def quantities(self) -> list[str]:
        """The names of all numbers but extremes, quartiles and errors."""
        return quantities(self.names)

    @within("History")
    def __getitem__(self, name: str) -> Float[Tensor, "t"]:
        """One number per step, float64; NaN at steps that have none of this name."""
        self._require(name, self.names)
        return column(self._merged.rows, name)

    @within("History")
    def steps_of(self, name: str) -> list[int]:
        """The steps at which a number of this name was read, be it NaN."""
        self._require(name, self.names)
        either = {name, *owners(name)}  # what has no value has no parts
        return [row.step for row in self._merged.rows if not either.isdisjoint(row.numbers)]

    @within("History")
    def samples(self, name: str) -> list[Float[Tensor, "n"]]:
        """The values of all samples at each step that has some.

        Raises:
            RangeError: if they were not kept.
        """
        kept = [*dict.fromkeys(name for row in self._merged.rows for name in row.samples)]
        if name in self.names and name not in kept:
            advice = "Make it with History(samples=True)."
            if self._samples:
                advice = "It has no value per sample, or was read before this history was made."
            raise RangeError("name", "one whose samples were kept", repr(name), advice)
        self._require(name, kept)
        return [row.samples[name] for row in self._merged.rows if name in row.samples]

    @within("History")
    def to_pandas(self) -> "pandas.DataFrame":
        """A `pandas.DataFrame` with one row per step and one column per number.

        Raises:
            MissingExtraError: if pandas is not installed.
        """
        frame = extra("History.to_pandas", "pandas", "pandas").DataFrame
        return frame({name: self[name].numpy() for name in self.names}, index=self.steps).rename_axis("step")

    def about(self, name: str) -> About:
        """What a quantity says about itself: its docstring's first sentence, range and unit.

        For gnomon's own it is found by name, for others if their readings were appended and not read from a file.
        """
        return about_in(self._docstrings, name)

    @within("History")
    def plot(
        self, *names: str, ax: "Axes | None" = None, size: tuple[float | int, float | int] | None = None
    ) -> "tuple[Figure, Axes | list[Axes]]":
        """Draws quantities against the training step, one panel each: the mean, and the middle half of the samples.

        Splits and layers are lines in a panel. Its value axis is logarithmic if the quantity's docstring says that its
        range is from 0 or above to infinity, its step axis if the steps span two decades.

        Args:
            names: such as `test/accuracy`, or `accuracy` for all splits and layers that have it, or `mse_decomposition`
                for all its parts; default: all.
            ax: where to draw all of them together; default: a new figure.
            size: the width and the height of a new figure, in inches; default: what its panels and its legend need.

        Returns:
            The figure and its axes; for several panels, a list of axes.

        Raises:
            MissingExtraError: if matplotlib is not installed.
            ArgumentTypeError: if `ax` is not one Axes, or the size no numbers.
            EmptyError: if there are no readings.
            RangeError: if there is no quantity of a given name; if the size is not two numbers above 0, or axes are
                given too.
        """
        from gnomon import plot

        found = chosen(names, self.quantities)
        return plot.histories({"": self}, found, ax=ax, size=size, logarithmic=logarithmic(found, self._docstrings))

    @within("History")
    def verdict(self, split: str = TRAIN, validation: str | None = VALIDATION) -> Verdict:
        """Whether more training is worth it, as judged by `gnomon.verdict` from the readings so far.

        The step judged is the last at which all quantities that it uses were read; earlier readings with NaN or
        infinity are left out, as the evidence says; the validation split may be read less often. If its
        `log_probability` was read as well as its accuracy, the probability is from both splits. A history of `gnomon
        measure` of another split, or with steps that are none of training, is not judged: "cannot tell", with the
        reason.

        Args:
            split: the split of the training data, by default `train`; where quantities have no split before their
                names, leave it out.
            validation: the split of held-out samples, of which there need be none under the default name,
                `validation`; it is not used if it has no finite accuracy at the step judged. None: use none.

        Raises:
            RangeError: if a quantity that it uses is not read, or no step has all of them; if one is NaN or infinite at
                the step judged, as in a training that diverged; if a split that is named has no accuracy.
        """
        return verdict_of(self._merged.rows, split, validation)

    def __len__(self) -> int:
        return len(self._merged.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._merged.rows)

    def __repr__(self) -> str:
        return f"History({self._span()}{': ' if self._merged.rows else ''}{', '.join(self.quantities)})"

    def __str__(self) -> str:
        return in_words(f"History of {self._span()}", {"": self})

    def _repr_html_(self) -> str:
        return table(f"History of {self._span()}", {"": self})

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle or a copy holds, plain enough for `weights_only`, which refuses paths and sets."""
        kept = {name: value for name, value in vars(self).items() if name not in OF_ROWS}
        path = None if self.path is None else str(self.path)
        return kept | {"path": path, "rows": self._merged.rows, "_docstrings": {**self._docstrings}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Continues from these rows, as from those read from a file: to replace them is no cause for a warning."""
        History.__init__(self)
        vars(self).update((name, value) for name, value in state.items() if name != "rows")
        self.path = None if self.path is None else Path(self.path)
        self._extend(state["rows"])

    def _span(self) -> str:
        """How many readings, from which step to which."""
        if len(self) < 2:
            return f"1 reading, step {self.steps[0]:,}" if self._merged.rows else "no readings"
        return f"{len(self):,} readings, steps {self.steps[0]:,} to {self.steps[-1]:,}"

    def _extend(self, rows: Iterable[Row]) -> list[str]:
        """Adds rows, and returns the names of which they replaced something."""
        self._names = None
        return [*dict.fromkeys(name for row in rows for name in self._merged.add(row))]

    def _require(self, name: str, there: list[str]) -> None:
        if name not in there:
            expected = f"one of {', '.join(there)}" if there else "what has been read, which is nothing yet"
            raise RangeError("name", expected, repr(name), "Ask the probe for it.")


def from_records(records: Iterable[Mapping[str, Any]]) -> History:
    """A history in memory from the lines of a file for one arm, as `as_record` gives them."""
    history = History()
    history._extend(map(row_in, records))
    return history


torch.serialization.add_safe_globals([History, Row])
