"""What the runs of an experiment were asked for, where that tells them apart."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gnomon_lab.runs.options import option

LARGEST = 1 << 20
"""The most bytes of a configuration."""


@dataclass(frozen=True)
class Asked:
    """What a run was asked for: its experiment and, by option, the setting as JSON."""

    experiment: str
    options: dict[str, str]


def asked_at(records: Path) -> Asked | None:
    """What config.json beside a run's records says; None without one that can be read."""
    path = records.with_name("config.json")
    try:
        if records.name != "records.jsonl" or not path.is_file() or path.stat().st_size > LARGEST:
            return None
        told = json.loads(path.read_bytes())
        return Asked(str(told["experiment"]), {name: json.dumps(value) for name, value in told["config"].items()})
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None


def told_apart(runs: Mapping[Path, Asked | None]) -> dict[Path, str]:
    """For each run the options in which the runs of its experiment differ, as options of `gnomon run`."""
    there = [asked for asked in runs.values() if asked is not None]
    differ = {name: _differing(asked for asked in there if asked.experiment == name) for name in _experiments(there)}
    return {path: _words(asked, differ[asked.experiment]) if asked else "" for path, asked in runs.items()}


def _experiments(runs: Iterable[Asked]) -> set[str]:
    return {asked.experiment for asked in runs}


def _differing(runs: Iterable[Asked]) -> set[str]:
    """The options that not all have, or not all with the same setting."""
    first, *others = (asked.options.items() for asked in runs)
    return {name for other in others for name, _ in first ^ other}


def _words(asked: Asked, names: set[str]) -> str:
    return " ".join(option(name, json.loads(value)) for name, value in asked.options.items() if name in names)
