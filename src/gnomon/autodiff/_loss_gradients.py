"""Gradients of a loss with respect to the parameters, in chunks."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gnomon import _checks
from gnomon._precision import in_single
from gnomon.autodiff._parameter_jacobian import differentiable, require_gradient, vector_parameter_jacobian
from gnomon.autodiff._run import run
from gnomon.errors import RangeError, ShapeError

Loss = Callable[[Tensor, Tensor], Tensor]
"""Maps the outputs of all samples, and what belongs to them, to one number."""


def loss_gradient(
    model: nn.Module,
    parameters: Mapping[str, Tensor],
    x: Shaped[Tensor, "m *d"],
    labels: Tensor,
    loss: Loss,
    size: int,
    *,
    create_graph: bool,
) -> dict[str, Tensor]:
    """The gradient of the loss with respect to the parameters, `size` samples at a time for any loss of all outputs.

    Takes a second forward pass if there are more samples. With `create_graph`, it has a graph, and so have all samples.

    Raises:
        ShapeError: if the outputs are not (n, c), or the loss is not a single number.
        RangeError: at NaN or infinity in the loss, or if it has no graph.
        UnsupportedModuleError: if the outputs do not depend on the parameters.
    """
    parts = torch.split(x, size)
    once = create_graph or len(parts) == 1
    with differentiable(recording=once):
        logits = torch.cat([run(model, part) for part in parts])
    with differentiable(recording=True):
        at = logits if create_graph else logits.detach().requires_grad_()
        residual = output_gradient(at, labels, loss, create_graph=create_graph)
        if once:
            return _through(logits, parameters, residual, create_graph=create_graph)
        total: dict[str, Tensor] = {}
        for part, v in zip(parts, torch.split(residual, size), strict=True):
            products = _through(run(model, part), parameters, v, create_graph=False)
            wide = {name: in_single(product) for name, product in products.items()}  # half precision cannot hold sums
            total = {name: total[name] + product if total else product for name, product in wide.items()}
        return {name: product.to(parameters[name].dtype) for name, product in total.items()}


def scale_of_sum(samples: int) -> int:
    """A power of two near the root of their number.

    Half precision holds the sum of their losses' gradients over it, as it would not hold the sum itself, and what each
    adds, as it would not hold that to the mean.
    """
    return 1 << samples.bit_length() // 2


def output_gradient(
    at: Float[Tensor, "m c"], labels: Tensor, loss: Loss, *, create_graph: bool
) -> Float[Tensor, "m c"]:
    """The gradient of the loss with respect to outputs that require gradients; called while autograd records.

    Raises:
        ShapeError: if the loss is not a single number.
        RangeError: at NaN or infinity in the loss, or if it has no graph.
    """
    value: object = loss(at, labels)
    if not isinstance(value, Tensor) or value.numel() != 1:
        got = f"shape {_checks.shape_of(value)}" if isinstance(value, Tensor) else type(value).__name__
        raise ShapeError("loss", "one number", got, "Take the mean over the samples.")
    require_slope(value)
    (gradient,) = torch.autograd.grad(
        value.sum(), at, retain_graph=True, create_graph=create_graph, materialize_grads=True
    )
    return gradient


def require_slope(value: Tensor) -> None:
    """Raises RangeError unless a loss is finite and has a graph to the outputs: else torch knows no derivative."""
    _checks.finite(loss=value.detach().reshape(1))
    if not value.requires_grad:
        raise RangeError(
            "loss",
            "a function of the outputs that autograd records",
            "numbers without a graph",
            "Remove the torch.no_grad(), detach() or argmax() in it.",
        )


def _through(logits: Tensor, parameters: Mapping[str, Tensor], v: Tensor, *, create_graph: bool) -> dict[str, Tensor]:
    require_gradient(logits)
    return vector_parameter_jacobian(logits, parameters, v, create_graph=create_graph)
