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
    what it was computed of. Every input has to be saved for this, or its `marker`.

    The backward pass gets the saved tensors as its second argument: a checkpoint unpacks them only once.

    Args:
        name: what is differentiated, for the error.
    """

    def marked(backward: Backward) -> Backward:
        @wraps(backward)
        def called(ctx: Any, *given: Tensor | None) -> Any:  # noqa: ANN401 as torch's own
            saved = ctx.saved_tensors
            with torch.no_grad():
                found = backward(ctx, saved, *given)
            if not torch.is_grad_enabled():
                return found
            of = [part for part in (*saved, *given) if part is not None and part.requires_grad]
            if isinstance(found, tuple):
                return tuple(None if each is None else _last(each, name, *of) for each in found)
            return _last(found, name, *of)

        return called

    return marked


def marker(x: Tensor) -> Tensor:
    """An empty tensor with the graph of x, to be saved in its place: it holds no memory, and x may change."""
    return x[:0].clone()


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
