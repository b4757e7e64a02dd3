"""One network that takes the weights of one checkpoint after another."""

import hashlib
import json
from pathlib import Path

from torch import nn

from gnomon.errors import CheckpointError, DataError
from gnomon_lab.measuring.about import Checkpoint
from gnomon_lab.measuring.by_timm import Architecture, create, of_config
from gnomon_lab.measuring.checkpoint import read_weights
from gnomon_lab.measuring.filling import Taken, load
from gnomon_lab.measuring.hugging_face import CONFIG, described, of_folder
from gnomon_lab.measuring.network import DIGITS, build, code_of, foreign


class Refilled:
    """The network that a factory builds, that timm has, or that a Hugging Face folder describes, built once.

    Args:
        first: the first of the checkpoints, from which it is built.
        factory: MODULE:FACTORY; None where `first` itself describes the network.
        key: where in a checkpoint the weights are; None for the usual places.
    Attributes:
        name: what builds it.
        code: a hash of the network, without its weights.
    Raises:
        DataError: if the factory builds no network, or there is no factory and `first` does not describe a network.
        CheckpointError: if what it says does not describe a network.
    """

    def __init__(self, first: Checkpoint, factory: str | None, key: str | None = None) -> None:
        self._first, self._key = first.path, key
        self._made: nn.Module | None = None
        self._network: nn.Module | None = None  # for a folder: it has weights from the start
        architecture = None if factory is not None else architecture_of(first)
        if factory is not None:
            self.name, self._made = factory, build(factory, first.said.made_with)
            self.code = code_of(factory, self._made)
        elif architecture is not None:
            self.name, self._made = f"timm's {architecture.name}", create(architecture)
            self.code = digest(repr(self._made))
        else:
            require_described(first.path, key)
            self.name, self.code = CONFIG, digest(json.dumps(described(first.path), sort_keys=True))

    def fill(self, path: Path) -> tuple[nn.Module, Taken]:
        """The network, the same object each time, with the weights of a checkpoint, and what was taken from it.

        Raises:
            CheckpointError: if it cannot be read, or its weights are not the network's.
        """
        weights = read_weights(path)
        if self._made is not None:
            with foreign("a network that takes its weights", "Measure it where it can be filled."):
                return self._made, load(self._made, weights, self._key)
        if path != self._first and described(path) != described(self._first):
            raise CheckpointError(
                "checkpoint", f"the network of {self._first}", f"another in {path / CONFIG}", "Measure them apart."
            )
        made, taken = of_folder(path, weights)
        if self._network is None:
            self._network = made
        else:
            self._network.load_state_dict(made.state_dict())
        return self._network, taken


def architecture_of(first: Checkpoint) -> Architecture | None:
    """The timm network that a file or a folder names; None if it names none."""
    if (first.path / CONFIG).is_file():
        return of_config(described(first.path))
    return first.said.architecture


def require_described(folder: Path, key: str | None) -> None:
    """Raises DataError unless this is a folder that describes its network, and no key is requested in it."""
    if not (folder / CONFIG).is_file():
        raise DataError(
            "--model",
            "MODULE:FACTORY, what builds the network, such as nets:small for small() in nets.py",
            f"none, and no folder with a {CONFIG} which would say it",
            "Name it.",
        )
    if key is not None:
        raise DataError("--key", f"none where {CONFIG} says the network", key, "Name a --model too.")


def digest(words: str) -> str:
    """A hash of a string."""
    return hashlib.sha256(words.encode()).hexdigest()[:DIGITS]
