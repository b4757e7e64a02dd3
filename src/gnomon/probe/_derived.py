"""What quantities may ask for by name that follows from what is observed."""

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
)
from gnomon.errors import UnsupportedModuleError
from gnomon.linalg import Covariance, Dense, Factored
from gnomon.measure import ClassMoments


def classes_of(logits: Float[Tensor, "n k"]) -> int:
    """The number of classes: that of the outputs."""
    return logits.shape[1]


def class_means_of(class_moments: ClassMoments) -> Float[Tensor, "k p"]:
    """The means of the features of each class that has samples."""
    return class_moments.present().means


def centred_means_of(class_moments: ClassMoments) -> Float[Tensor, "k p"]:
    """These class means less the mean over all samples."""
    return class_moments.present().centred_means


def classifier_of(
    model: nn.Module, x: Shaped[Tensor, "n *d"], head: tuple[str, ...], positions: Positions | None
) -> Float[Tensor, "k p"]:
    """The weight of the final linear layer, which a hook may make in the forward pass."""
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
    """The average gradient outer product at the network's input, without the Jacobians: a pass of its own.

    Held as rows where these are fewer than the input's entries: whole, it would take 181 GB for an image of 224 pixels.
    """
    return gradient_products(model, x, [""], memory=memory)[""]


def as_asked(quantity: Callable[..., object], argument: str, value: object) -> object:
    """What a quantity is given: the AGOP whole, unless the quantity is gnomon's own and takes it as rows."""
    if argument == "agop" and isinstance(value, Dense | Factored) and not own(quantity):
        return value.dense()
    return value


def own(quantity: object) -> bool:
    """Whether it is one of gnomon's functions, as it stands or with settings."""
    if isinstance(quantity, partial):
        return own(quantity.func)
    return isinstance(quantity, FunctionType) and str(quantity.__module__).partition(".")[0] == "gnomon"


QUANTITIES = {
    name: quantity
    for name, quantity in vars(measure).items()
    if isinstance(quantity, FunctionType) and name in measure.__all__ and name not in OBSERVATIONS
}
"""gnomon's own: each can be looked at by another under its name."""
DERIVED: dict[str, Callable[..., object]] = QUANTITIES | {
    "agop": agop_of,
    "bias": bias_of,
    "centred_means": centred_means_of,
    "class_means": class_means_of,
    "classes": classes_of,
    "classifier": classifier_of,
    "layer_weight": layer_weight_of,
}
"""By the name under which quantities ask for them."""


OF_ANY_SAMPLES = (classes_of, classifier_of, bias_of, layer_weight_of)
"""What is the same of any samples, and so is computed of the first ones."""


def across_layers(arguments: Mapping[str, Sequence[str]], order: Sequence[str]) -> list[str]:
    """The quantities that look at the final linear layer and at features, which then have to be of one layer.

    Args:
        arguments: by quantity what it looks at.
        order: in which each comes behind what it looks at.
    """
    seen: dict[str, frozenset[str]] = {}
    for name in order:
        wanted = arguments.get(name, ())
        seen[name] = frozenset(wanted).union(*(seen.get(argument, ()) for argument in wanted))
    return [name for name in seen if "features" in seen[name] and seen[name] & {"classifier", "bias"}]


def require_layers(model: nn.Module, *layers: str | Sequence[str] | None) -> None:
    """Raises RangeError unless the network has layers of these names."""
    for layer in (name for names in layers for name in named_layers(names)):
        layer_named(model, layer)


def named_layers(names: str | Sequence[str] | None) -> tuple[str, ...]:
    """One name or several, as several; none for None."""
    return (names,) if isinstance(names, str) else tuple(names or ())


def require_one_layer(
    model: nn.Module, x: Tensor, layers: Iterable[Layer], head: tuple[str, ...], positions: Positions | None
) -> None:
    """Raises UnsupportedModuleError unless these are the final linear layer, or what stands for it."""
    for layer in layers:
        if isinstance(layer, str) and (layer_named(model, layer),) != linear_head(model, x, head, positions).layers:
            raise UnsupportedModuleError(
                "layers",
                "the final linear layer, or none, for what looks at its weight and at features together",
                repr(layer),
                "Read the two in probes of their own.",
            )
