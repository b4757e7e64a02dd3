"""`gnomon verify`: check the papers' claims against the finished runs."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from gnomon_lab.cli.parse import parse
from gnomon_lab.cli.say import say
from gnomon_lab.papers import EXPERIMENTS, experiment


@dataclass(frozen=True)
class Options:
    """Check the papers' claims against the finished runs of the --small and --paper settings.

    Exit code 1 if one is not reproduced.
    """

    name: tyro.conf.Positional[str] = ""
    """One experiment; all of them unless told."""
    runs: Path = Path("runs")
    """The folder that holds all runs."""


def main(arguments: Sequence[str]) -> int:
    """Prints the board: reproduced, not reproduced (with what was measured), not run."""
    options = parse(Options, arguments, "gnomon verify")
    if options.name:
        experiment(options.name)
    from rich.table import Table
    from rich.text import Text

    from gnomon_lab.cli.terminal import Terminal
    from gnomon_lab.runs import all_runs

    console, failed = Terminal(), False
    for name in [options.name] if options.name else EXPERIMENTS:
        settings = experiment(name).SETTINGS
        finished = [found for found in all_runs(options.runs, name) if found.finished and found.has_one_of(settings)]
        say(f"{name} ({EXPERIMENTS[name].source})" + ("" if finished else ": not run"), console, style="bold")
        finished.sort(key=lambda run: run.digest)
        for digest, group in itertools.groupby(finished, key=lambda run: run.digest):
            seeds = [found.records() for found in group]
            board = Table("claim", "expected", "measured", "verdict", caption=f"{options.runs / name / digest}-*")
            for claim in experiment(name).claims(seeds):
                failed |= not claim.holds
                verdict = Text("reproduced", "green") if claim.holds else Text("not reproduced", "red")
                board.add_row(claim.says, claim.expected, claim.measured, verdict)
            console.print(board)
    return int(failed)
