"""`gnomon report RUN`: write a run's page again, from its records."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from gnomon.errors import DataError
from gnomon_lab.cli.parse import parse
from gnomon_lab.cli.say import say
from gnomon_lab.papers import EXPERIMENTS


@dataclass(frozen=True)
class Options:
    """Write a run's page again, from its records."""

    run: tyro.conf.Positional[str]
    """The run's folder, or an experiment's name for its latest finished run."""
    runs: Path = Path("runs")
    """The folder that holds all runs."""


def main(arguments: Sequence[str]) -> int:
    """Writes the page and prints its path."""
    options = parse(Options, arguments, "gnomon report")
    from gnomon_lab.report.build import build
    from gnomon_lab.runs import all_runs, load_run

    if options.run in EXPERIMENTS:
        found = [run for run in all_runs(options.runs, options.run) if run.finished]
        if not found:
            raise DataError(
                f"report({options.run}): expected a finished run in {options.runs}, got none. "
                f"Call `gnomon run {options.run}` first."
            )
        say(str(build(found[-1])))
    else:
        say(str(build(load_run(Path(options.run)))))
    return 0
