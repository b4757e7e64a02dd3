"""What a checkpoint says about itself besides its weights: its step, and what its network was made with."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor

from gnomon.errors import CheckpointError
from gnomon_lab.measuring.by_timm import Architecture, of_training
from gnomon_lab.measuring.checkpoint import damaged, from_safetensors, from_torch
from gnomon_lab.measuring.folders import CONFIG, beside_weights, files_at
from gnomon_lab.measuring.preprocessing import PREPROCESSOR

STEPS = ("global_step", "step", "steps", "iteration", "iter", "iterations", "iter_num", "num_updates")
EPOCHS = ("epoch", "epochs")
"""The names under which checkpoints keep when they were written."""
TRAINER_STATE = "trainer_state.json"


@dataclass(frozen=True)
class Metadata:
    """What a checkpoint says about itself.

    Attributes:
        step: its training step; None if it does not say.
        epoch: its epoch, likewise.
        made_with: the arguments of its network, by name, as Lightning's `save_hyperparameters` keeps them.
        architecture: the timm network that it belongs to; None if it does not say.
    """

    step: int | None = None
    epoch: int | None = None
    made_with: Mapping[str, Any] = field(default_factory=dict)
    architecture: Architecture | None = None


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A checkpoint among several.

    Attributes:
        path: its file or folder.
        metadata: what it says about itself.
    """

    path: Path
    metadata: Metadata

    @cached_property
    def sha256(self) -> str:
        """The hash of its files: of the weights, and of what describes the network.

        Raises:
            CheckpointError: if one cannot be read.
        """
        whole = hashlib.sha256()
        for file in contents(self.path):
            try:
                with file.open("rb") as opened:
                    whole.update(hashlib.file_digest(opened, "sha256").digest())
            except OSError as cause:
                raise damaged(file, cause) from cause
        return whole.hexdigest()

    def require_unchanged(self) -> None:
        """Raises CheckpointError if its files are no longer those that it was found with and hashed by."""
        now = look(self.path)
        before, after = ((one.sha256, one.metadata.step, one.metadata.epoch) for one in (self, now))
        if before != after:
            raise CheckpointError(
                "checkpoint",
                "a file that stays the same while it is read",
                f"{self.path}, which was written meanwhile",
                "Measure it again when it is finished.",
            )


def contents(path: Path) -> list[Path]:
    """The files of a checkpoint that a measurement reads.

    Raises:
        CheckpointError: if there are none.
    """
    beside = (path / CONFIG, path / PREPROCESSOR)
    return [*files_at(path), *(file for file in beside if file.is_file())]


def look(path: Path) -> Checkpoint:
    """What a checkpoint says about itself; its weights are not read if the format allows that.

    Raises:
        CheckpointError: if it is not a checkpoint.
    """
    file = files_at(path)[0]
    if path.is_dir():
        return Checkpoint(path, of_trainer(path / TRAINER_STATE))
    content = of_safetensors(file) if file.suffix == ".safetensors" else from_torch(file, mapped=True)
    return Checkpoint(path, metadata_of(content) if isinstance(content, Mapping) else Metadata())


def of_safetensors(file: Path) -> object:
    """The metadata next to the tensors; for one of gnomon's runs, the complete state, checked as it is read."""
    try:
        with safe_open(file, framework="pt") as opened:
            words = opened.metadata() or {}
    except Exception as cause:  # of whatever kind
        raise damaged(file, cause) from cause
    return from_safetensors(file) if "structure" in words else words


def of_trainer(file: Path) -> Metadata:
    """What the Trainer of transformers wrote next to the weights; nothing for other folders."""
    return metadata_of(beside_weights(file) or {})


def metadata_of(content: Mapping[Any, Any]) -> Metadata:
    """What the outermost level of a checkpoint says about it."""
    given = content.get("hyper_parameters")
    names = {name: value for name, value in given.items() if isinstance(name, str)} if isinstance(given, dict) else {}
    return Metadata(first(content, STEPS), first(content, EPOCHS), names, of_training(content))


def first(content: Mapping[Any, Any], names: Iterable[str]) -> int | None:
    """The first of these that is a count."""
    return next((found for name in names if (found := count(content.get(name))) is not None), None)


def count(value: object) -> int | None:
    """A non-negative integer, alone, in a tensor or, as safetensors files have it, in a string; None for others."""
    if isinstance(value, Tensor) and value.numel() == 1 and not value.is_meta:
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and value.isdecimal() and value.isascii():
        value = int(value[:20])
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
