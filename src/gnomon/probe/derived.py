"""What quantities may ask for that follows from what is observed."""

from collections.abc import Callable

from jaxtyping import Float, Int
from torch import Tensor, nn

from gnomon.autodiff import linear_head
from gnomon.autodiff.layer_gradients import gradient_products
from gnomon.measure.class_moments import ClassMoments, class_moments


def moments_of(features: Float[Tensor, "n *p"], labels: Int[Tensor, "n"], logits: Float[Tensor, "n c"]) -> ClassMoments:
    """The counts, means and scatter of the features of each class."""
    return class_moments(features, labels, logits.shape[1])


def weight_of(model: nn.Module) -> Float[Tensor, "c p"]:
    """The weight of the linear layer at the end."""
    return linear_head("Probe", model).weight.detach()


def bias_of(model: nn.Module) -> Float[Tensor, "c"] | None:
    """The bias of the linear layer at the end; None if it has none."""
    bias = linear_head("Probe", model).bias
    return None if bias is None else bias.detach()


def agop_of(model: nn.Module, x: Float[Tensor, "n *d"], memory: int | None) -> Float[Tensor, "p p"]:
    """The average gradient outer product at the network's input, without the Jacobians: a pass of its own."""
    return gradient_products("Probe", model, x, [""], memory=memory)[""].dense()


DERIVED: dict[str, Callable[..., object]] = {
    "agop": agop_of,
    "class_moments": moments_of,
    "weight": weight_of,
    "bias": bias_of,
}
"""By the name under which quantities ask for them."""
