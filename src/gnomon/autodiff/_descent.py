"""What full-batch gradient descent does to the slope of the summed outputs, and each training sample's part in it."""

from collections.abc import Sequence
from contextlib import ExitStack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnomon._budget import budget_of
from gnomon._precision import outside_inference
from gnomon.autodiff._loss_gradients import Loss, loss_gradient, output_gradient
from gnomon.autodiff._memory import chunk_size
from gnomon.autodiff._parameter_jacobian import differentiable, trainable, vector_parameter_jacobian
from gnomon.autodiff._parameter_products import multiplier
from gnomon.autodiff._run import run
from gnomon.autodiff._second_derivatives import differentiating_again, require_second
from gnomon.autodiff._single_steps import in_single_steps


def centroid_velocity(
    model: nn.Module,
    x: Float[Tensor, "n *d"],
    train_x: Float[Tensor, "m *d"],
    train_labels: Tensor,
    loss: Loss,
    *,
    memory: int | None,
) -> Float[Tensor, "n *d"]:
    r"""How fast descent moves each centroid: $\nabla_x \mathbf{1}^\top\partial_\theta f(x)u$, $u = -\nabla_\theta L$.

    Follows torch's grad mode: outside `torch.no_grad()` the result can be differentiated further.

    Raises:
        ShapeError: if the outputs are not (n, c), or the loss is not a single number.
        RangeError: at NaN or infinity in the loss.
        UnsupportedModuleError: if samples mix, nothing is trainable, or a layer has no second derivative.
    """
    parameters = trainable(model, x)
    create_graph = torch.is_grad_enabled()
    x, train_x, train_labels = (outside_inference(given) for given in (x, train_x, train_labels))
    # Passes through a graph of a graph need three times the memory of one backward pass.
    budget = max(1, budget_of(memory) // 3)
    sizes = [len(part) if create_graph else chunk_size(model, part, memory=budget) for part in (train_x, x)]
    # What is computed from gradients in inference mode cannot enter a graph.
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.set_grad_enabled(create_graph))
        if create_graph:  # a graph of a graph is not differentiated further unless the result is
            stack.enter_context(in_single_steps())
        gradient = loss_gradient(model, parameters, train_x, train_labels, loss, sizes[0], create_graph=create_graph)
        direction = {name: -part for name, part in gradient.items()}
        slopes = [
            _slope(model, parameters, direction, part, create_graph=create_graph) for part in torch.split(x, sizes[1])
        ]
    return torch.cat(slopes)


def _slope(
    model: nn.Module,
    parameters: dict[str, Tensor],
    direction: dict[str, Tensor],
    x: Float[Tensor, "n *d"],
    *,
    create_graph: bool,
) -> Float[Tensor, "n *d"]:
    """The derivative along `direction` of each sample's centroid, by a second backward pass.

    Samples do not mix, so each sample's slope is that of the sum of the derivatives of all outputs. Reverse mode is
    used twice, never forward mode and then reverse mode, which is silently wrong through torch's layer norm.
    """
    with differentiable(recording=True):
        leaf = x if create_graph and x.requires_grad else x.detach().requires_grad_()
        logits = run(model, leaf)
        gradient = vector_parameter_jacobian(logits, parameters, torch.ones_like(logits), create_graph=True)
        moved = torch.stack([(gradient[name] * part).sum().to(x.device) for name, part in direction.items()]).sum()
        (slope,) = _again(moved, [leaf], create_graph=create_graph)
        return slope


def centroid_influence(
    model: nn.Module,
    x: Float[Tensor, "n *d"],
    train_x: Float[Tensor, "m *d"],
    train_labels: Tensor,
    loss: Loss,
    *,
    memory: int | None,
) -> Float[Tensor, "n m"]:
    r"""What each training sample adds to the motion of each inner product: $-(\nabla_{f(x_p)}L)^\top J_pg_i$.

    $J_p = \partial_\theta f(x_p)$ is multiplied by $g_i = \nabla_\theta\langle x_i, \mu_{x_i}\rangle$ for as many
    training samples at once as fit into memory, and computed again for each such chunk. Without a graph.

    Raises:
        ShapeError, RangeError, UnsupportedModuleError: as `centroid_velocity`.
    """
    parameters = trainable(model, x)
    x, train_x, train_labels = (outside_inference(given) for given in (x, train_x, train_labels))
    # Products with the Jacobians are passes through a graph of a graph, too.
    size = chunk_size(model, train_x, memory=max(1, budget_of(memory) // 3))
    with differentiable(recording=False):
        logits = torch.cat([run(model, part) for part in torch.split(train_x, size)])
    columns = []
    with differentiable(recording=True):
        residual = output_gradient(logits.requires_grad_(), train_labels, loss, create_graph=False)
        for part, descent in zip(torch.split(train_x, size), torch.split(-residual, size), strict=True):
            multiply = multiplier(model, parameters, part)
            rows = [(multiply(_ascent(model, parameters, sample)) * descent).sum(1) for sample in torch.split(x, 1)]
            columns.append(torch.stack(rows))
            del multiply  # or its graph would stay in memory beside the next
    return torch.cat(columns, dim=1).to(x.device)


def _ascent(model: nn.Module, parameters: dict[str, Tensor], x: Float[Tensor, "1 *d"]) -> dict[str, Tensor]:
    """The gradient of a sample's inner product with its centroid, by the parameters' names."""
    leaf = x.detach().requires_grad_()
    (centroid,) = torch.autograd.grad(run(model, leaf).sum(), leaf, create_graph=True, materialize_grads=True)
    gradient = _again((centroid * x).sum(), list(parameters.values()), create_graph=False)
    return dict(zip(parameters, gradient, strict=True))


def _again(derivative: Tensor, at: list[Tensor], *, create_graph: bool) -> Sequence[Tensor]:
    """The gradient of a sum of derivatives; zero if they are constant.

    Raises:
        UnsupportedModuleError: if a layer has no second derivative.
    """
    if not derivative.requires_grad:
        return [torch.zeros_like(tensor) for tensor in at]
    require_second(derivative)
    with differentiating_again():
        return torch.autograd.grad(derivative, at, create_graph=create_graph, materialize_grads=True)
