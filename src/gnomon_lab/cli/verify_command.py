"""`gnomon verify`: check the papers' claims against the finished runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from gnomon.errors import DataError, EmptyError
from gnomon_lab.cli.parse import parse
from gnomon_lab.cli.say import say
from gnomon_lab.papers import EXPERIMENTS, experiment

if TYPE_CHECKING:
    from rich.table import Table

    from gnomon_lab.experiment import Experiment
    from gnomon_lab.runs import Claim, Record
    from gnomon_lab.settings import Settings


@dataclass(frozen=True)
class Options:
    """Check the papers' claims against the finished runs of the --small and --paper settings.

    Exit code 1 if one is not reproduced, or a run was left out because its files are damaged.
    """

    name: tyro.conf.Positional[str] = ""
    """One experiment; default: all of them."""
    runs: Path = Path("runs")
    """The folder that holds all runs."""


def main(arguments: Sequence[str]) -> int:
    """Prints the board: reproduced, not reproduced (with what was measured), not run."""
    options = parse(Options, arguments, "gnomon verify")
    if options.name:
        experiment(options.name)
    if not options.runs.is_dir():
        raise DataError("--runs", "a folder of runs", f"{str(options.runs)!r}, which is none", "Correct the path.")
    from gnomon_lab.cli.terminal import Terminal

    console, verdicts, left_out = Terminal(), list[bool](), list[str]()
    for name in [options.name] if options.name else EXPERIMENTS:
        groups, damaged = by_setting(options.runs, experiment(name))
        left_out += damaged
        say(f"{name} ({EXPERIMENTS[name].source})" + ("" if groups else ": not run"), console, style="bold")
        for digest, seeds in groups.items():
            claims = experiment(name).claims(seeds)
            verdicts += [claim.holds for claim in claims]
            console.print(board(claims, f"{options.runs / name / digest}-*"))
    for sentence in left_out:
        say(f"left out: {sentence}", console, style="red")
    if not verdicts:
        raise EmptyError(
            "--runs",
            "finished runs of the settings that claims are about",
            f"none in {options.runs}",
            f"Call `gnomon run {options.name or next(iter(EXPERIMENTS))}` first.",
        )
    return int(bool(left_out) or not all(verdicts))


def by_setting(root: Path, of: "Experiment[Settings]") -> tuple[dict[str, list[list["Record"]]], list[str]]:
    """The records of the finished runs that claims are about, by their setting's digest; and errors in others."""
    from gnomon_lab.runs import finished_runs

    groups: dict[str, list[list[Record]]] = {}
    finished, damaged = finished_runs(root, of.name)
    for found in sorted(finished, key=lambda run: run.digest):
        if found.has_one_of(of.settings):
            groups.setdefault(found.digest, []).append(found.records())
    return groups, damaged


def board(claims: Sequence["Claim"], caption: str) -> "Table":
    """The table of what is claimed and what was measured."""
    from rich.table import Table
    from rich.text import Text

    table = Table("claim", "expected", "measured", "verdict", caption=caption)
    for claim in claims:
        verdict = Text("reproduced", "green") if claim.holds else Text("not reproduced", "red")
        table.add_row(claim.message, claim.expected, claim.measured, verdict)
    return table
