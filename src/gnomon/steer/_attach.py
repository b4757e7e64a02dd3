"""A method that is called before or after each step of an optimizer, and kept in the optimizer's state."""

import sys
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from torch import Tensor
from torch.optim import LBFGS, Optimizer
from torch.utils.hooks import RemovableHandle

from gnomon.errors import ArgumentTypeError, CheckpointError, RangeError, within

KEY, METHOD = "gnomon", "method"
"""The key of the method's state in the optimizer's, and in it that of the method's name."""

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
STEP = Optimizer.profile_hook_step(lambda optimizer: None).__code__
"""The code of torch's function around the step of each class, which runs the hooks."""


@runtime_checkable
class Method(Protocol):
    """What can be attached: the change, and its state."""

    def __call__(self) -> None:
        """Changes the gradients, or the parameters."""

    def state_dict(self) -> dict[str, Any]:
        """Its state."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resumes from this state."""


HANDLES: WeakKeyDictionary[Method, list[RemovableHandle]] = WeakKeyDictionary()
"""The hooks of each attached method. Not in the method, a copy or pickle of which has nothing attached."""


def attach(method: Method, optimizer: Optimizer, parameters: Sequence[tuple[str, Tensor]]) -> None:
    """Calls the method before each step in which these parameters have gradients.

    It uses the optimizer's own hooks, because every framework runs them: by then, gradients are accumulated, unscaled
    and clipped.

    Raises:
        RangeError: if the optimizer is LBFGS, lacks one of the parameters, or has a method already. At a step: if it
            is fused and would unscale the gradients itself.
        CheckpointError: on loading, if the optimizer's state has no method's state in it.
    """
    optimizer = _bind(method, optimizer, parameters)

    @within(f"{type(method).__name__}.attach")
    def before_step(optimizer: Optimizer, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs] | None:
        if not _outermost(optimizer):
            return None
        if getattr(optimizer, "grad_scale", None) is not None:
            raise RangeError(
                None,
                "unscaled gradients",
                "those of a GradScaler before a fused step",
                "Call scaler.unscale_(optimizer) first, or make the optimizer with fused=False.",
            )
        by_name = "closure" in kwargs
        closure = kwargs["closure"] if by_name else args[1] if len(args) > 1 else None
        if not callable(closure):
            change()
            return None

        def closure_and_change() -> object:
            loss = closure()
            change()
            return loss

        if by_name:
            return args, {**kwargs, "closure": closure_and_change}
        return (args[0], closure_and_change, *args[2:]), kwargs

    def change() -> None:
        if _trains(optimizer, parameters):
            method()

    HANDLES[method].append(optimizer.register_step_pre_hook(before_step))


def attach_after(method: Method, optimizer: Optimizer, parameters: Sequence[tuple[str, Tensor]]) -> None:
    """Calls the method after each step in which these parameters have gradients; raises as `attach`."""
    optimizer = _bind(method, optimizer, parameters)

    @within(f"{type(method).__name__}.attach")
    def after_step(optimizer: Optimizer, args: Args, kwargs: Kwargs) -> None:
        if _outermost(optimizer) and _trains(optimizer, parameters):
            method()

    HANDLES[method].append(optimizer.register_step_post_hook(after_step))


def detach(method: Method) -> None:
    """Removes the method's hooks, and so its state from the optimizer's; it keeps its state itself."""
    for handle in HANDLES.pop(method, []):
        handle.remove()


def _outermost(optimizer: Optimizer) -> bool:
    """Whether the step of the optimizer whose hook asks this is called by no other step of it.

    Torch runs an optimizer's hooks in the step of each class of which there has been an optimizer in this process: if
    one calls super().step(), twice. It runs none after an error, so the call stack tells which steps are under way; its
    frames are not kept, since they hold all that a failed step had.
    """
    frame, steps = sys._getframe(), 0
    while frame.f_back is not None:
        frame = frame.f_back
        steps += frame.f_code is STEP and frame.f_locals["self"] is optimizer
    return steps <= 1


def _bind(method: Method, optimizer: Optimizer, parameters: Sequence[tuple[str, Tensor]]) -> Optimizer:
    """Puts the method's state into the optimizer's, and so into each checkpoint; returns the unwrapped optimizer.

    Not into the optimizer's `state`: Adam and others assume that any state of a parameter is their own.
    """
    while isinstance(inner := getattr(optimizer, "optimizer", None), Optimizer):
        optimizer = inner  # Accelerate's has no hooks of its own.
    if not hasattr(optimizer, "param_groups"):
        raise ArgumentTypeError("optimizer", "a torch.optim.Optimizer", type(optimizer).__name__, "Pass one.")
    if isinstance(optimizer, LBFGS):  # it compares gradients at several points, as those of one loss
        raise RangeError("optimizer", "a first-order optimizer", "LBFGS", "Pass one such as SGD or AdamW.")
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    lacking = [name for name, parameter in parameters if parameter.requires_grad and id(parameter) not in held]
    if lacking:
        raise RangeError(
            "optimizer",
            "one that steps all these parameters",
            f"one without {lacking[0]}",
            "Attach each optimizer's own.",
        )
    if KEY in optimizer.state_dict():
        raise RangeError(
            "optimizer",
            "an optimizer without an attached method",
            "one that has one",
            "Attach once, or detach that one first.",
        )

    name = type(method).__name__

    @within(f"{name}.attach")
    def load(optimizer: Optimizer, state: dict[str, Any]) -> None:
        if KEY not in state:
            raise CheckpointError(
                None,
                f"an optimizer's state with {KEY!r}",
                ", ".join(state),
                "Load one that was saved with the method attached, or attach it after loading. "
                "torch.distributed.checkpoint leaves it out: save the method's own state_dict() as well, "
                "and load both before attaching.",
            )
        of = state[KEY].get(METHOD, name)  # older versions did not save it
        if of != name:
            raise CheckpointError(None, f"a state of {name}", f"one of {of}", "Attach the method that was saved.")
        method.load_state_dict({key: value for key, value in state[KEY].items() if key != METHOD})

    def save(_: Optimizer, state: dict[str, Any]) -> dict[str, Any]:
        return {**state, KEY: {METHOD: name, **method.state_dict()}}

    HANDLES.setdefault(method, []).append(optimizer.register_state_dict_post_hook(save))
    HANDLES[method].append(optimizer.register_load_state_dict_pre_hook(load))
    return optimizer


def _trains(optimizer: Optimizer, parameters: Sequence[tuple[str, Tensor]]) -> bool:
    """Whether this is a training step, and one for these parameters: a framework may skip a batch."""
    gradients = [parameter.grad for _, parameter in parameters if parameter.grad is not None]
    return bool(gradients) and not _fills_state(optimizer, gradients)


def _fills_state(optimizer: Optimizer, gradients: Sequence[Tensor]) -> bool:
    """Whether this is no training step, but torch.distributed.checkpoint's, to see what state an optimizer has.

    All its learning rates and gradients are zero. Neither alone would suffice: a warm-up begins at learning rate zero
    with gradients that count, and gradients may vanish. Nor would an empty state: SGD without momentum never has any,
    and this is called at every checkpoint.
    """
    still = all(group.get("lr", 0) == 0 for group in optimizer.param_groups)
    return still and not any(gradient.any() for gradient in gradients)
