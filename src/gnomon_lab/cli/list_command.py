"""`gnomon list`: the experiments, and the runs on disk."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gnomon_lab.cli.parse import parse
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

    print("experiments")
    for name, entry in EXPERIMENTS.items():
        print(f"  {name:<20} {entry.shows} ({entry.source})")
    print(f"runs in {options.runs}")
    for found in all_runs(options.runs):
        print(f"  {found.folder}  seed {found.seed}, {'finished' if found.finished else 'not finished'}")
    return 0
