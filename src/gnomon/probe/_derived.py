"""What quantities may request by name that is derived from what is observed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import FunctionType

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gnomon import measure
from gnomon.autodiff import (
    OBSERVATIONS,
    Layer,
    Positions,
    entrance_weight,
    gradient_products,
    layer_named,
    linear_head,
    named_layers,
)
from gnomon.errors import UnsupportedModuleError
from gnomon.linalg import Covariance, Dense, Factored
from gnomon.measure import ClassMoments


def classes_of(logits: Float[Tensor, "n k"]) -> int:
    """The number of classes, which is that of the outputs."""
    return logits.shape[1]


def class_means_of(class_moments: ClassMoments) -> Float[Tensor, "k p"]:
    """The means of the features of each class that has samples."""
    return class_moments.present().means


def centred_means_of(class_moments: ClassMoments) -> Float[Tensor, "k p"]:
    """These class means minus the mean over all samples."""
    return class_moments.present().centred_means


def classifier_of(
    model: nn.Module, x: Shaped[Tensor, "n *d"], head: tuple[str, ...], positions: Positions | None
) -> Float[Tensor, "k p"]:
    """The weight of the final linear layer, which a hook may compute in the forward pass."""
    return linear_head(model, x, head, positions).weight


def bias_of(
    model: nn.Module, x: Shaped[Tensor, "n *d"], head: tuple[str, ...], positions: Positions | None
) -> Float[Tensor, "k"] | None:
    """The bias of the final linear layer; None if it has none."""
    return linear_head(model, x, head, positions).bias


def layer_weight_of(model: nn.Module, x: Float[Tensor, "n *d"]) -> Float[Tensor, "q p"]:
    """The weight of the linear layer that the samples enter, which goes with the AGOP at the network's input."""
    return entrance_weight(model, x)


def agop_of(model: nn.Module, x: Float[Tensor, "n *d"], memory: int | None) -> Covariance:
    """The average gradient outer product at the network's input, without the Jacobians, in a separate pass.

    Held as rows if these are fewer than the input's entries: as a matrix it would take 181 GB for an image of 224
    pixels.
    """
    return gradient_products(model, x, [""], memory=memory)[""]


def argument_value(quantity: Callable[..., object], argument: str, value: object) -> object:
    """What is passed to a quantity: to one of the user's the AGOP as a matrix, weights as copies, samples as views.

    A view shares the samples' memory, but not whether they require a gradient.
    """
    if own(quantity):
        return value
    if argument == "agop" and isinstance(value, Dense | Factored):
        return value.dense()
    if argument in ("classifier", "bias", "layer_weight") and isinstance(value, Tensor):
        return value.clone()
    if (argument == "x" or argument.endswith("_x")) and isinstance(value, Tensor):
        return value.detach()
    return value


def own(quantity: object) -> bool:
    """Whether it is one of gnomon's functions, alone or with settings bound."""
    function = unbound(quantity)
    return isinstance(function, FunctionType) and str(function.__module__).partition(".")[0] == "gnomon"


def unbound(quantity: object) -> object:
    """The function, without settings that are bound."""
    return unbound(quantity.func) if isinstance(quantity, partial) else quantity


QUANTITIES = {
    name: quantity
    for name, quantity in vars(measure).items()
    if isinstance(quantity, FunctionType) and name in measure.__all__ and name not in OBSERVATIONS
}
"""gnomon's own: each can be used by another under its name."""
DERIVED: dict[str, Callable[..., object]] = QUANTITIES | {
    "agop": agop_of,
    "bias": bias_of,
    "centred_means": centred_means_of,
    "class_means": class_means_of,
    "classes": classes_of,
    "classifier": classifier_of,
    "layer_weight": layer_weight_of,
}
"""By the name under which quantities request them."""


OF_ANY_SAMPLES = (classes_of, classifier_of, bias_of, layer_weight_of)
"""What is the same for any samples, and so is computed on the first ones."""


def across_layers(arguments: Mapping[str, Sequence[str]], order: Sequence[str]) -> list[str]:
    """The quantities that use the final linear layer and features, which then have to be of the same layer.

    Args:
        arguments: by quantity, what it uses.
        order: an order in which each comes after what it uses.
    """
    seen: dict[str, frozenset[str]] = {}
    for name in order:
        wanted = arguments.get(name, ())
        seen[name] = frozenset(wanted).union(*(seen.get(argument, ()) for argument in wanted))
    return [name for name in seen if "features" in seen[name] and seen[name] & {"classifier", "bias"}]


def require_layers(model: nn.Module, **layers: str | Sequence[str] | None) -> None:
    """Raises RangeError unless the network has the layers that these arguments name."""
    for argument, names in layers.items():
        for name in named_layers(names, argument):
            layer_named(model, name, argument)


def require_one_layer(
    model: nn.Module, x: Tensor, layers: Iterable[Layer], head: tuple[str, ...], positions: Positions | None
) -> None:
    """Raises UnsupportedModuleError unless these are the final linear layer, or what stands in for it."""
    for layer in layers:
        if isinstance(layer, str) and (layer_named(model, layer),) != linear_head(model, x, head, positions).layers:
            raise UnsupportedModuleError(
                "layers",
                "the final linear layer, or none, for quantities that use its weight and features together",
                repr(layer),
                "Read the two in probes of their own.",
            )
