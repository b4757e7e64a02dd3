"""From an experiment's name and configuration to a run's folder, and back."""

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gnomon.errors import DataError
from gnomon_lab.runs.files import read_json, write_json
from gnomon_lab.runs.machine import machine
from gnomon_lab.runs.records import Record, read_records


@dataclass(frozen=True)
class Found:
    """A run on disk: its folder and what config.json says; `made_with` holds each machine that worked on it."""

    folder: Path
    experiment: str
    config: dict[str, Any]
    seed: int
    made_with: list[dict[str, object]]
    started: str

    @property
    def finished(self) -> bool:
        """Whether the run reached its end."""
        return (self.folder / "result.json").exists()

    def begin(self) -> None:
        """Notes in config.json what the run goes on with, if that is another machine or other versions than before."""
        here = machine()
        if here not in self.made_with:
            self.made_with.append(here)
            path = self.folder / "config.json"
            write_json(path, read_json(path) | {"made_with": self.made_with})

    def finish(self, **result: object) -> None:
        """Writes result.json, which says that the run is finished and seals its records."""
        write_json(self.folder / "result.json", result | {"records_sha256": self._records_hash()})

    def records(self) -> list[Record]:
        """The records; of a finished run, those that it finished with.

        Raises:
            DataError: if they are damaged, missing, or were changed since.
        """
        path = self.folder / "records.jsonl"
        if self.finished and read_json(self.folder / "result.json").get("records_sha256") != self._records_hash():
            raise DataError(
                f"read_records({path}): expected the records that the run finished with, got others or none. "
                f"Restore the file, or delete the run's folder to run again."
            )
        return read_records(path)

    def _records_hash(self) -> str:
        path = self.folder / "records.jsonl"
        return hashlib.sha256(path.read_bytes() if path.exists() else b"").hexdigest()

    def has_one_of(self, settings: Iterable[object]) -> bool:
        """Whether its configuration is one of these; those that claims are about are an experiment's SETTINGS."""
        return self.config in [plain(setting) for setting in settings]

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
        asked = {"experiment": experiment, "config": settings, "seed": seed, "made_with": []}
        asked["started"] = datetime.now(UTC).isoformat()
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
        made_with = config["made_with"]
        machines = [made_with] if isinstance(made_with, dict) else made_with  # one alone, in runs begun before 0.1
        return Found(folder, config["experiment"], config["config"], config["seed"], machines, config["started"])
    except (KeyError, TypeError) as error:
        raise DataError(
            f"run({folder}): expected experiment, config, seed, made_with and started in config.json, got no {error}. "
            f"Restore the file, or delete the folder to run again."
        ) from error


def all_runs(root: Path, experiment: str | None = None) -> list[Found]:
    """The runs below `root`, of one experiment or of all, oldest first."""
    runs = [load_run(path.parent) for path in root.glob(f"{experiment or '*'}/*/config.json")]
    return sorted(runs, key=lambda run: run.started)


def plain(config: object) -> dict[str, Any]:
    """A configuration as config.json holds it."""
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        raise DataError(f"plain(config): expected a dataclass, got {type(config).__name__}. Pass a Config().")
    return json.loads(json.dumps(dataclasses.asdict(config), default=str))
