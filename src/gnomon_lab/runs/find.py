"""From an experiment's name and configuration to a run's folder, and back."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnomon.errors import DataError
from gnomon_lab.runs.files import read_json, write_json
from gnomon_lab.runs.machine import machine


@dataclass(frozen=True)
class Found:
    """A run on disk: its folder and what config.json says."""

    folder: Path
    experiment: str
    config: dict[str, Any]
    seed: int
    made_with: dict[str, Any]

    @property
    def finished(self) -> bool:
        """Whether the run reached its end."""
        return (self.folder / "result.json").exists()

    @property
    def digest(self) -> str:
        """Eight letters that are the same for runs that differ in the seed alone."""
        return digest(self.experiment, self.config)


def digest(experiment: str, config: dict[str, Any]) -> str:
    """Eight letters that stand for an experiment's configuration."""
    return hashlib.sha256(json.dumps([experiment, config], sort_keys=True).encode()).hexdigest()[:8]


def open_run(root: Path, experiment: str, config: object, seed: int) -> Found:
    """The folder `root/experiment/ID` of this configuration and seed, made if it is not there; the same ID is the same.

    Raises:
        DataError: if the folder holds another configuration.
    """
    settings = plain(config)
    folder = root / experiment / f"{digest(experiment, settings)}-seed{seed}"
    if not (folder / "config.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        asked = {"experiment": experiment, "config": settings, "seed": seed, "made_with": machine()}
        write_json(folder / "config.json", asked)
    found = load_run(folder)
    if (found.experiment, found.config, found.seed) != (experiment, settings, seed):
        raise DataError(f"run({folder}): expected the same configuration, got another. Restore its config.json.")
    return found


def load_run(folder: Path) -> Found:
    """The run in a folder.

    Raises:
        DataError: if the folder is not a run's.
    """
    if not (folder / "config.json").is_file():
        raise DataError(f"run({folder}): expected a run's folder with config.json, got none. See `gnomon list`.")
    config = read_json(folder / "config.json")
    try:
        parts = (config["experiment"], config["config"], config["seed"], config["made_with"])
        return Found(folder, *parts)
    except (KeyError, TypeError) as error:
        raise DataError(
            f"run({folder}): expected experiment, config, seed and made_with in config.json, got no {error}. "
            f"Restore the file, or delete the folder to run again."
        ) from error


def all_runs(root: Path, experiment: str | None = None) -> list[Found]:
    """The runs below `root`, of one experiment or of all, oldest first."""
    folders = [path.parent for path in root.glob(f"{experiment or '*'}/*/config.json")]
    return [load_run(folder) for folder in sorted(folders, key=lambda folder: folder.stat().st_mtime)]


def plain(config: object) -> dict[str, Any]:
    """A configuration as config.json holds it."""
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        raise DataError(f"plain(config): expected a dataclass, got {type(config).__name__}. Pass a Config().")
    return json.loads(json.dumps(dataclasses.asdict(config), default=str))
