"""Functions of our own that have one derivative, and refuse a second."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from gnomon.errors import UnsupportedModuleError

Backward = Callable[..., Any]


def once(name: str) -> Callable[[Backward], Backward]:
    """Marks the backward pass of a `torch.autograd.Function` as one that cannot be differentiated.

    Torch's `once_differentiable` reports this to `backward` alone: `autograd.grad` finds no path from the gradient to
    the parameters, and leaves out its part of their second derivatives without an error. Here each gradient depends on
    what it was computed of, which includes every input that was saved.

    Args:
        name: what is differentiated, for the error.
    """

    def marked(backward: Backward) -> Backward:
        @wraps(backward)
        def called(ctx: Any, *given: Tensor | None) -> Any:  # noqa: ANN401 as torch's own
            with torch.no_grad():
                found = backward(ctx, *given)
            of = [part for part in (*ctx.saved_tensors, *given) if part is not None and part.requires_grad]
            if not (of and torch.is_grad_enabled()):
                return found
            if isinstance(found, tuple):
                return tuple(None if each is None else _last(each, name, *of) for each in found)
            return _last(found, name, *of)

        return called

    return marked


class _Last(torch.autograd.Function):
    """A gradient unchanged, whose own gradient is refused."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, name: str, *of: Tensor) -> Tensor:  # noqa: ANN401 as torch's own
        """The gradient."""
        ctx.name = name
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> None:  # noqa: ANN401 as torch's own
        """Raises UnsupportedModuleError."""
        raise UnsupportedModuleError(
            None, "to be differentiated once", "a second derivative", "Take differences of the first.", where=ctx.name
        )


_last: Callable[..., Tensor] = _Last.apply
