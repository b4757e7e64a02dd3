"""Modules that compute what their class of torch does: no forward of their own, no hook that changes outputs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeGuard, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnomon.autodiff import same
from gnomon.errors import UnsupportedModuleError

M = TypeVar("M", bound=nn.Module)
LAYERS = (nn.Sequential, nn.Linear, nn.ReLU, nn.Flatten)
PROBED = 8
"""Random inputs at which it is seen whether hooks change outputs."""


def plain(module: nn.Module, kind: type[M]) -> TypeGuard[M]:
    """Whether a module is of this class and computes what that does: subclasses may have a forward of their own."""
    return isinstance(module, kind) and type(module).forward is kind.forward and "forward" not in vars(module)


def described(module: nn.Module, name: str = "") -> str:
    """A module for an error: its class, its name, and whether it is a layer of torch's but for its forward."""
    own = any(isinstance(module, kind) and not plain(module, kind) for kind in LAYERS)
    called = f"{type(module).__name__} {name!r}" if name else type(module).__name__
    return called + " with a forward of its own" if own else called


def require_idle_hooks(model: nn.Sequential, first: nn.Linear) -> None:
    """Raises UnsupportedModuleError if hooks change the outputs of modules; calls those that make weights of others.

    Args:
        model: the network.
        first: its first linear layer.
    """
    if any(map(_hooked, model.modules())):
        x = torch.randn(PROBED, first.in_features, generator=torch.Generator().manual_seed(0), device="cpu")
        # A weight that a hook makes may be on another device than its parameters, until it is made again.
        x = x.to(next(first.parameters(), first.weight))
        with _at_rest(model):
            _without_hooks(model, x, "")


def _hooked(module: nn.Module) -> bool:
    """Whether a module's own calls go through hooks."""
    return bool(module._forward_hooks or module._forward_pre_hooks)


@contextmanager
def _at_rest(model: nn.Module) -> Iterator[None]:
    """Inside, no module is in training mode, so that spectral norms are not iterated further from pass to pass."""
    training = [module for module in model.modules() if module.training]
    try:
        for module in training:
            module.training = False
        yield
    finally:
        for module in training:
            module.training = True


def _without_hooks(module: nn.Module, x: Float[Tensor, "n _"], name: str) -> Float[Tensor, "n _"]:
    """What a layer, or a Sequential of such, outputs without hooks, if that is what it outputs with them."""
    outputs = module(x.clone()) if _hooked(module) else None
    if isinstance(module, nn.Sequential):
        bare = x
        for child_name, child in module._modules.items():
            bare = _without_hooks(child, bare, f"{name}.{child_name}".strip("."))
    else:
        bare = module.forward(x.clone())
    if _hooked(module) and not (isinstance(outputs, Tensor) and same(outputs, bare)):
        raise UnsupportedModuleError(
            "model",
            "layers whose hooks leave their outputs as they are",
            f"{described(module, name)}, whose outputs one changes",
            "Remove it.",
        )
    return bare
