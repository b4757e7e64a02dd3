"""The mode in which a network is read."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.parameter import is_lazy


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode inside; afterwards modes, buffers and torch's random streams are what they were."""
    modes = {module: module.training for module in model.modules()}
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers() if not is_lazy(buffer)]
    devices = {parameter.device.index for parameter in model.parameters() if parameter.is_cuda}
    model.eval()
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode
        # Written only where a network changed its own, since a write is seen by graphs that hold the buffer.
        with torch.no_grad():
            for buffer, before in buffers:
                if not torch.equal(buffer, before):
                    buffer.copy_(before)
