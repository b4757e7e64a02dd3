"""`gnomon list`: the experiments, and the runs on disk."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gnomon_lab.cli.parse import parse
from gnomon_lab.cli.say import say
from gnomon_lab.papers import EXPERIMENTS


@dataclass(frozen=True)
class Options:
    """The experiments, and the runs on disk."""

    runs: Path = Path("runs")
    """The folder that holds all runs."""


def main(arguments: Sequence[str]) -> int:
    """Prints both."""
    options = parse(Options, arguments, "gnomon list")
    from gnomon_lab.runs import all_runs

    say("experiments")
    for name, entry in EXPERIMENTS.items():
        say(f"  {name:<20} {entry.shows} ({entry.source})")
    say(f"runs in {options.runs}")
    for found in all_runs(options.runs):
        say(f"  {found.folder}  seed {found.seed}, {'finished' if found.finished else 'not finished'}")
    return 0
