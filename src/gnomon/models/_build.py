"""How networks of convolutions and BatchNorm are built and initialised."""

import math
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from gnomon import _checks

Network = TypeVar("Network", bound=nn.Module)


def build(make: Callable[[], Network], generator: torch.Generator | None, **sizes: int) -> Network:
    """The network that `make` builds, its weights drawn from `generator`.

    A size that is not a whole number of at least 1 is a RangeError.

    Convolution weights are drawn from a normal distribution with variance 2 / fan-out; BatchNorm starts as the
    identity, linear layers with PyTorch's default initialisation.
    """
    _checks.settings(*(_checks.whole_number(name, value, 1) for name, value in sizes.items()))
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
