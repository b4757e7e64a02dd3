"""How a network is read: in eval mode, exactly, and so that nothing of the reading stays behind."""

import sys
from collections.abc import Iterator, Set
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parameter import is_lazy

from gnomon.autodiff.layers import same


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode inside; afterwards modes, buffers and torch's random streams are what they were."""
    modes = {module: module.training for module in model.modules()}
    buffers = [
        (module, name, buffer, buffer.clone())
        for module in modes
        for name, buffer in module.named_buffers(recurse=False)
        if not is_lazy(buffer)
    ]
    devices = {parameter.device for parameter in model.parameters()}
    # Not by `eval()`: a network's own may do more, such as merging LoRA's weights, and only its `train` undoes that.
    for module in modes:
        module.training = False
    try:
        with (
            plain({"cpu", *(device.type for device in devices)}),
            torch.random.fork_rng([device.index for device in devices if device.type == "cuda"]),
        ):
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode
        with torch.no_grad():
            for module, name, buffer, before in buffers:
                put_back(module, name, buffer, before)


@contextmanager
def plain(device_types: Set[str]) -> Iterator[None]:
    """Numbers as they are, and derivatives of any order, whatever training is done in."""
    with ExitStack() as stack:
        # Under autocast what is computed from a network's outputs would be of half precision too.
        for kind in device_types:
            if torch.amp.is_autocast_available(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        # What is compiled has no second derivative.
        if "torch._dynamo" in sys.modules:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        # Nor has fused attention; and a checkpoint that computes again must do so by the same kernel.
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        yield


def put_back(module: nn.Module, name: str, buffer: Tensor, before: Tensor) -> None:
    """The buffer that was there, with what it held; written only if that changed, since graphs that hold it notice."""
    if getattr(module, name, None) is not buffer:
        setattr(module, name, buffer)
    if buffer.shape != before.shape:
        buffer.resize_(before.shape)
    if not same(buffer, before):
        buffer.copy_(before)
