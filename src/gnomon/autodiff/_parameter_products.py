"""Gradient kernels with few points, by products with the parameter Jacobian, which is never formed."""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gnomon._precision import in_single
from gnomon.autodiff._parameter_jacobian import (
    differentiable,
    mixture,
    require_gradient,
    single_gradients,
    vector_parameter_jacobian,
)
from gnomon.autodiff._run import run

Multiply = Callable[[Mapping[str, Tensor]], Tensor]
"""Maps a direction u in parameter space to the product of each sample's Jacobian with it, (n c)."""


def add_products(
    model: nn.Module,
    parameters: Mapping[str, Tensor],
    x: Shaped[Tensor, "n *d"],
    x2: Shaped[Tensor, "m *d"],
    kernel: Float[Tensor, "n m"] | Float[Tensor, "n m c c"],
    *,
    block: int,
) -> None:
    """Adds the kernel of the gradients with respect to these parameters, `block` samples of x at a time."""
    for start in range(0, len(x), block):
        rows = kernel[start : start + block]
        with differentiable(recording=True):
            multiply = multiplier(model, parameters, x[start : start + block])
            for j in range(len(x2)):
                point, total = x2[j : j + 1], in_single(rows[:, j])  # half precision cannot hold sums
                for _, k, gradient in single_gradients(model, parameters, point, create_graph=False):
                    column = multiply(gradient)
                    with torch.no_grad():  # as when the rows, which are views, were taken
                        if kernel.ndim == 2:
                            total += column[:, k]
                        else:
                            total[:, :, k] += column
                rows[:, j] = total


def multiplier(model: nn.Module, parameters: Mapping[str, Tensor], x: Shaped[Tensor, "n *d"]) -> Multiply:
    r"""The function that multiplies the Jacobians of these samples by a direction in parameter space.

    The backward pass is linear in the vector v that it propagates, so the derivative of $\langle v^\top J, u\rangle$
    with respect to v is $Ju$: a second backward pass, through the first. If that does not give $\|g\|^2$ as the product
    of w with $Jg$, $g = w^\top J$, because a layer has no second derivative, which torch does not always report, one
    backward pass for each sample and output is used instead.
    """
    logits = run(model, x)
    require_gradient(logits)
    v = torch.zeros_like(logits, requires_grad=True)
    products = vector_parameter_jacobian(logits, parameters, v, create_graph=True)
    along = {name: product for name, product in products.items() if product.requires_grad}

    def multiply(u: Mapping[str, Tensor]) -> Tensor:
        parts = [u[name] for name in along]
        (column,) = torch.autograd.grad(list(along.values()), v, parts, retain_graph=True, materialize_grads=True)
        return column

    def multiply_each(u: Mapping[str, Tensor]) -> Tensor:
        column = torch.zeros_like(v, requires_grad=False)
        for i, k, gradient in single_gradients(model, parameters, x, create_graph=False):
            column[i, k] = sum((gradient[name] * part).sum() for name, part in u.items())
        return column

    w = mixture(logits)
    g = vector_parameter_jacobian(logits, parameters, w, create_graph=False)
    size = sum(part.square().sum() for part in g.values())
    try:
        error = (multiply(g) * w).sum() - size
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:
        return multiply_each
    epsilon = max(torch.finfo(tensor.dtype).eps for tensor in (logits, *parameters.values()))
    return multiply if abs(error) <= epsilon**0.5 * size else multiply_each
