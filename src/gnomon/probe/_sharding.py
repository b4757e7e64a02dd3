"""A network that is sharded over processes, complete on each of them while it is read."""

import sys
from collections.abc import Callable, Iterable
from functools import partial
from types import MethodType
from typing import Any, TypeVar

import torch
import torch.distributed
from torch import Tensor, nn

from gnomon.errors import UnsupportedModuleError
from gnomon.probe._containers import put_back_items

T = TypeVar("T")
PutBack = Callable[[], object]
Slot = tuple[nn.Module, str, Any]
"""A module, the name of one of its parameters or buffers, and this parameter or buffer, a DTensor."""

COMMUNICATES = ("torch.distributed.fsdp.", "torch.distributed.tensor.")
"""Where the functions that sharding attaches to modules are defined."""


def whole(model: nn.Module, look: Callable[[], T]) -> T:
    """What `look` returns, called while this process has the complete network, which is then sharded as before.

    The parameters that `fully_shard` and `parallelize_module` sharded are gathered, and what they attached to modules,
    which communicates in each pass, is removed. So `look` waits for no other process, and sees the network as it was
    written, with derivatives of any order, though not with respect to the parameters that are trained. What it returns
    should no longer need the network. A network that is not sharded is left as it is.

        kernel = whole(model, lambda: gnomon.ntk(model, x))

    Args:
        model: the network. All processes that hold a part of it have to call this, each with its own `look`.
        look: what to do.

    Raises:
        UnsupportedModuleError: if a process does not call this, or the network is sharded in another way.
    Cost: one all-gather per parameter, and on each process memory for the complete network.
    """
    slots = sharded(model)
    if not slots or any(tensor.is_meta for _, _, tensor in slots):
        return look()
    tensors = gathered(slots)
    modules = [*model.modules()]
    put_back: list[PutBack] = [partial(setattr, *slot) for slot in slots]
    put_back += [each for module in modules for each in as_it_is(module)]
    try:
        try:
            for module, name, tensor in slots:
                setattr(module, name, tensors[id(tensor)])
            for module in modules:
                strip(module)
            return look()
        finally:
            for each in put_back:
                each()
    finally:
        for each in put_back:  # Once more: an interrupt may have come before it was done.
            each()


def agreed(model: nn.Module, yes: bool) -> bool:
    """Whether all processes that hold a part of the network say yes: their clocks, for example, differ."""
    return all_agree(sharded(model), yes)


def sharded(model: nn.Module) -> list[Slot]:
    """The sharded parameters and buffers, after those that a forward pass has left gathered are sharded again.

    Raises:
        UnsupportedModuleError: if they are sharded in a way that cannot be undone temporarily, or the process group no
            longer exists.
    """
    old, new = of_torch("torch.distributed.fsdp", "FullyShardedDataParallel", "FSDPModule")
    modules = [*model.modules()]
    if any(isinstance(module, old) for module in modules):
        raise UnsupportedModuleError(
            "model",
            "parameters that are whole on each process, or sharded by fully_shard or parallelize_module",
            "FullyShardedDataParallel",
            "Shard with torch.distributed.fsdp.fully_shard, or read a copy made from the full state dict.",
        )
    for module in modules:
        if isinstance(module, new):
            module.reshard()
    (kind,) = of_torch("torch.distributed.tensor", "DTensor")
    slots = [
        (module, name, tensor)
        for module in modules
        for there in (module._parameters, module._buffers)
        for name, tensor in there.items()
        if isinstance(tensor, kind)
    ]
    if slots and not torch.distributed.is_initialized():
        raise UnsupportedModuleError(
            "model",
            "the process group over which its parameters are sharded",
            "none",
            "Read before destroy_process_group, or read a copy made from the full state dict.",
        )
    return slots


def of_torch(module: str, *names: str) -> tuple[Any, ...]:
    """Classes of torch by name, in a module that takes a second to import: if it was not, none has instances."""
    return tuple(getattr(sys.modules.get(module), name, ()) for name in names)


def all_agree(slots: Iterable[Slot], yes: bool = True) -> bool:
    """Meets all processes that hold a part of these, and returns whether they all say yes."""
    groups = {}
    for _, _, tensor in slots:
        for dimension, placement in enumerate(tensor.placements):
            if not placement.is_replicate():
                group = tensor.device_mesh.get_group(dimension)
                groups[group.group_name] = group
    if groups:
        from gnomon.probe._barrier import meet  # torch may have been built without what it imports

        for group in groups.values():
            yes = meet(group, yes)
    return yes


def gathered(slots: Iterable[Slot]) -> dict[int, Tensor]:
    """The complete tensors, by the identity of the sharded ones: one may be in several places."""
    all_agree(slots)
    found: dict[int, Tensor] = {}
    with torch.inference_mode(False), torch.no_grad():
        for _, _, tensor in slots:
            if id(tensor) not in found:
                kind = tensor.device_mesh.device_type
                here = tensor if tensor.device.type == kind else tensor.to(kind)  # It may be offloaded between passes.
                full = here.full_tensor()
                parameter = isinstance(tensor, nn.Parameter)
                found[id(tensor)] = nn.Parameter(full, tensor.requires_grad) if parameter else full
    return found


def as_it_is(module: nn.Module) -> list[PutBack]:
    """Functions that restore all that `strip` removes."""
    attributes = vars(module)
    hooks = [partial(put_back_items, there, there.copy()) for there in hooks_of(module)]
    methods = [partial(setattr, module, name, value) for name, value in attributes.items() if is_wrapped(value)]
    return [*hooks, *methods, partial(setattr, module, "__class__", type(module))]


def strip(module: nn.Module) -> None:
    """Removes what communicates: hooks, methods that count as forward passes, and the class that has these."""
    for there in hooks_of(module):
        for key in [key for key, hook in there.items() if communicates(hook)]:
            del there[key]
    attributes = vars(module)
    for name in [name for name, value in attributes.items() if is_wrapped(value)]:
        del attributes[name]
    (over,) = of_torch("torch.distributed.fsdp", "FSDPModule")
    if isinstance(module, over):
        module.__class__ = next(kind for kind in type(module).__mro__ if not issubclass(kind, over))


def hooks_of(module: nn.Module) -> list[dict[int, Any]]:
    """The hooks that are called before and after a module's passes and its saving, kind by kind."""
    return [there for name, there in vars(module).items() if name.endswith("_hooks") and isinstance(there, dict)]


def is_wrapped(value: object) -> bool:
    """Whether an attribute of a module is one of its methods that `register_fsdp_forward_method` wrapped."""
    return isinstance(value, MethodType) and communicates(value)


def communicates(function: object) -> bool:
    """Whether a function was put there by sharding."""
    if isinstance(function, partial):
        function = function.func
    function = getattr(function, "__func__", function)
    # A wrapper has the module of what it wraps in one of the two.
    places = (getattr(function, "__module__", None), getattr(function, "__globals__", {}).get("__name__"))
    return any(str(place).startswith(COMMUNICATES) for place in places)
