"""From an experiment's name and configuration to a run's folder, and back."""

import dataclasses
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from gnomon.errors import DataError
from gnomon_lab.runs.files import Json, read_json_object, sync, write_json
from gnomon_lab.runs.found import AFRESH, Found, digest, plain

SEEDS = 10**9
"""Seeds are below this number."""
CONFIG: dict[str, Callable[[Json], object]] = {
    "experiment": lambda value: isinstance(value, str) and re.fullmatch(r"[\w-]+", value, re.ASCII),
    "config": lambda value: isinstance(value, dict),
    "seed": lambda value: type(value) is int and 0 <= value < SEEDS,
    "made_with": lambda value: isinstance(value, list) and all(isinstance(here, dict) for here in value),
    "started": lambda value: isinstance(value, str),
}
"""The entries of config.json, in the order of Found, and what is valid for each."""


def folder_of(root: Path, experiment: str, config: object, seed: int) -> Path:
    """The folder `root/experiment/ID` of a run; the same configuration and seed have the same ID."""
    return root / experiment / f"{digest(experiment, plain(config))}-seed{seed}"


def open_run(root: Path, experiment: str, config: object, seed: int) -> Found:
    """The run of this configuration and seed, begun if it does not exist.

    Raises:
        DataError: if the folder holds another configuration, or files that were altered.
    """
    settings = plain(config)
    folder = folder_of(root, experiment, config, seed)
    if not (folder / "config.json").exists():
        new = [above for above in (folder, *folder.absolute().parents) if not above.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        asked = {"experiment": experiment, "config": settings, "seed": seed, "made_with": []}
        asked["started"] = datetime.now(UTC).isoformat()
        write_json(folder / "config.json", asked)
        for above in {folder.parent, root, *(made.parent for made in new)}:
            sync(above)  # after a power failure, the run's folder is still there
    found = _sound(_read(folder))
    if found.config != settings:  # two configurations can share their eight characters
        raise DataError(folder, "the same configuration", "another", "Choose another folder --runs.", where="run")
    return found


def find_run(root: Path, experiment: str, config: object, seed: int) -> Found | None:
    """The run of this configuration and seed, if it was begun; raises as `load_run` does."""
    folder = folder_of(root, experiment, config, seed)
    return _sound(_read(folder)) if (folder / "config.json").exists() else None


def load_run(folder: Path) -> Found:
    """The run in a folder, which may be reached through links of any name, such as `latest`.

    Raises:
        DataError: if the folder is not a run's, was copied or renamed, or its config.json was altered, or what it
            finished with.
    """
    found = _read(folder)
    named = (place for place in (folder, folder.resolve()) if _ending(place) == found.name)
    return _sound(dataclasses.replace(found, folder=next(named, folder)))


def _read(folder: Path) -> Found:
    path = folder / "config.json"
    if not path.is_file():
        raise DataError(folder, "a run's folder with config.json", "none", "See `gnomon list`.", where="run")
    config = read_json_object(path, AFRESH)
    if wrong := [name for name, right in CONFIG.items() if not right(config.get(name))]:
        raise DataError(
            folder,
            "experiment, config, seed, made_with and started in config.json",
            f"no sound {', '.join(wrong)}",
            AFRESH,
            where="run",
        )
    return Found(folder, *(config[name] for name in CONFIG))


def _ending(folder: Path) -> str:
    """The last two parts of a folder's path, as they are written: a run may be a link to a folder of another name."""
    return "/".join(Path(os.path.abspath(folder)).parts[-2:])  # noqa: PTH100, resolve() would follow the link


def _sound(found: Found) -> Found:
    """The run; raises DataError if its folder has another's name, or if it is finished and was altered."""
    if (named := _ending(found.folder)) != found.name:
        raise DataError(
            found.folder / "config.json",
            f"the configuration and seed that {named} is named after",
            f"those of {found.name}: the file was altered, or its folder copied or renamed",
            AFRESH,
            where="run",
        )
    if found.finished:
        found.require_whole()
    return found


def run_at(path: Path) -> Found | None:
    """The run whose records a file is, under its own name or through a link; None for any other file.

    Raises:
        DataError: as `load_run`.
    """
    for file in (path, path.resolve()):
        config = file.with_name("config.json")
        # Histories are called records.jsonl too, and may stand beside a config.json that no run wrote.
        if file.name == "records.jsonl" and config.is_file() and {"made_with", "started"} & {*read_json_object(config)}:
            return load_run(file.parent)
    return None


def all_runs(root: Path, experiment: str | None = None) -> tuple[list[Found], list[str]]:
    """The runs below `root`, of one experiment or of all, oldest first; and why other folders cannot be read."""
    runs, damaged = [], []

    def inside(folder: Path) -> list[Path]:
        try:  # not by glob(), which passes over what may not be read
            return sorted(folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            damaged.append(str(error))
            return []

    experiments = [root / experiment] if experiment else inside(root)
    for folder in (folder for above in experiments for folder in inside(above)):
        try:
            if _is_begun(folder) and not _is_second_name(found := _read(folder), root):
                runs.append(_sound(found))
        except (DataError, OSError) as error:
            damaged.append(str(error))
    return sorted(runs, key=lambda run: run.started), damaged


def _is_begun(folder: Path) -> bool:
    """Whether this is a folder with a config.json; raises OSError where that cannot be known."""
    try:
        (folder / "config.json").stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _is_second_name(found: Found, root: Path) -> bool:
    """Whether its folder is a link, such as `latest`, to a run that is below `root` under its own name."""
    there = os.path.realpath(root / found.name)
    return _ending(found.folder) != found.name and os.path.realpath(found.folder) == there
