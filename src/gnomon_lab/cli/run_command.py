"""`gnomon run NAME`: run an experiment, or resume it where it stopped."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from gnomon.errors import DataError
from gnomon_lab.cli.parse import parse, without_none
from gnomon_lab.papers import EXPERIMENTS, experiment

if TYPE_CHECKING:
    from gnomon_lab.settings import Settings

MOST = 10_000
"""Seeds of one command."""


@dataclass(frozen=True)
class Options:
    """The options of every experiment."""

    seeds: str = "0"
    """One or more: 0, 0-9, or 0,3,5. One run each."""
    small: tyro.conf.FlagCreatePairsOff[bool] = False
    """Variant that takes minutes on two CPU cores; the default."""
    paper: tyro.conf.FlagCreatePairsOff[bool] = False
    """The paper's setting, or where it prints none, that of the authors' code."""
    runs: Path = Path("runs")
    """The folder that holds all runs."""
    data_dir: Path | None = None
    """The folder of the data sets, the only one searched; default: that of GNOMON_DATA, then the Hugging Face hub."""
    workers: int | None = None
    """How many runs at a time, for several seeds; default: one on this machine, all on Slurm."""
    on: str | None = None
    """Where seeds run: dask://HOST:PORT, slurm, or slurm:local to try slurm here; default: on this machine."""


@dataclass(frozen=True)
class Named(Options):
    """Run an experiment, or resume it where it stopped. `gnomon run NAME --help` shows its own options."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME", help_behavior_hint="(comes first)")] = ""
    """The experiment; `gnomon list` names them all."""


def main(arguments: Sequence[str]) -> int:
    """Runs the experiment once for each seed that has not been run yet."""
    if not arguments or arguments[0].startswith("-"):
        parse(Named, arguments, "gnomon run")
        raise DataError(
            None, "an experiment's name first", None, f"There are: {', '.join(EXPERIMENTS)}.", where="gnomon run"
        )
    name, rest = arguments[0], arguments[1:]
    chosen = experiment(name)
    default = chosen.paper if "--paper" in rest else chosen.small

    def both(options: Options, config: "Settings") -> tuple[Options, "Settings"]:
        return options, config

    # Known only now: the type whose fields become options, and the variant that gives their defaults.
    both.__annotations__ = {"options": unnamed(without_none(Options)), "config": unnamed(with_ranges(type(default)))}
    both.__defaults__ = (Options(), default)
    options, config = parse(both, rest, f"gnomon run {name}", f"{chosen.entry.shows} ({chosen.entry.source})")
    if options.small and options.paper:
        raise DataError(None, "--small or --paper", "both", "Choose one.", where="gnomon run")
    if options.paper and chosen.paper == chosen.small:
        print(f"{name} has no other setting for --paper than its default", file=sys.stderr)
    if options.data_dir is not None and not options.data_dir.is_dir():
        raise DataError("--data-dir", "a folder", f"{str(options.data_dir)!r}", "Correct the path.")
    wanted = seeds(options.seeds)
    from gnomon_lab.cli.execute import execute, execute_many

    if len(wanted) == 1 and options.on is None and options.workers is None:
        return execute(chosen, config, wanted[0], options.runs, options.data_dir)
    return execute_many(chosen, config, wanted, options.runs, options.data_dir, options.on, options.workers)


def with_ranges(config: "type[Settings]") -> "type[Settings]":
    """The type, whose help gives each field's range next to its default."""
    from gnomon_lab.settings import ranges

    hints = {field.name: field.type for field in fields(config)}
    for name, wanted in ranges(config).items():
        shown = partial("({}; default: {})".format, wanted.words)
        config.__annotations__[name] = Annotated[hints[name], tyro.conf.arg(help_behavior_hint=shown)]
    return config


def unnamed(config: type) -> object:
    """The type, with options that have the names of its fields."""
    return Annotated[config, tyro.conf.arg(name=""), tyro.conf.FlagCreatePairsOff]


def seeds(text: str) -> list[int]:
    """The seeds of `0`, `0-9` or `0,3,5`.

    Raises:
        DataError: if one is not a number, or a range is descending.
    """
    from gnomon_lab.runs.find import SEEDS

    found: list[int] = []
    for part in text.split(","):
        words = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part, re.ASCII)
        # Ten digits are already too many, and Python does not parse numbers of thousands of digits.
        first, final = (
            (int(word.lstrip("0")[:10] or 0) for word in (words[1], words[2] or words[1])) if words else (1, 0)
        )
        if final < first:
            raise DataError("--seeds", "numbers like 0, 0-9 or 0,3,5", f"{text[:80]!r}", "Correct it.")
        if final >= SEEDS or len(found) + final - first >= MOST:
            raise DataError("--seeds", "seeds below 10^9, 10,000 at most", f"{text[:80]!r}", "Ask for fewer.")
        found += range(first, final + 1)
    return list(dict.fromkeys(found))
