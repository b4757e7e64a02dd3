"""One network that takes the weights of one checkpoint after another."""

import hashlib
import json
from pathlib import Path

from torch import nn

from gnomon.errors import CheckpointError, DataError
from gnomon_lab.measuring.about import Checkpoint
from gnomon_lab.measuring.checkpoint import read_weights
from gnomon_lab.measuring.filling import Taken, load
from gnomon_lab.measuring.hugging_face import CONFIG, described, of_folder
from gnomon_lab.measuring.network import DIGITS, build, code_of, foreign


class Refilled:
    """The network that a factory builds, or that a folder of Hugging Face describes, made once.

    Args:
        first: of the checkpoints, by which it is made.
        factory: MODULE:FACTORY; None where `first` says the network itself.
        key: where in a checkpoint the weights stand; None for where they usually do.

    Raises:
        DataError: if the factory builds no network, or there is none and `first` is no folder that describes one.
        CheckpointError: if what it says is no description of a network.
    """

    def __init__(self, first: Checkpoint, factory: str | None, key: str | None = None) -> None:
        self._first, self._factory, self._key = first.path, factory, key
        self._network: nn.Module | None = None
        if factory is not None:
            self._network = build(factory, first.said.made_with)
            return
        if not (first.path / CONFIG).is_file():
            raise DataError(
                "--model",
                "MODULE:FACTORY, what builds the network, such as nets:small for small() in nets.py",
                f"none, and no folder with a {CONFIG} which would say it",
                "Name it.",
            )
        if key is not None:
            raise DataError("--key", f"none where {CONFIG} says the network", key, "Name a --model too.")

    @property
    def code(self) -> str:
        """A hash of what the network is, without its weights."""
        if self._factory is not None and self._network is not None:
            return code_of(self._factory, self._network)
        return hashlib.sha256(json.dumps(described(self._first), sort_keys=True).encode()).hexdigest()[:DIGITS]

    def fill(self, path: Path) -> tuple[nn.Module, Taken]:
        """The network, the same each time, with the weights of a checkpoint, and what was taken of that.

        Raises:
            CheckpointError: if it cannot be read, or its weights are not the network's.
        """
        weights = read_weights(path)
        if self._factory is not None and self._network is not None:
            with foreign("a network that takes its weights", "Measure it where it can be filled."):
                return self._network, load(self._network, weights, self._key)
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
