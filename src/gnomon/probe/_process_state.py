"""What a reading changes in the process, and not in the network: noted before, and restored after it."""

import random
import sys
from collections.abc import Callable, Iterable, Iterator, Set
from contextlib import ExitStack, contextmanager
from functools import partial

import numpy as np
import torch
from torch import nn
from torch._C import _functorch as functorch
from torch.backends import cuda as attention
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import parametrize
from torch.utils import checkpoint
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack, _pop_mode

PutBack = Callable[[], object]

KERNELS: dict[str, Callable[[bool], object]] = {
    kernel: getattr(attention, f"enable_{kernel}_sdp") for kernel in ("flash", "mem_efficient", "cudnn", "math")
}
"""The kernels of attention, each with the function that enables it."""


def process_state(devices: Set[torch.device]) -> list[PutBack]:
    """What restores gradients, autocast, attention, cuDNN, checkpoints, the compiler and random numbers as they are."""
    found: list[PutBack] = [
        partial(torch.set_grad_enabled, torch.is_grad_enabled()),
        partial(functorch.pop_dynamic_layer_stack_and_undo_to_depth, functorch.get_dynamic_layer_stack_depth()),
        partial(unhooked, saved_tensor_hooks()),
        partial(allow_hooks, torch._C._autograd._saved_tensors_hooks_get_disabled_error_message()),
        partial(setattr, checkpoint, "_checkpoint_hook", checkpoint._checkpoint_hook),
        partial(without_modes, len(_get_current_dispatch_mode_stack())),
        partial(cached, parametrize._cache_enabled, parametrize._cache),
        partial(torch._C._set_cudnn_enabled, torch.backends.cudnn.enabled),
        partial(torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled()),
        *random_numbers(devices),
    ]
    found += [partial(switch, getattr(attention, f"{kernel}_sdp_enabled")()) for kernel, switch in KERNELS.items()]
    found += [partial(torch.set_autocast_enabled, kind, torch.is_autocast_enabled(kind)) for kind in cast(devices)]
    if "torch._dynamo" in sys.modules:
        from torch._dynamo import eval_frame

        found.append(partial(eval_frame._set_stance, eval_frame._stance))
    return found


def random_numbers(devices: Iterable[torch.device]) -> list[PutBack]:
    """What restores the random numbers of Python, NumPy and torch, and of these devices, as they are now."""
    return [
        partial(random.setstate, random.getstate()),
        partial(np.random.set_state, np.random.get_state(legacy=False)),
        partial(torch.set_rng_state, torch.get_rng_state()),
        *(
            partial(torch.cuda.set_rng_state, torch.cuda.get_rng_state(device), device)
            for device in devices
            if device.type == "cuda"
        ),
    ]


@contextmanager
def plain(model: nn.Module, devices: Set[torch.device]) -> Iterator[None]:
    """Numbers in their own precision, and derivatives of any order, whatever training uses; `process_state` ends it."""
    # Under autocast, what is computed from a network's outputs would be in half precision too. Not with the context
    # `torch.autocast`: interrupted as it begins, it would keep weights in half precision permanently.
    for kind in cast(devices):
        torch.set_autocast_enabled(kind, False)
    # cuDNN differentiates recurrent layers in training mode only, and once.
    if recurrent_on_cuda(model):
        torch._C._set_cudnn_enabled(False)
    # Weights computed here have no graph, with which training would go on in `parametrize.cached()`.
    cached(0, {})
    with ExitStack() as stack:
        # Compiled functions have no second derivative.
        if "torch._dynamo" in sys.modules:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        # Nor has fused attention; and a checkpoint that recomputes must use the same kernel.
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        yield


def recurrent_on_cuda(model: nn.Module) -> bool:
    """Whether the network has layers that cuDNN runs step by step."""
    layers = [module for module in model.modules() if isinstance(module, nn.RNNBase)]
    return any(parameter.is_cuda for layer in layers for parameter in layer.parameters())


def cast(devices: Iterable[torch.device]) -> list[str]:
    """The kinds of devices on which autocast may be on."""
    return [
        kind for kind in sorted({"cpu", *(device.type for device in devices)}) if torch.amp.is_autocast_available(kind)
    ]


def cached(depth: int, weights: dict[tuple[int, str], torch.Tensor | None]) -> None:
    """In how many blocks of `parametrize.cached()` the caller is, and the parametrized weights kept there so far."""
    parametrize._cache_enabled, parametrize._cache = depth, weights


def saved_tensor_hooks() -> object:
    """The hooks that autograd now calls with what it saves; None if there are none."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True)


def unhooked(before: object) -> None:
    """Removes the hooks added to autograd since then: an interrupt while one is added leaves it there."""
    while saved_tensor_hooks() != before:
        torch._C._autograd._pop_saved_tensors_default_hooks()


def allow_hooks(refusal: str | None) -> None:
    """Allows hooks on autograd, or refuses them with the message as it was: torch.func refuses them while it runs."""
    if refusal is None:
        torch._C._autograd._saved_tensors_hooks_enable()
    else:
        torch._C._autograd._saved_tensors_hooks_disable(refusal, False)


def without_modes(depth: int) -> None:
    """Ends the modes entered since then that see every operation, such as those that count operations."""
    while len(_get_current_dispatch_mode_stack()) > depth:
        _pop_mode()
