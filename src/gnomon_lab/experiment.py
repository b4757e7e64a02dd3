"""An experiment: one object that is handed to the command line, a sweep and the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from gnomon_lab.arithmetic import convolutions_in_float32, subnormals_as_zero

if TYPE_CHECKING:
    from pathlib import Path

    from gnomon_lab.figures import Figure
    from gnomon_lab.runs import Cells, Claim, Found, Record, Run, Seeds
    from gnomon_lab.runs.run import Show
    from gnomon_lab.settings import Settings

ConfigT = TypeVar("ConfigT", bound="Settings")


@dataclass(frozen=True)
class Entry:
    """What is known about an experiment before its module is imported.

    Attributes:
        module: the name of its module, which ends by defining `EXPERIMENT`; the last part of this name is the
            experiment's.
        shows: what the experiment shows, in a line.
        source: whose experiment it is.
    """

    module: str
    shows: str
    source: str

    @property
    def name(self) -> str:
        """The name on the command line."""
        return self.module.rpartition(".")[2].replace("_", "-")


def _no_figures(seeds: Seeds) -> list[Figure]:
    return []


def _no_tables(config: Settings) -> dict[str, Path]:
    return {}


@dataclass(frozen=True)
class Experiment(Generic[ConfigT]):
    """An experiment: what it runs, and what it derives from the records.

    Attributes:
        entry: its name, what it shows, whose it is.
        introduction: for the page; blank lines separate its paragraphs.
        small: the default setting, which takes minutes on two CPU cores.
        paper: the paper's setting, or where it prints none, that of the authors' code.
        run: trains, and records; all randomness comes from the run's seed.
        table: the column heads and the rows, from a run's records.
        summary: the result in one or two sentences.
        figures: in reading order, from records alone.
        claims: what the source claims, over the records of all finished seeds.
        others: further settings that the claims are about.
        figures_over_seeds: the figures that need the records of several seeds.
        table_over_seeds: the table over several seeds; without it, each cell is the mean and range over the seeds.
        tables: the files that a run of a setting reads, by name: with others it does not go on.
    """

    entry: Entry
    introduction: str
    small: ConfigT
    paper: ConfigT
    run: Callable[[ConfigT, Run], None]
    table: Callable[[Sequence[Record]], Cells]
    summary: Callable[[Sequence[Record]], str]
    figures: Callable[[Sequence[Record]], Sequence[Figure]]
    claims: Callable[[Seeds], list[Claim]]
    others: tuple[ConfigT, ...] = ()
    figures_over_seeds: Callable[[Seeds], Sequence[Figure]] = _no_figures
    table_over_seeds: Callable[[Seeds], Cells] | None = None
    tables: Callable[[ConfigT], Mapping[str, Path]] = _no_tables

    @property
    def name(self) -> str:
        """The name on the command line."""
        return self.entry.name

    @property
    def settings(self) -> tuple[ConfigT, ...]:
        """The settings that the claims are about, each once."""
        return tuple(dict.fromkeys((self.small, self.paper, *self.others)))

    def finish(self, config: ConfigT, found: Found, show: Show, data_dir: Path | None = None) -> None:
        """Runs one seed from where it is to its end; its result.json then says that it is finished."""
        import torch

        from gnomon_lab.runs.data import note_tables, noting
        from gnomon_lab.runs.run import Run
        from gnomon_lab.runs.series import seconds_of

        run = Run(found.folder, found.seed, show, data_dir=data_dir)
        with run.locked():
            if found.finished:  # by another process, since we looked
                return
            note_tables(found.folder, self.tables(config))
            found.begin()
            torch.set_num_threads(config.threads)
            with run.locating(), noting(found.folder), subnormals_as_zero(), convolutions_in_float32():
                self.run(config, run)
            records = found.records()  # which raises where they were altered meanwhile
            columns, rows = self.table(records)
            run.require_own()
            found.finish(columns=columns, rows=rows, summary=self.summary(records), seconds=seconds_of(records))
