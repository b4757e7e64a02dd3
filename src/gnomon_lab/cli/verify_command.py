"""`gnomon verify`: check the papers' claims against the finished runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from gnomon.errors import DataError, EmptyError, GnomonError
from gnomon_lab.cli.parse import parse
from gnomon_lab.cli.say import say
from gnomon_lab.papers import EXPERIMENTS, experiment

if TYPE_CHECKING:
    from rich.table import Table

    from gnomon_lab.cli.terminal import Terminal
    from gnomon_lab.experiment import Experiment
    from gnomon_lab.runs import Claim, Found
    from gnomon_lab.settings import Settings


@dataclass(frozen=True)
class Options:
    """Check the papers' claims against the finished runs of the settings that they are about.

    Exit code 1 if one is not reproduced, or a run was left out because its files are damaged or of
    another version.
    """

    name: tyro.conf.Positional[str] = ""
    """One experiment; default: all of them."""
    runs: Path = Path("runs")
    """The folder that holds all runs."""


def main(arguments: Sequence[str]) -> int:
    """Prints the boards: reproduced, not reproduced (with what was measured), not run."""
    options = parse(Options, arguments, "gnomon verify")
    if options.name:
        experiment(options.name)
    if not options.runs.is_dir():
        raise DataError("--runs", "a folder of runs", f"{str(options.runs)!r}, which is none", "Correct the path.")
    from gnomon_lab.cli.terminal import Terminal

    console, boards, left_out = Terminal(), list[list[bool]](), list[str]()
    for name in [options.name] if options.name else EXPERIMENTS:
        found, damaged = verified(name, options.runs, console)
        boards += found
        left_out += damaged
    for sentence in left_out:
        say(f"left out: {sentence}", console, style="red")
    if not (boards or left_out):
        raise EmptyError(
            "--runs",
            "finished runs of the settings that claims are about",
            f"none in {options.runs}",
            f"Call `gnomon run {options.name or next(iter(EXPERIMENTS))}` with the same --runs first.",
        )
    return int(bool(left_out) or not all(map(all, boards)))


def verified(name: str, root: Path, console: "Terminal") -> tuple[list[list[bool]], list[str]]:
    """Prints an experiment's board for each setting that claims are about.

    Returns:
        Which claims hold on each board; and what is wrong with runs that cannot be judged.
    """
    chosen = experiment(name)
    groups, damaged = by_setting(root, chosen)
    boards = list[list[bool]]()
    finished = {digest: [run for run in runs if run.finished] for digest, runs in groups.items()}
    title = f"{name} ({EXPERIMENTS[name].source})"
    if not any(finished.values()):
        under_way = "".join(f"; {of_seeds(runs)}" for runs in groups.values())
        say(f"{title}: not run{under_way}", console, style="bold")
        return boards, damaged
    say(title, console, style="bold")
    for digest, runs in finished.items():
        place = f"{root / name / digest}-*, {of_seeds(groups[digest])}"
        try:
            claims = chosen.claims([run.records() for run in runs]) if runs else []
        except GnomonError as error:  # such as of records that another version made
            damaged.append(str(error))
            continue
        if claims:
            console.print(board(claims, place))
        else:
            say(f"{place}: {'makes no claims' if runs else 'not finished'}", console)
        if runs:
            boards.append([claim.holds for claim in claims])
    return boards, damaged


def by_setting(root: Path, of: "Experiment[Settings]") -> "tuple[dict[str, list[Found]], list[str]]":
    """The runs that claims are about, by their setting's digest; and what is wrong with others."""
    from gnomon_lab.runs import all_runs

    groups: dict[str, list[Found]] = {}
    runs, damaged = all_runs(root, of.name)
    for found in sorted(runs, key=lambda run: (run.digest, run.seed)):
        if found.has_one_of(of.settings):
            groups.setdefault(found.digest, []).append(found)
    return groups, damaged


def of_seeds(runs: Sequence["Found"]) -> str:
    """The seeds of runs, those that are not finished apart."""
    done, begun = (sorted(run.seed for run in runs if run.finished is state) for state in (True, False))
    parts = [f"seed{'s' * (len(done) > 1)} {', '.join(map(str, done))}"] if done else []
    return "; ".join(parts + ([f"unfinished: {', '.join(map(str, begun))}"] if begun else []))


def board(claims: Sequence["Claim"], caption: str) -> "Table":
    """The table of what is claimed and what was measured."""
    from rich.table import Table
    from rich.text import Text

    table = Table("claim", "expected", "measured", "verdict", caption=caption)
    for column in table.columns:
        column.overflow = "fold"  # words that are too long for a narrow terminal are broken, not cut
    for claim in claims:
        verdict = Text("reproduced", "green") if claim.holds else Text("not reproduced", "red")
        table.add_row(claim.message, claim.expected, claim.measured, verdict)
    return table
