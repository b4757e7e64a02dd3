"""A method that is called before or after each step of an optimizer, and kept in the optimizer's state."""

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Protocol, runtime_checkable

from torch import Tensor
from torch.optim import LBFGS, Optimizer

from gnomon.errors import ArgumentTypeError, CheckpointError, RangeError, within

KEY, METHOD = "gnomon", "method"
"""The key of the method's state in the optimizer's, and in it that of the method's name."""

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
Before = Callable[[Optimizer, Args, Kwargs], tuple[Args, Kwargs] | None]
"""A hook that torch calls before a step, and which may change its arguments."""
After = Callable[[Optimizer, Args, Kwargs], None]
"""One that it calls after it."""


@runtime_checkable
class Method(Protocol):
    """What can be attached: the change, and its state."""

    def __call__(self) -> None:
        """Changes the gradients, or the parameters."""

    def state_dict(self) -> dict[str, Any]:
        """Its state."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resumes from this state."""


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
        if getattr(optimizer, "grad_scale", None) is not None:
            raise RangeError(
                None,
                "unscaled gradients",
                "those of a GradScaler before a fused step",
                "Call scaler.unscale_(optimizer) first, or make the optimizer with fused=False.",
            )
        closure: Callable[[], object] | None = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if closure is None:
            change()
            return None

        def closure_and_change() -> object:
            loss = closure()
            change()
            return loss

        return args[:1], {**kwargs, "closure": closure_and_change}

    def change() -> None:
        if _trains(optimizer, parameters):
            method()

    _Outermost(optimizer, before=before_step)


def attach_after(method: Method, optimizer: Optimizer, parameters: Sequence[tuple[str, Tensor]]) -> None:
    """Calls the method after each step in which these parameters have gradients; raises as `attach`."""
    optimizer = _bind(method, optimizer, parameters)

    @within(f"{type(method).__name__}.attach")
    def after_step(optimizer: Optimizer, args: Args, kwargs: Kwargs) -> None:
        if _trains(optimizer, parameters):
            method()

    _Outermost(optimizer, after=after_step)


class _Outermost:
    """Calls a hook once a step, also where the step calls that of a base class.

    Torch runs an optimizer's hooks in the step of each class of which there has been an optimizer in this process: if
    one calls super().step(), twice. It runs none after an error, so the call stack tells which steps are under way.
    """

    def __init__(self, optimizer: Optimizer, before: Before | None = None, after: After | None = None) -> None:
        self._before, self._after = before, after
        self._frames: list[FrameType] = []  # of torch's function around the step of each class
        optimizer.register_step_pre_hook(self._begin)
        optimizer.register_step_post_hook(self._end)

    def _begin(self, optimizer: Optimizer, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs] | None:
        around = _running(self._frames)
        self._frames = [*around, sys._getframe(1)]
        return self._before(optimizer, args, kwargs) if self._before and not around else None

    def _end(self, optimizer: Optimizer, args: Args, kwargs: Kwargs) -> None:
        self._frames = _running(self._frames)[:-1]
        if self._after and not self._frames:
            self._after(optimizer, args, kwargs)


def _running(frames: Sequence[FrameType]) -> list[FrameType]:
    """Those of the frames that are on the call stack."""
    stack, frame = set[FrameType](), sys._getframe(1) if frames else None
    while frame is not None:
        stack.add(frame)
        frame = frame.f_back
    return [frame for frame in frames if frame in stack]


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
        raise RangeError("optimizer", "an optimizer without an attached method", "one that has one", "Attach once.")

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

    optimizer.register_state_dict_post_hook(lambda _, state: {**state, KEY: {METHOD: name, **method.state_dict()}})
    optimizer.register_load_state_dict_pre_hook(load)
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
