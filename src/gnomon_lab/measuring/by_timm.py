"""The network of a checkpoint as timm writes them, made by timm from its name."""

import argparse
import importlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import nn

from gnomon.errors import CheckpointError, GnomonError
from gnomon_lab.measuring.network import said

ARGUMENTS = ("num_classes", "in_chans")
"""Of what a network is made with, the numbers that its weights' shapes follow from."""
LARGEST = 2**20
"""Of these."""


class Architecture(NamedTuple):
    """A network of timm's.

    Attributes:
        name: as `timm.create_model` has it.
        arguments: what else that is given.
    """

    name: str
    arguments: Mapping[str, int]


def of_training(content: Mapping[Any, Any]) -> Architecture | None:
    """What a checkpoint of timm's training script was of, or one of the same form; None of others."""
    options = content.get("args")
    return named(content.get("arch"), vars(options) if isinstance(options, argparse.Namespace) else {})


def of_config(config: Mapping[str, Any]) -> Architecture | None:
    """What the `config.json` of a folder of timm's says; None of others."""
    inner = config.get("model_args")
    return named(config.get("architecture"), {**config, **(inner if isinstance(inner, dict) else {})})


def named(name: object, given: Mapping[str, object]) -> Architecture | None:
    """The architecture, with those of its arguments that are whole numbers; none that names a place."""
    if not (isinstance(name, str) and re.fullmatch(r"\w[\w.]*", name)):
        return None
    numbers = {key: value for key in ARGUMENTS if isinstance(value := given.get(key), int) and 0 < value < LARGEST}
    return Architecture(name, numbers)


def create(architecture: Architecture) -> nn.Module:
    """Has timm make the network, without weights.

    Raises:
        CheckpointError: if timm is not there, or has no such network.
    """
    advice = "Name what builds yours: --model MODULE:FACTORY."
    try:
        timm = importlib.import_module("timm")
    except Exception as cause:  # a broken one is no better than none
        raise CheckpointError(
            "checkpoint",
            f"timm, which makes {architecture.name}",
            said(cause),
            "Install it, or name what builds yours: --model MODULE:FACTORY.",
        ) from cause
    if not timm.is_model(architecture.name):
        raise CheckpointError("checkpoint", "a network that timm has", repr(architecture.name), advice)
    try:
        made = timm.create_model(architecture.name, pretrained=False, **architecture.arguments)
    except (GnomonError, MemoryError):
        raise
    except Exception as cause:  # of whatever kind
        raise CheckpointError("checkpoint", f"what timm makes {architecture.name} of", said(cause), advice) from cause
    if not isinstance(made, nn.Module):
        raise CheckpointError("checkpoint", f"a network from timm for {architecture.name}", type(made).__name__, advice)
    return made
