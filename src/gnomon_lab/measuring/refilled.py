"""One network that takes the weights of one checkpoint after another."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

from gnomon.errors import CheckpointError, DataError
from gnomon_lab.measuring.about import Checkpoint
from gnomon_lab.measuring.by_timm import Architecture, create, of_config
from gnomon_lab.measuring.checkpoint import read_weights
from gnomon_lab.measuring.filling import Loaded, load
from gnomon_lab.measuring.folders import CONFIG
from gnomon_lab.measuring.hugging_face import described, of_folder
from gnomon_lab.measuring.network import build, code_of, foreign, moved_to, short_hash, taken_by
from gnomon_lab.measuring.preprocessing import preprocessor_of


class Refilled:
    """The network that a factory builds, that timm has, or that a Hugging Face folder describes, built once.

    Args:
        first: the first of the checkpoints, from which it is built.
        factory: MODULE:FACTORY; None where `first` itself describes the network.
        key: where in a checkpoint the weights are; None for the usual places.
        device: where to compute.
        dtype: the dtype to compute in.
    Attributes:
        name: what builds it.
        code: a hash of the network, without its weights.
        described: whether a Hugging Face folder describes the network.
        preprocessor: what the folder that describes the network says about the values of images; None without that.
    Raises:
        DataError: if the factory builds no network, or there is no factory and `first` does not describe a network.
        CheckpointError: if what it says does not describe a network.
    """

    def __init__(
        self, first: Checkpoint, factory: str | None, key: str | None, device: torch.device, dtype: torch.dtype
    ) -> None:
        self._first, self._factory, self._key, self._device, self._dtype = first, factory, key, device, dtype
        self._made: nn.Module | None = None
        self._network: nn.Module | None = None  # for a folder: it has weights from the start
        architecture = None if factory is not None else architecture_of(first)
        if factory is not None:
            self.name, self._made = factory, build(factory, first.metadata.made_with)
            self.code = code_of(factory, self._made)
        elif architecture is not None:
            self.name, self._made = f"timm's {architecture.name}", create(architecture)
            self.code = short_hash(repr(self._made))
        else:
            require_described(first.path, key)
            self.name, self.code = CONFIG, short_hash(json.dumps(described(first.path), sort_keys=True))
        self.described = self._made is None
        self.preprocessor = None if factory is not None else preprocessor_of(first.path)

    def fill(self, one: Checkpoint) -> tuple[nn.Module, Loaded]:
        """The network in eval mode, the same object each time, with a checkpoint's weights, and what was taken from it.

        It has its dtype before it gets the weights, which are rounded to no other, and is in train mode meanwhile: eval
        mode may merge weights, as with LoRA.

        Raises:
            CheckpointError: if it cannot be read, or its weights are not the network's, or it belongs to another.
            DataError: if the network cannot be moved, set to a mode, or filled.
        """
        path, weights = one.path, read_weights(one.path)
        self._require_same(one)
        if self._made is not None:
            network = self._made
            with foreign("a network that takes its weights", "Measure it where it can be filled."):
                network.to(self._device, self._dtype)
                network.train()
                loaded = load(network, weights, self._key)
        else:
            made, loaded = of_folder(path, weights, self._dtype)
            if self._network is None:
                self._network = made
            else:
                self._network.load_state_dict(made.state_dict())
            network = self._network
        moved_to(network, self._device, self._dtype)
        return network, loaded

    def _require_same(self, one: Checkpoint) -> None:
        """Raises CheckpointError if a checkpoint says that its network is made otherwise than that of the first.

        One that does not say is measured with that of the first.
        """
        first = self._first
        if self._factory is not None:
            given, own = (taken_by(self._factory, each.metadata.made_with) for each in (first, one))
            # Among the arguments may be tensors, which == does not compare.
            if one.metadata.made_with and repr(given) != repr(own):
                raise another(first, f"one made with {in_words(own)} and not {in_words(given)}")
        elif self._made is not None:
            if (named := architecture_of(one)) is not None and named != architecture_of(first):
                raise another(first, f"{named.name} with {in_words(named.arguments)} in {one.path}")
        elif one is not first and described(one.path) != described(first.path):
            raise another(first, f"another in {one.path / CONFIG}")
        asked = None if self._factory is not None else preprocessor_of(one.path)
        if asked is not None and asked != self.preprocessor:
            raise another(first, f"one that gets other values, as {one.path / asked.file} says")


def another(first: Checkpoint, got: str) -> CheckpointError:
    """The error for a checkpoint of another network than the first."""
    return CheckpointError("checkpoint", f"the network of {first.path}", got, "Measure them apart.")


def in_words(arguments: Mapping[str, object]) -> str:
    """The arguments as they are written in a call."""
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items()) or "no arguments"


def architecture_of(first: Checkpoint) -> Architecture | None:
    """The timm network that a file or a folder names; None if it names none."""
    if (first.path / CONFIG).is_file():
        return of_config(described(first.path))
    return first.metadata.architecture


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
