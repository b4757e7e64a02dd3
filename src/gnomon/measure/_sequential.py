"""Networks whose layers follow one another, and points of their input space."""

from collections.abc import Iterator

from jaxtyping import Float
from torch import Tensor, nn

from gnomon import _checks
from gnomon.autodiff import require_whole
from gnomon.errors import ShapeError, UnsupportedModuleError
from gnomon.measure._plain import described, plain, require_idle_hooks

ALTERNATING = "an nn.Sequential of Linear and ReLU in turn"


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
    """The linear layers by name, with weights up to date, and how many of them are followed by a ReLU.

    Raises:
        UnsupportedModuleError: unless linear layers and ReLUs alternate, with at least one of each, on one process,
            and neither hooks nor a forward of their own make them compute anything else.
    """
    if not plain(model, nn.Sequential):
        raise UnsupportedModuleError("model", ALTERNATING, described(model), "Write the network as one.")
    require_whole(model)
    layers: dict[str, nn.Linear] = {}
    hidden = 0
    for name, child in children(model):
        if plain(child, nn.Linear) and len(layers) == hidden:
            layers[name] = child
        elif plain(child, nn.ReLU) and len(layers) == hidden + 1:
            hidden += 1
        elif not plain(child, nn.Flatten) or layers:
            raise UnsupportedModuleError("model", ALTERNATING, described(child, name), "Leave it out.")
    if hidden == 0:
        raise UnsupportedModuleError("model", ALTERNATING, "one without a ReLU", "Add one after a linear layer.")
    require_idle_hooks(model, next(iter(layers.values())))
    return layers, hidden


def input_points(x: Float[Tensor, "n *d"], inputs: int) -> Float[Tensor, "n q"]:
    """The points as rows.

    Raises:
        ShapeError: if they do not have this many numbers.
        EmptyError: if there are none.
        RangeError: if they are not of floating point, or hold NaN or infinity.
    """
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
    return points
