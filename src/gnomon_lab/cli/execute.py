"""Running an experiment's seeds one after another, and showing what came out."""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from gnomon_lab.report.build import build
from gnomon_lab.runs import Found, Run, open_run
from gnomon_lab.runs.progress import Progress

WIDE = 1000
"""Columns that hold any table."""


def execute(
    name: str,
    module: ModuleType,
    config: object,
    seeds: Sequence[int],
    root: Path,
    data_dir: Path | None,
) -> int:
    """Runs each seed that is not finished, and prints its table and the path of its page."""
    console = Console()
    for seed in seeds:
        found = open_run(root, name, config, seed)
        if found.finished:
            console.print(f"{name}, seed {seed}: finished before, in {found.folder}", highlight=False)
        else:
            train(module, config, found, console, data_dir)
        show(module, found, console)
    return 0


def train(module: ModuleType, config: object, found: Found, console: Console, data_dir: Path | None) -> None:
    """Runs one seed to its end; its result.json says that it got there."""
    console.print(f"{found.experiment}, seed {found.seed}, in {found.folder}", highlight=False)
    with Progress(console) as progress:
        run = Run(found.folder, found.seed, progress, data_dir=data_dir)
        with run.locked():
            module.run(config, run)
            columns, rows = module.table(run.records())
            found.finish(columns=columns, rows=rows)


def show(module: ModuleType, found: Found, console: Console) -> None:
    """Prints the run's table, writes its page and says where."""
    columns, rows = module.table(found.records())
    console.print(laid_out(columns, rows, console))
    console.print(f"report: {build(found)}", soft_wrap=True, highlight=False)


def laid_out(columns: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> Table:
    """The table, of which no number is cut off on a narrow terminal."""
    table = Table(box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column else "left")
    for row in rows:
        table.add_row(*row)
    if Measurement.get(console, console.options.update(width=WIDE), table).maximum > console.width:
        # All but the names wrap between words, and the names take what is left.
        for place, column in enumerate(columns):
            words = " ".join([column, *(row[place] for row in rows)]).split()
            table.columns[place].width = max(map(len, words)) if column else None
    return table
