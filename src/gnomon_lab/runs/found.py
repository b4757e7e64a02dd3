"""A run on disk: what its folder holds, sealed once it is finished."""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnomon.errors import DataError
from gnomon_lab.runs.checkpoint import load_of_run
from gnomon_lab.runs.files import Json, read_bytes, read_json_object, sync, write_json
from gnomon_lab.runs.machine import machine
from gnomon_lab.runs.records import Finished, Record, parse_records, require_sealed, seals_in

LONGEST = 10**12
"""Runs take fewer seconds."""
AGAIN = "Restore it, or delete it: the same `gnomon run` then finishes the run again."
AFRESH = "Restore it, or delete the folder to run again."
RESULT: dict[str, Callable[[Json], object]] = {
    "summary": lambda value: isinstance(value, str),
    "seconds": lambda value: type(value) in (int, float) and 0 <= value < LONGEST,
}
"""The entries of result.json that are printed, and what is valid for each that is there."""


@dataclass(frozen=True)
class Found:
    """A run on disk: its folder and what config.json says; `made_with` lists each machine that worked on it."""

    folder: Path
    experiment: str
    config: dict[str, Any]
    seed: int
    made_with: list[dict[str, object]]
    started: str

    @property
    def finished(self) -> bool:
        """Whether the run reached its end."""
        return self._result_path.exists()

    @property
    def ended_ns(self) -> int:
        """When the run reached its end, in nanoseconds since 1970, as files have it."""
        return self._result_path.stat().st_mtime_ns

    def begin(self) -> None:
        """Notes in config.json what the run continues with, if the machine or the versions differ from those before."""
        here = machine()
        if here not in self.made_with:
            self.made_with.append(here)
            path = self.folder / "config.json"
            write_json(path, read_json_object(path) | {"made_with": self.made_with})

    def finish(self, **result: object) -> None:
        """Writes result.json, which says that the run is finished and seals its configuration and its records."""
        sync(self.folder / "records.jsonl")
        sealed = result | {"config_sha256": self._hash("config.json"), "records_sha256": self._hash("records.jsonl")}
        write_json(self._result_path, sealed | {"sha256": _sha256(sealed)})

    def result(self) -> dict[str, Json]:
        """The contents of result.json.

        Raises:
            DataError: if it or config.json was altered since the run finished, or an entry is not what it should be.
        """
        path = self._result_path
        result = read_json_object(path, AGAIN)
        if result.pop("sha256", None) != _sha256(result) or not {"config_sha256", "records_sha256"} <= result.keys():
            got = "another: the file was altered"
            raise DataError(path, "the result that the run finished with", got, AGAIN, where="run")
        self._require_seal("config.json", result["config_sha256"])
        if wrong := [name for name, right in RESULT.items() if name in result and not right(result[name])]:
            got = ", ".join(repr(result[name]) for name in wrong)
            raise DataError(path, f"a sound {' and '.join(wrong)}", got, AGAIN, where="run")
        return result

    def records(self) -> list[Record]:
        """The records; for a finished run, those that it finished with.

        Raises:
            DataError: if they are damaged or missing, or were changed since; if the run is not finished, since the
                checkpoint that relies on them.
            CheckpointError: if the run is not finished, and a checkpoint is damaged.
        """
        path = self.folder / "records.jsonl"
        if not self.finished:
            seals = seals_in(self.folder)  # before the records, which may grow meanwhile
            content = read_bytes(path)
            require_sealed(path, content, seals)
            return parse_records(path, content)
        self.require_whole()
        commit = self.made_with[-1].get("commit") if self.made_with else None
        return [Finished(record, self.folder, commit) for record in parse_records(path, read_bytes(path))]

    def require_whole(self) -> None:
        """Raises DataError if the finished run's configuration, records or result were altered since."""
        self._require_seal("records.jsonl", self.result()["records_sha256"])

    def reached(self) -> dict[str, tuple[int, bool]]:
        """The step of each arm's checkpoint, and whether the arm is finished; the arm trained last comes last.

        Raises:
            CheckpointError: if a checkpoint is damaged, or belongs to another run or arm.
        """
        paths = sorted(self.folder.glob("checkpoint-*.safetensors"), key=lambda path: path.lstat().st_mtime_ns)
        saved = [load_of_run(path) for path in paths]
        return {state["arm"]: (state["step"], state["finished"]) for state in saved}

    def _require_seal(self, name: str, expected: str) -> None:
        if self._hash(name) != expected:
            raise DataError(
                self.folder / name,
                "what the run finished with",
                "another file or none: it was altered",
                f"Restore it, or delete {self._result_path}: the same `gnomon run` then finishes the run "
                "again, or says what to train again.",
                where="run",
            )

    @property
    def _result_path(self) -> Path:
        return self.folder / "result.json"

    def _hash(self, name: str) -> str:
        return hashlib.sha256(read_bytes(self.folder / name)).hexdigest()

    def has_one_of(self, settings: Iterable[object]) -> bool:
        """Whether its configuration is one of these."""
        return self.config in [plain(setting) for setting in settings]

    @property
    def name(self) -> str:
        """Where it belongs below the folder of all runs: `experiment/ID`."""
        return f"{self.experiment}/{self.digest}-seed{self.seed}"

    @property
    def digest(self) -> str:
        """Eight characters that are the same for runs that differ only in the seed."""
        return digest(self.experiment, self.config)


def _sha256(value: Json) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def digest(experiment: str, config: dict[str, Any]) -> str:
    """Eight characters that stand for an experiment's configuration."""
    return _sha256([experiment, config])[:8]


def plain(config: object) -> dict[str, Any]:
    """A configuration as config.json holds it."""
    if not dataclasses.is_dataclass(config) or isinstance(config, type):
        raise DataError("config", "a dataclass", type(config).__name__, "Pass a Config().", where="plain")
    return json.loads(json.dumps(dataclasses.asdict(config), default=str))
