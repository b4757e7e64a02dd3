"""Networks inside wrappers that compile them or run them on several devices; where they are; those without shapes."""

import copy
from itertools import chain

import torch
import torch.distributed
from torch import nn
from torch.nn.parameter import is_lazy

from gnomon.errors import UnsupportedModuleError
from gnomon.probe._held import reached


def unwrapped(model: nn.Module) -> nn.Module:
    """The network without wrappers that run it on several devices or compiled, which cannot be differentiated twice."""
    while True:
        if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            model = model.module
        elif "_orig_mod" in dict(model.named_children()):
            model = model.get_submodule("_orig_mod")
        else:
            return model


def take_from_training(model: nn.Module) -> None:
    """With several processes, puts others with the same memory in the place of the trained parameters, and leaves them.

    DistributedDataParallel, of which nothing on a network tells, takes any gradient that is added to the trained ones
    for training's, and reduces it once per pass: training's own, which come next, are then not reduced.

    A network that also holds parameters elsewhere, as in a list, keeps them: it would run with some of each.
    """
    group = torch.distributed.is_available() and torch.distributed.is_initialized()
    if not group or torch.distributed.get_world_size() == 1 or holds_elsewhere(model):
        return
    twins: dict[int, nn.Parameter] = {}
    for module in model.modules():
        for name, parameter in [*module._parameters.items()]:
            if parameter is not None and parameter.requires_grad:
                if id(parameter) not in twins:
                    twins[id(parameter)] = twin(parameter)
                setattr(module, name, twins[id(parameter)])


def holds_elsewhere(model: nn.Module) -> bool:
    """Whether modules hold trained parameters in attributes of their own too, such as lists, or in functions there."""
    own = {*vars(nn.Module()), "_flat_weights"}  # the last of recurrent layers, which keep it up to date
    held = reached(value for module in model.modules() for name, value in vars(module).items() if name not in own)
    return any(isinstance(value, nn.Parameter) and value.requires_grad for value in held)


def twin(parameter: nn.Parameter) -> nn.Parameter:
    """A parameter with the same memory, gradient and hooks, of which autograd knows nothing."""
    with torch.inference_mode(False):
        other = copy.copy(parameter)
    if type(other) is not type(parameter):  # copied by Parameter's own way, which forgets subclasses
        other.__class__ = type(parameter)
    other.grad, other._backward_hooks = parameter.grad, parameter._backward_hooks
    return other


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
