"""How networks of convolutions and BatchNorm are built and initialised."""

import math
from collections.abc import Callable
from itertools import starmap
from typing import TypeVar

import torch
from torch import nn

from gnomon import _checks

Network = TypeVar("Network", bound=nn.Module)


def size(name: str, value: int) -> tuple[str, int, str, bool]:
    """The number as a setting that is right if it is whole and at least 1."""
    return name, value, "at least 1 and whole", _checks.whole(value, 1)


def build(make: Callable[[], Network], generator: torch.Generator | None, **sizes: int) -> Network:
    """The network that `make` builds, its weights drawn from `generator`; RangeError unless each is a `size`.

    Convolution weights are drawn from a normal distribution with variance 2 / fan-out; BatchNorm starts as the
    identity, linear layers with PyTorch's default initialisation.
    """
    _checks.settings(*starmap(size, sizes.items()))
    with torch.device("meta"):
        model = make()
    model = model.to_empty(device="cpu")
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu", generator=generator)
        elif isinstance(module, nn.BatchNorm2d):
            module.reset_parameters()
        elif isinstance(module, nn.Linear):
            bound = 1 / math.sqrt(module.in_features)
            for parameter in module.parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return model
