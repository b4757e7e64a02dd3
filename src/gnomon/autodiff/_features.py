"""What the last layer sees of each sample."""

from jaxtyping import Float, Shaped
from torch import Tensor

from gnomon._precision import full_precision
from gnomon.autodiff._observation import observe
from gnomon.autodiff._run import Model


@full_precision
def features(
    model: Model, x: Shaped[Tensor, "n *d"], *, layer: str | None = None, memory: int | None = None
) -> Float[Tensor, "n *p"]:
    """The features of each sample: the input of the network's final linear layer, or of another layer.

    The final layer is found from what a forward pass computes: the logits follow from its input, its weight and its
    bias. It may be a linear layer, a convolution of single pixels before or after the mean over them, or another layer
    with such a weight. It may be called at each position of a sequence, while the logits are those of one position. It
    may also be several layers that are added up or averaged; their inputs are then concatenated.
    Follows torch's grad mode, as `input_jacobian` does.

    Args:
        model: a network from (n *d) to (n c), whose samples do not mix.
        x: the samples; integers, such as tokens, are accepted too.
        layer: the name, as in `model.named_modules()`, of the layer whose input to return; the final one if None.
        memory: bytes to use beyond the result; default: 512 MiB.
    Returns:
        The input of the layer: the first tensor that it was given, by position or by name, at its last call.
    Raises:
        UnsupportedModuleError: if the network does not end in a linear layer and none is named, if the pass does not
            reach the layer, or if in training mode BatchNorm mixes the samples, or Dropout hides whether a named layer
            sees them in order.
        RangeError: if there is no such layer, listing those that exist; at NaN or infinity.
        ShapeError: if the outputs are not (n, c).
        EmptyError: if there are no samples.
    Cost: a forward pass.
    Example:
        >>> import torch, gnomon
        >>> model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(2, 3))
        >>> gnomon.features(model, torch.tensor([[-1.0, 2.0]])).detach()
        tensor([[0., 2.]])
    """
    watched = {"features": () if layer is None else layer}
    return observe(model, x, set(), features=watched, memory=memory).values["features"]
