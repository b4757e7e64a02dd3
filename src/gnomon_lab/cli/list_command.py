"""`gnomon list`: the experiments, and the runs on disk."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gnomon_lab.cli.parse import parse
from gnomon_lab.cli.say import say
from gnomon_lab.papers import EXPERIMENTS, experiment

if TYPE_CHECKING:
    from gnomon_lab.runs import Found


@dataclass(frozen=True)
class Options:
    """The experiments, and the runs on disk: their settings, how long they took, and what came out.

    Exit code 1 if a run was left out because its files are damaged.
    """

    runs: Path = Path("runs")
    """The folder that holds all runs."""


def main(arguments: Sequence[str]) -> int:
    """Prints both; returns 1 if a run was left out."""
    options = parse(Options, arguments, "gnomon list")
    say("experiments")
    for name, entry in EXPERIMENTS.items():
        say(f"  {name:<20} {entry.shows} ({entry.source})")
    there = options.runs.is_dir()
    say(f"runs in {options.runs}" + ("" if there else ": there is no such folder"))
    return int(there and list_runs(options.runs))


def list_runs(root: Path) -> bool:
    """Prints the runs, grouped by setting; returns whether one was left out."""
    from gnomon_lab.cli.state import state
    from gnomon_lab.report.setting import setting
    from gnomon_lab.runs import all_runs

    runs, damaged = all_runs(root)
    by_setting: dict[str, list[Found]] = {}
    for found in runs:
        known = found.experiment in EXPERIMENTS
        words = setting(experiment(found.experiment), found) if known else "of an experiment that is not known here"
        by_setting.setdefault(f"{found.experiment}, {words}", []).append(found)
    for words, group in by_setting.items():
        say(f"  {words}")
        for found in group:
            say(f"    {found.folder}  seed {found.seed}, {state(found)}")
            if found.finished and (summary := found.result().get("summary")):
                say(f"      {summary}")
    for sentence in damaged:
        say(f"  left out: {sentence}")
    if not (runs or damaged):
        say("  none")
    return bool(damaged)
