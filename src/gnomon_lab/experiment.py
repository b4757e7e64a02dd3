"""An experiment: one object that the command line, a sweep and the page are handed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from pathlib import Path

    from gnomon_lab.figures import Figure
    from gnomon_lab.runs import Claim, Found, Record, Run
    from gnomon_lab.runs.run import Show
    from gnomon_lab.settings import Settings

ConfigT = TypeVar("ConfigT", bound="Settings")
Cells: TypeAlias = "tuple[tuple[str, ...], list[tuple[str, ...]]]"
"""The heads of the columns, and the rows."""


@dataclass(frozen=True)
class Entry:
    """What is known of an experiment before its module is imported.

    Attributes:
        module: which ends in `EXPERIMENT`; the last part of its name is the experiment's.
        shows: what the experiment shows, in a line.
        source: whose it is.
    """

    module: str
    shows: str
    source: str

    @property
    def name(self) -> str:
        """As the command line has it."""
        return self.module.rpartition(".")[2].replace("_", "-")


def _no_figures(seeds: Sequence[Sequence[Record]]) -> list[Figure]:
    return []


@dataclass(frozen=True)
class Experiment(Generic[ConfigT]):
    """An experiment: what it runs, and what it makes of the records.

    Attributes:
        entry: its name, what it shows, whose it is.
        introduction: for the page; blank lines part its paragraphs.
        small: the setting for two processor cores and minutes, the default.
        paper: the paper's own setting.
        run: trains, and records; all randomness comes from the run's seed.
        table: the heads of the columns and the rows, from a run's records.
        summary: the result in one or two sentences.
        figures: in reading order, from records alone.
        claims: what the source claims, over the records of all finished seeds.
        others: further settings that the claims are about.
        figures_over_seeds: those that need the records of several seeds.
        table_over_seeds: the table of several seeds; without it each cell is the mean and range of theirs.
    """

    entry: Entry
    introduction: str
    small: ConfigT
    paper: ConfigT
    run: Callable[[ConfigT, Run], None]
    table: Callable[[Sequence[Record]], Cells]
    summary: Callable[[Sequence[Record]], str]
    figures: Callable[[Sequence[Record]], Sequence[Figure]]
    claims: Callable[[Sequence[Sequence[Record]]], list[Claim]]
    others: tuple[ConfigT, ...] = ()
    figures_over_seeds: Callable[[Sequence[Sequence[Record]]], Sequence[Figure]] = _no_figures
    table_over_seeds: Callable[[Sequence[Sequence[Record]]], Cells] | None = None

    @property
    def name(self) -> str:
        """As the command line has it."""
        return self.entry.name

    @property
    def settings(self) -> tuple[ConfigT, ...]:
        """Those that the claims are about, each once."""
        return tuple(dict.fromkeys((self.small, self.paper, *self.others)))

    def finish(self, config: ConfigT, found: Found, show: Show, data_dir: Path | None = None) -> None:
        """Runs one seed to its end, from where it stands; its result.json says that it got there."""
        import torch

        from gnomon_lab.runs.run import Run
        from gnomon_lab.runs.series import seconds_of

        run = Run(found.folder, found.seed, show, data_dir=data_dir)
        with run.locked():
            if found.finished:  # by another process, since we looked
                return
            found.begin()
            torch.set_num_threads(config.threads)
            self.run(config, run)
            records = run.records()
            columns, rows = self.table(records)
            found.finish(columns=columns, rows=rows, summary=self.summary(records), seconds=seconds_of(records))
