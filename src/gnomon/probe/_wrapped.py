"""Networks inside wrappers that compile them or run them on several devices; where they are; those without shapes."""

from itertools import chain

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from gnomon.errors import UnsupportedModuleError


def unwrapped(model: nn.Module) -> nn.Module:
    """The network without wrappers that run it on several devices or compiled, which cannot be differentiated twice."""
    while True:
        if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            model = model.module
        elif "_orig_mod" in dict(model.named_children()):
            model = model.get_submodule("_orig_mod")
        else:
            return model


def device_of(model: nn.Module) -> torch.device | None:
    """Where the network is, by its first parameter; None if it has none."""
    return next((parameter.device for parameter in model.parameters()), None)


def has_shapes(model: nn.Module) -> bool:
    """Whether no layer still waits for its first samples."""
    return not any(is_lazy(tensor) for tensor in chain(model.parameters(), model.buffers()))


def check_shapes(model: nn.Module) -> None:
    """Raises UnsupportedModuleError if a layer waits for its first samples: a reading would draw its weights."""
    if not has_shapes(model):
        raise UnsupportedModuleError(
            "model", "parameters that have a shape", "lazy ones", "Run the network once before."
        )
