"""`gnomon report RUN`: write a run's page again, from its records."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from gnomon.errors import DataError
from gnomon_lab.cli.outputs import refuse
from gnomon_lab.cli.parse import parse
from gnomon_lab.cli.say import say
from gnomon_lab.papers import EXPERIMENTS, experiment

if TYPE_CHECKING:
    from gnomon_lab.runs import Found


@dataclass(frozen=True)
class Options:
    """Write a run's page again, from its records.

    Exit code 1 if a run of the experiment was left out because its files are damaged.
    """

    run: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]
    """A run's folder, or an experiment's name: the last finished run of its default setting, with all its seeds."""
    runs: Path = Path("runs")
    """The folder that holds all runs."""
    table: Path | None = None
    """Also write the records of these seeds as one table, FILE.parquet."""


def main(arguments: Sequence[str]) -> int:
    """Writes the page and prints its path; returns 1 if a run was left out."""
    options = parse(Options, arguments, "gnomon report")
    from gnomon_lab.report.build import build, require_finished
    from gnomon_lab.report.over_seeds import build_over_seeds
    from gnomon_lab.report.table import write_table
    from gnomon_lab.runs import load_run

    is_name = options.run in EXPERIMENTS or not ("/" in options.run or Path(options.run).exists())
    seeds, damaged = latest(options.run, options.runs) if is_name else ([load_run(Path(options.run))], [])
    require_finished(seeds[0])
    if options.table is not None:
        refuse({"table": options.table}, [run.folder / "records.jsonl" for run in seeds])
        write_table(seeds, options.table)
    shown = experiment(seeds[0].experiment)
    say(str(build(shown, seeds[0]) if len(seeds) == 1 else build_over_seeds(shown, seeds)))
    return int(bool(damaged))


def latest(name: str, root: Path) -> "tuple[list[Found], list[str]]":
    """All seeds of the setting of which a run finished last, and what is wrong with other runs; says so on stderr."""
    from gnomon_lab.cli.terminal import Terminal
    from gnomon_lab.report.setting import DEFAULT, elsewhere, setting
    from gnomon_lab.runs import all_runs

    terminal, shown = Terminal(stderr=True), experiment(name)
    runs, damaged = all_runs(root, name)
    for sentence in damaged:
        say(f"left out: {sentence}", terminal)
    if not runs:
        raise DataError(name, f"a finished run in {root}", "none", f"Call `gnomon run {name}` first.")
    finished = [run for run in runs if run.finished]
    if not finished:
        words = setting(shown, runs[-1])
        options = ("" if words == DEFAULT else f" {words}") + f" --seeds {runs[-1].seed}" + elsewhere(root)
        advice = f"Call `gnomon run {name}{options}` to finish it."
        raise DataError(name, f"a finished run in {root}", f"an unfinished one, {words}", advice)
    usual = [run for run in finished if run.has_one_of([shown.small])]
    last = max(usual or finished, key=lambda run: run.ended_ns)
    seeds = [run for run in finished if run.digest == last.digest]
    which = ", ".join(str(seed) for seed in sorted(run.seed for run in seeds))
    say(f"{name}, {setting(shown, last)}, seed {which}", terminal)
    return seeds, damaged
