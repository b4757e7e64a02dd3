"""What full-batch gradient descent does to the slope of the summed outputs."""

from contextlib import ExitStack

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnomon._budget import budget_of
from gnomon._precision import outside_inference
from gnomon.autodiff._loss_gradients import Loss, loss_gradient
from gnomon.autodiff._memory import chunk_size
from gnomon.autodiff._parameter_jacobian import differentiable, trainable, vector_parameter_jacobian
from gnomon.autodiff._run import run
from gnomon.autodiff._second_derivatives import only_once
from gnomon.autodiff._single_steps import in_single_steps
from gnomon.autodiff._tape import uses_of


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
        if not moved.requires_grad:
            return torch.zeros_like(x)
        # torch prunes the node that would raise the error, and gives a wrong gradient instead.
        if any(node.name() == "torch::autograd::Error" for node in uses_of(moved)):
            raise only_once("one differentiable once only")
        try:
            (slope,) = torch.autograd.grad(moved, leaf, create_graph=create_graph, materialize_grads=True)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise only_once(str(error)) from error
        return slope
