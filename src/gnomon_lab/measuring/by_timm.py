"""The network of a checkpoint written by timm, built by timm from its name."""

import argparse
import importlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import nn

from gnomon.errors import CheckpointError, GnomonError
from gnomon_lab.measuring.network import message_of

ARGUMENTS = ("num_classes", "in_chans")
"""The arguments of a network that determine the shapes of its weights."""
LARGEST = 2**20
"""Their values are below this."""


class Architecture(NamedTuple):
    """A network of timm's.

    Attributes:
        name: as `timm.create_model` takes it.
        arguments: the other arguments given to it.
    """

    name: str
    arguments: Mapping[str, int]


def of_training(content: Mapping[Any, Any]) -> Architecture | None:
    """The architecture named in a checkpoint of timm's training script, or of the same form; None for others."""
    options = content.get("args")
    return named(content.get("arch"), vars(options) if isinstance(options, argparse.Namespace) else {})


def of_config(config: Mapping[str, Any]) -> Architecture | None:
    """The architecture named in the `config.json` of a timm folder; None for others."""
    inner = config.get("model_args")
    return named(config.get("architecture"), {**config, **(inner if isinstance(inner, dict) else {})})


def named(name: object, given: Mapping[str, object]) -> Architecture | None:
    """The architecture, with those of its arguments that are integers; None if the name is that of a location."""
    if not (isinstance(name, str) and re.fullmatch(r"\w[\w.]*", name)):
        return None
    numbers = {key: value for key in ARGUMENTS if isinstance(value := given.get(key), int) and 0 < value < LARGEST}
    return Architecture(name, numbers)


def create(architecture: Architecture) -> nn.Module:
    """Has timm build the network, without weights.

    Raises:
        CheckpointError: if timm is not available, or has no such network.
    """
    advice = "Name what builds yours: --model MODULE:FACTORY."
    try:
        timm = importlib.import_module("timm")
    except Exception as cause:  # a broken one is no better than none
        raise CheckpointError(
            "checkpoint",
            f"timm, which makes {architecture.name}",
            message_of(cause),
            "Install it, or name what builds yours: --model MODULE:FACTORY.",
        ) from cause
    if not timm.is_model(architecture.name):
        raise CheckpointError("checkpoint", "a network that timm has", repr(architecture.name), advice)
    try:
        made = timm.create_model(architecture.name, pretrained=False, **architecture.arguments)
    except (GnomonError, MemoryError):
        raise
    except Exception as cause:  # of whatever kind
        raise CheckpointError(
            "checkpoint", f"what timm makes {architecture.name} of", message_of(cause), advice
        ) from cause
    if not isinstance(made, nn.Module):
        raise CheckpointError("checkpoint", f"a network from timm for {architecture.name}", type(made).__name__, advice)
    return made
