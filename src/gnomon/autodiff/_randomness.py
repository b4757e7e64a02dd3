"""Which random numbers a network draws, and whether results differ."""

from contextlib import AbstractContextManager

import torch
from jaxtyping import Shaped
from torch import Tensor, nn


def draws(module: nn.Module) -> bool:
    """Whether it is one of torch's layers that draw random numbers in training mode, in that mode."""
    if not module.training:
        return False
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return 0 < module.p < 1
    if isinstance(module, nn.RReLU):
        return module.lower < module.upper
    if isinstance(module, nn.RNNBase):
        return module.num_layers > 1 and 0 < module.dropout < 1
    return isinstance(module, nn.MultiheadAttention) and 0 < module.dropout < 1


def forked(x: Tensor) -> AbstractContextManager[None]:
    """Afterwards, torch's generators, those of the processor and of the samples' device, are as they were."""
    return torch.random.fork_rng([x.device.index] if x.is_cuda else [])


def states(x: Tensor) -> list[Tensor]:
    """The states of these generators."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state(x.device)] if x.is_cuda else [])]


def differ(one: Shaped[Tensor, "*c"], other: Shaped[Tensor, "*c"]) -> bool:
    """Whether two results differ by more than rounding; where they are NaN, they do not."""
    if not one.is_floating_point() or one.numel() == 0:
        return not torch.equal(one, other)
    scale = torch.maximum(one.abs().max(), other.abs().max())
    return bool((one - other).abs().max() > torch.finfo(one.dtype).eps ** 0.5 * scale)
