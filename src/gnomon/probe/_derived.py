"""What quantities may ask for that follows from what is observed."""

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType

from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from gnomon.autodiff import gradient_products, layer_named, linear_head
from gnomon.errors import UnsupportedModuleError
from gnomon.linalg import Covariance, Dense, Factored
from gnomon.measure import ClassMoments, class_moments


def moments_of(features: Float[Tensor, "n *p"], labels: Int[Tensor, "n"], logits: Float[Tensor, "n c"]) -> ClassMoments:
    """The counts, means and scatter of the features of each class."""
    return class_moments(features, labels, logits.shape[1])


def weight_of(model: nn.Module, x: Shaped[Tensor, "n *d"]) -> Float[Tensor, "c p"]:
    """The weight of the linear layer at the end, which a hook may make in the forward pass."""
    return linear_head("Probe", model, x).weight


def bias_of(model: nn.Module, x: Shaped[Tensor, "n *d"]) -> Float[Tensor, "c"] | None:
    """The bias of the linear layer at the end; None if it has none."""
    return linear_head("Probe", model, x).bias


def agop_of(model: nn.Module, x: Float[Tensor, "n *d"], memory: int | None) -> Covariance:
    """The average gradient outer product at the network's input, without the Jacobians: a pass of its own.

    Held as rows where these are fewer than the input's entries: whole, it would take 181 GB for an image of 224 pixels.
    """
    return gradient_products("Probe", model, x, [""], memory=memory)[""]


def as_asked(quantity: Callable[..., object], argument: str, value: object) -> object:
    """What a quantity is given: the AGOP whole, unless the quantity is gnomon's own and takes it as rows."""
    if argument == "agop" and isinstance(value, Dense | Factored) and not own(quantity):
        return value.dense()
    return value


def own(quantity: object) -> bool:
    """Whether it is one of gnomon's functions, as it stands."""
    return isinstance(quantity, FunctionType) and str(quantity.__module__).partition(".")[0] == "gnomon"


DERIVED: dict[str, Callable[..., object]] = {
    "agop": agop_of,
    "class_moments": moments_of,
    "weight": weight_of,
    "bias": bias_of,
}
"""By the name under which quantities ask for them."""


def torn(arguments: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The quantities that look at the weight at the end and at features, which then have to be of one layer.

    Args:
        arguments: by quantity what it looks at, in an order in which each comes behind what it looks at.
    """
    seen: dict[str, frozenset[str]] = {}
    for name, wanted in arguments.items():
        seen[name] = frozenset(wanted).union(*(seen.get(argument, ()) for argument in wanted))
    return [name for name in seen if "features" in seen[name] and seen[name] & {"weight", "bias"}]


def require_one_layer(model: nn.Module, x: Tensor, layer: str | None, together: Sequence[str]) -> None:
    """Raises UnsupportedModuleError if quantities look at the weight at the end and at features of another layer."""
    if not together or layer is None:
        return
    if layer_named("Probe", model, layer) is not linear_head("Probe", model, x).layer:
        raise UnsupportedModuleError(
            "layer",
            f"the last linear one, or none, since {', '.join(together)} look at its weight and at the "
            "features together",
            repr(layer),
            "Read the two in probes of their own.",
            where="Probe",
        )
