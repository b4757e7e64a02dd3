"""How fast training moves the inner product of a sample with its centroid."""

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gnomon import _checks
from gnomon._precision import full_precision, outside_inference
from gnomon.autodiff import centroid_velocity
from gnomon.measure._losses import Loss, mean_loss


@full_precision
def centroid_rate(
    model: nn.Module,
    x: Float[Tensor, "n *d"],
    train_x: Float[Tensor, "m *d"],
    train_labels: Shaped[Tensor, "m *y"],
    loss: Loss,
    *,
    memory: int | None = None,
) -> Float[Tensor, "n"]:
    r"""The rate at which full-batch gradient descent moves each $\langle x, \mu_x\rangle$, per unit of learning rate.

    Reading:
        Low, high: Large while the loss has a gradient, whatever is learnt; 0 where gradient descent is stationary.
        Generalising: Says nothing: on digits 7.4 at the end in a network that generalises, where the penalty pulls
            against the loss, 0.13 in one that memorised.
        Misleads: With weight decay or momentum, which are not in it.

    $\partial_t\langle x, \mu_x\rangle = \langle x, \nabla_x h(x)\rangle$ with
    $h(x) = \mathbf{1}^\top\,\partial_\theta f(x)\,u$ and $u = -\nabla_\theta L$

    This is the derivative of the inner product along the path that gradient descent takes: for every network, also with
    biases and smooth activations. For a network without biases whose pieces all go through zero, such as a ReLU network
    of any depth, $\langle x, \nabla_x h\rangle = h$, and it is the papers' formula,
    $\frac1m\sum_p \mathbf{1}^\top\Theta(x, x_p)\,m_p$ with the full kernel $\Theta$ and
    $m_p = -m\,\partial L/\partial f(x_p)$: $e_y$ minus the softmax for cross-entropy, $y$ minus the sigmoid for its
    binary form, $2(e_y - f)$ for the squared error summed over outputs. One step of learning rate $\eta$ changes the
    inner product by $\eta$ times this, up to a term of order $\eta^2$. Weight decay and momentum are not in it,
    nor what a loss takes of the parameters beside the outputs, as a penalty.

    Source:
        Walker et al., arXiv:2506.12284, theorem 9, proposition 10, corollary 11 (Jacobian Alignment Explains Grokking,
        theorem 6, proposition 7, corollary 8), extended to all networks. Departs from them in docs/errata.md.
    Args:
        model: a network from (n *d) to (n c), whose samples do not mix.
        x: the samples whose inner products move.
        train_x: all samples that the network is trained on.
        train_labels: what the loss takes in addition to the outputs.
        loss: "cross_entropy" or "mse", as for `training_loss`, of which it is the mean over the samples; or a function
            from outputs (m c) and `train_labels` to a number: the very function used in training. "mse" also averages
            over the outputs, as torch's `mse_loss` does, which makes the rate c times smaller than the papers'.
        memory: bytes to use beyond the result; default: 512 MiB. This limit holds inside `torch.no_grad()`.
    Returns:
        Unit: outputs per step and per unit of learning rate. Linear in the loss; 0 where the gradient of the loss
        vanishes. Follows torch's grad mode: it can be differentiated in the parameters where gradients are enabled.
    Raises:
        ShapeError: if the outputs are not (n, c), there is not one training label per sample, or the loss is not a
            number.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, in the loss too.
        UnsupportedModuleError: if in training mode BatchNorm mixes the samples or Dropout draws random numbers, if
            nothing is trainable, or if a layer has no second derivative.
    Cost: two forward passes and one backward pass over the training samples; over x one forward and two backward
        passes, the second through the first. No kernel is formed.
    Example:
        >>> import torch, gnomon
        >>> from torch.nn import functional
        >>> layer = torch.nn.Linear(2, 1, bias=False)
        >>> x, labels = torch.tensor([[3.0, 4.0]]), torch.tensor([[1.0]])
        >>> rate = gnomon.centroid_rate(layer, x, x, labels, functional.binary_cross_entropy_with_logits)
        >>> bool(rate.allclose(25 * (1 - layer(x).sigmoid()[:, 0])))
        True
    """
    _checks.samples(1, x=x)
    _checks.samples(1, train_x=train_x, train_labels=train_labels)
    _checks.finite(x=x, train_x=train_x)
    velocity = centroid_velocity(model, x, train_x, train_labels, mean_loss(loss), memory=memory)
    return (velocity * outside_inference(x)).reshape(len(x), -1).sum(1)
