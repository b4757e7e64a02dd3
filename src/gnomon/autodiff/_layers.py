"""Layers by name, and those with a weight."""

from collections.abc import Iterable, Sequence

from jaxtyping import Float
from torch import Tensor, nn
from torch.jit._script import RecursiveScriptModule
from torch.nn.utils import parametrize

from gnomon.autodiff._run import Model
from gnomon.errors import ArgumentTypeError, EmptyError, RangeError, UnsupportedModuleError

WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
"""Layers that multiply a weight with each row, or each patch, of their input."""


def multiplies(layer: nn.Module) -> bool:
    """Whether a layer multiplies its weight with its input and does nothing else but add a bias.

    This excludes subclasses and layers with a forward of their own, which may compute something else; torch's own
    subclass of a layer with a parametrized weight, as `weight_norm` makes it, does not.
    """
    return parametrize.type_before_parametrizations(layer) in WEIGHTED and "forward" not in vars(layer)


def weight_of(layer: nn.Module) -> Float[Tensor, "q *p"]:
    """The weight that the layer used in its last pass: a parameter, or what pruning or another hook made of some."""
    weight: Tensor = layer.weight  # type: ignore[assignment]
    return weight.detach()


def layer_named(model: Model, layer: str, argument: str = "layer") -> nn.Module:
    """The layer with this name, which was passed as this argument.

    Raises:
        RangeError: if the network has no such layer.
        UnsupportedModuleError: if torch.jit.script compiled it.
    """
    modules = modules_of(model)
    if layer not in modules:
        if isinstance(model, nn.Module) and layer in dict(model.named_modules()):
            raise UnsupportedModuleError(
                argument,
                "a layer that accepts hooks",
                f"{layer!r}, which torch.jit.script compiled",
                "Pass the network that was compiled.",
            )
        names = ", ".join(name for name in modules if name)
        raise RangeError(argument, f"one of {names or 'no layers'}", f"{layer!r}", "Choose one.")
    return modules[layer]


def named_layers(names: str | Sequence[str] | None, argument: str = "layers") -> tuple[str, ...]:
    """One name or several, which were passed as this argument, as a tuple; empty for None.

    Raises:
        TypeError: if it is neither.
    """
    if not (names is None or isinstance(names, Iterable)):
        raise ArgumentTypeError(argument, "a name or a list of names", type(names).__name__, "Pass their names.")
    return (names,) if isinstance(names, str) else tuple(names or ())


def weighted_layers(model: Model) -> dict[str, nn.Module]:
    """The linear layers and convolutions by name."""
    return {name: module for name, module in modules_of(model).items() if multiplies(module)}


def named_weights(model: Model, layers: str | Sequence[str] | None) -> dict[str, nn.Module]:
    """The layers with these names, or this name; all that have a weight if None.

    Raises:
        RangeError: if there is no layer with one of the names.
        UnsupportedModuleError: if one is not a linear layer or convolution.
        EmptyError: if there are none.
    """
    if layers is None:
        named = weighted_layers(model)
    else:
        named = {name: layer_named(model, name, "layers") for name in named_layers(layers)}
    if not named:
        raise EmptyError("layers", "at least one linear layer or convolution", "none", "Name one.")
    for name, layer in named.items():
        if not multiplies(layer):
            own = " with a forward of its own" if type(layer) in WEIGHTED else ""
            raise UnsupportedModuleError(
                "layers",
                "linear layers and convolutions of torch's own, none transposed",
                f"{type(layer).__name__} {name!r}{own}",
                "Name others.",
            )
    return named


def modules_of(model: Model) -> dict[str, nn.Module]:
    """All modules by name, except those of torch.jit.script, which accept no hooks; none for a plain function."""
    modules = model.named_modules() if isinstance(model, nn.Module) else ()
    return {name: module for name, module in modules if not isinstance(module, RecursiveScriptModule)}


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are equal; NaNs, as of a network that has diverged, count as equal."""
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())
