"""Networks whose layers follow one another, and points of their input space."""

from collections.abc import Iterator
from typing import TypeGuard, TypeVar

from jaxtyping import Float
from torch import Tensor, nn

from gnomon import _checks
from gnomon.autodiff import require_whole
from gnomon.errors import ShapeError, UnsupportedModuleError

M = TypeVar("M", bound=nn.Module)


def plain(module: nn.Module, kind: type[M]) -> TypeGuard[M]:
    """Whether a module is of this class and computes what that does: subclasses may have a forward of their own."""
    return isinstance(module, kind) and type(module).forward is kind.forward and "forward" not in vars(module)


def children(model: nn.Sequential, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The modules in their order, with their names; one that occurs twice is yielded twice.

    A Sequential inside is opened unless it has a forward of its own.
    """
    for name, child in zip(model._modules, model, strict=True):
        if plain(child, nn.Sequential):
            yield from children(child, f"{prefix}{name}.")
        else:
            yield prefix + name, child


def relu_layers(model: nn.Sequential) -> tuple[dict[str, nn.Linear], int]:
    """The linear layers by name, and how many of them are followed by a ReLU.

    Raises:
        UnsupportedModuleError: unless linear layers and ReLUs alternate, with at least one of each, on one process.
    """
    expected = "an nn.Sequential of Linear and ReLU in turn"
    if not isinstance(model, nn.Sequential):
        raise UnsupportedModuleError("model", expected, type(model).__name__, "Write the network as one.")
    require_whole(model)
    layers: dict[str, nn.Linear] = {}
    hidden = 0
    for name, child in children(model):
        if isinstance(child, nn.Linear) and len(layers) == hidden:
            layers[name] = child
        elif isinstance(child, nn.ReLU) and len(layers) == hidden + 1:
            hidden += 1
        elif not isinstance(child, nn.Flatten) or layers:
            raise UnsupportedModuleError("model", expected, f"{type(child).__name__} {name!r}", "Leave it out.")
    if hidden == 0:
        raise UnsupportedModuleError("model", expected, "one without a ReLU", "Add one after a linear layer.")
    return layers, hidden


def input_points(x: Float[Tensor, "n *d"], inputs: int) -> Float[Tensor, "n q"]:
    """The points as rows of float64.

    Raises:
        ShapeError: if they do not have this many numbers.
        EmptyError: if there are none.
        RangeError: if they are not of floating point, or hold NaN or infinity.
    """
    _checks.floating(x=x)
    _checks.samples(x=x)
    _checks.finite(x=x)
    points = x.flatten(1)
    if points.shape[1] != inputs:
        raise ShapeError(
            "x",
            f"{inputs} numbers per sample as the network takes",
            f"shape {_checks.shape_of(x)}",
            "Pass points of its input space.",
        )
    return points.double()
