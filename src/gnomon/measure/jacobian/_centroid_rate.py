"""How fast training moves the inner product of a sample with its centroid."""

from collections.abc import Callable
from contextlib import nullcontext

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gnomon import _checks
from gnomon._precision import full_precision, outside_inference
from gnomon.autodiff import (
    chunk_size,
    differentiable,
    in_single_steps,
    nodes_of,
    run,
    trainable,
    vector_parameter_jacobian,
)
from gnomon.errors import ShapeError, UnsupportedModuleError


@full_precision
def centroid_rate(
    model: nn.Module,
    x: Float[Tensor, "n *d"],
    train_x: Float[Tensor, "m *d"],
    labels: Shaped[Tensor, "m *y"],
    loss: Callable[[Tensor, Tensor], Tensor],
    *,
    memory: int | None = None,
) -> Float[Tensor, "n"]:
    r"""The rate at which full-batch gradient descent moves each $\langle x, \mu_x\rangle$, per unit of learning rate.

    $\partial_t\langle x, \mu_x\rangle = \langle x, \nabla_x h(x)\rangle$ with
    $h(x) = \mathbf{1}^\top\,\partial_\theta f(x)\,u$ and $u = -\nabla_\theta L$

    That is the derivative of the inner product along the path that gradient descent takes: for every network, with
    biases and smooth activations too. For a network without biases whose pieces all go through zero, such as a ReLU
    network of any depth, $\langle x, \nabla_x h\rangle = h$, and it is the papers' formula,
    $\frac1m\sum_p \mathbf{1}^\top\Theta(x, x_p)\,m_p$ with the full kernel $\Theta$ and
    $m_p = -m\,\partial L/\partial f(x_p)$: $e_y$ minus the softmax for cross-entropy, $y$ minus the sigmoid for its
    binary form, $2(e_y - f)$ for the squared error summed over outputs. One step of learning rate $\eta$ changes the
    inner product by $\eta$ times this, up to a term of order $\eta^2$. Weight decay and momentum are not in it.

    Source:
        Walker et al., arXiv:2506.12284, theorem 9, proposition 10, corollary 11 (Jacobian Alignment Explains Grokking,
        theorem 6, proposition 7, corollary 8), extended to all networks. Departs from them in docs/errata.md.
    Args:
        model: a network from (n *d) to (n c), whose samples do not mix.
        x: the samples whose inner products move.
        train_x: all samples that the network is trained on.
        labels: what the loss takes beside the outputs.
        loss: from outputs (m c) and labels to a number, the mean over the samples in the papers: the very function that
            is trained with, such as `torch.nn.functional.cross_entropy`. `mse_loss` also averages over the outputs,
            which makes the rate c times smaller than the papers'.
        memory: bytes to use beyond the result; 512 MiB unless told. Holds inside `torch.no_grad()`.
    Returns:
        Unit: outputs per step and per unit of learning rate. Linear in the loss; 0 where the gradient of the loss is.
        Follows torch's grad mode: it can be differentiated in the parameters where gradients are on.
    Raises:
        ShapeError: if the outputs are not (n, c), there is not one label a training sample, or the loss is no number.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, in the loss too.
        UnsupportedModuleError: if BatchNorm in training mode mixes the samples, nothing is trainable, or a layer
            has no second derivative.
    Cost: two forward passes and one backward pass over the training samples; over x one pass forward and two
        back, the second through the first. No kernel is formed.
    Example:
        >>> import torch, gnomon
        >>> from torch.nn import functional
        >>> layer = torch.nn.Linear(2, 1, bias=False)
        >>> x, labels = torch.tensor([[3.0, 4.0]]), torch.tensor([[1.0]])
        >>> rate = gnomon.centroid_rate(layer, x, x, labels, functional.binary_cross_entropy_with_logits)
        >>> bool(rate.allclose(25 * (1 - layer(x).sigmoid()[:, 0])))
        True
    """
    where = "centroid_rate"
    _checks.floating(where, x=x, train_x=train_x)
    _checks.samples(where, 1, x=x)
    _checks.samples(where, 1, train_x=train_x, labels=labels)
    _checks.finite(where, x=x, train_x=train_x)
    parameters = trainable(where, model, x)
    keep = torch.is_grad_enabled()
    x, train_x, labels = outside_inference(x), outside_inference(train_x), outside_inference(labels)
    # Passes through a graph of a graph: three times what one backward pass takes.
    budget = None if memory is None else max(1, memory // 3)
    sizes = [
        len(part) if keep else chunk_size(where, model, part, jacobian=False, budget=budget) for part in (train_x, x)
    ]
    # A graph of a graph is not differentiated further unless the result is.
    with in_single_steps() if keep else nullcontext():
        direction = descent(where, model, parameters, train_x, labels, loss, sizes[0], keep=keep)
        rates = [rate(where, model, parameters, direction, part, keep=keep) for part in torch.split(x, sizes[1])]
    return torch.cat(rates)


def descent(
    where: str,
    model: nn.Module,
    parameters: dict[str, Tensor],
    x: Float[Tensor, "m *d"],
    labels: Tensor,
    loss: Callable[[Tensor, Tensor], Tensor],
    size: int,
    *,
    keep: bool,
) -> dict[str, Tensor]:
    """The negative gradient of the loss in the parameters, in chunks whatever the loss is of all the outputs."""
    with differentiable(recording=keep):
        logits = torch.cat([run(where, model, part) for part in torch.split(x, size)])
    with differentiable(recording=True):
        at = logits if keep else logits.requires_grad_()
        value: object = loss(at, labels)
        if not isinstance(value, Tensor) or value.numel() != 1:
            got = f"shape {_checks.shape_of(value)}" if isinstance(value, Tensor) else type(value).__name__
            raise ShapeError("loss", "one number", got, "Take the mean over the samples.", where=where)
        _checks.finite(where, loss=value.detach().reshape(1))
        (residual,) = torch.autograd.grad(-value.sum(), at, retain_graph=True, create_graph=keep)
        if keep:
            return vector_parameter_jacobian(logits, parameters, residual, keep=True)
        total: dict[str, Tensor] = {}
        for part, v in zip(torch.split(x, size), torch.split(residual, size), strict=True):
            products = vector_parameter_jacobian(run(where, model, part), parameters, v, keep=False)
            total = {name: total[name] + product if total else product for name, product in products.items()}
        return total


def rate(
    where: str,
    model: nn.Module,
    parameters: dict[str, Tensor],
    direction: dict[str, Tensor],
    x: Float[Tensor, "n *d"],
    *,
    keep: bool,
) -> Float[Tensor, "n"]:
    """The derivative along `direction` of the inner product, by a second backward pass.

    Samples do not mix, so that each sample's slope is that of the sum of all h. Backwards twice, never forwards and
    then backwards: that is wrong through torch's layer norm, without a word.
    """
    with differentiable(recording=True):
        leaf = x if keep and x.requires_grad else x.detach().requires_grad_()
        logits = run(where, model, leaf)
        gradient = vector_parameter_jacobian(logits, parameters, torch.ones_like(logits), keep=True)
        moved = torch.stack([(gradient[name] * part).sum() for name, part in direction.items()]).sum()
        if not moved.requires_grad:
            return logits.new_zeros(len(logits))
        # torch prunes the node that would raise the error, and gives a wrong gradient instead.
        if any(node.name() == "torch::autograd::Error" for node in nodes_of(moved)[0]):
            raise lacking(where, "one differentiable once only")
        try:
            (slope,) = torch.autograd.grad(moved, leaf, create_graph=keep, materialize_grads=True)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise lacking(where, str(error)) from error
        result = (slope * leaf).flatten(1).sum(1)
        return result if keep else result.detach()


def lacking(where: str, got: str) -> UnsupportedModuleError:
    """The error for a layer that cannot be differentiated twice."""
    return UnsupportedModuleError(
        "model",
        "layers with a second derivative",
        got,
        "Replace that layer by one of torch's own operations.",
        where=where,
    )
