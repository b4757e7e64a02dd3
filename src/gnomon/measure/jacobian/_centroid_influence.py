"""How much each training sample moves the inner product of a sample with its centroid."""

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gnomon import _checks, autodiff
from gnomon._precision import full_precision
from gnomon.measure._losses import Loss, mean_loss


@full_precision
def centroid_influence(
    model: nn.Module,
    x: Float[Tensor, "n *d"],
    train_x: Float[Tensor, "m *d"],
    train_labels: Shaped[Tensor, "m *y"],
    loss: Loss,
    *,
    memory: int | None = None,
) -> Float[Tensor, "n m"]:
    r"""What each training sample adds to the rate at which $\langle x, \mu_x\rangle$ moves, per unit of learning rate.

    Reading:
        Low, high: Far from 0 for samples that pull hard; above 0 for those that raise the inner product.
        Generalising: In a network that generalises, digits of a digit's own class end up pulling 2.21 times as hard as
            those of other classes, in one that memorised 1.49 times, as at the start of both (1.45).
        Misleads: Its sign, which does not tell the classes apart. It is late: 1.48 times when 92.7 % of unseen digits
            are recognised.

    $\iota_{ip} = -\big(\nabla_{f(x_p)}L\big)^\top\,\partial_\theta f(x_p)\,\nabla_\theta\langle x_i, \mu_{x_i}\rangle$

    The sum over p is `centroid_rate`, for every network and loss. Where the loss is a mean over m samples, a step of
    learning rate $\eta$ on sample p's part of it alone, $\ell_p/m$, changes the inner product by $\eta$ times this, up
    to a term of order $\eta^2$: an influence as in TracIn, on the inner product in place of a loss.

    For two layers without biases, pieces through zero and cross-entropy it is
    $\iota_{x,p}\langle x, x_p\rangle / (m\lVert x_p\rVert)$ with the paper's $\iota_{x,p}$, and there each sample moves
    the centroid itself along $x_p$. With more layers, or another loss, it moves it in other directions too
    (docs/errata.md).

    Source:
        Walker et al., arXiv:2506.12284, corollary 11 (Jacobian Alignment Explains Grokking, corollary 8), extended to
        all networks and losses; Pruthi et al., Estimating Training Data Influence by Tracing Gradient Descent, 2020.
    Args:
        model: a network from (n *d) to (n c), whose samples do not mix.
        x: the samples whose inner products move.
        train_x: the samples that the network is trained on; all of them, if the loss is a mean.
        train_labels: what the loss takes in addition to the outputs.
        loss: as for `centroid_rate`.
        memory: bytes to use beyond the result; default: 512 MiB.
    Returns:
        Entry `[i, p]`: training sample p at sample i. Unit: outputs per step and per unit of learning rate. Linear in
        the loss. Without a graph.
    Raises:
        ShapeError, EmptyError, RangeError, UnsupportedModuleError: as for `centroid_rate`.
    Cost: over the training samples two forward passes, three backward passes, and one more for each sample of x; for
        1,024 of them and one x as much as 3.4 gradients of the loss, 0.7 for each further x. No sample's gradient is
        formed, except those of x one after the other, again for each chunk of training samples that fits the memory.
    Example:
        >>> import torch, gnomon
        >>> from torch.nn import functional
        >>> layer = torch.nn.Linear(2, 1, bias=False)
        >>> x, labels = torch.tensor([[3.0, 4.0], [1.0, 0.0]]), torch.tensor([[1.0], [0.0]])
        >>> influence = gnomon.centroid_influence(layer, x, x, labels, functional.binary_cross_entropy_with_logits)
        >>> bool(influence.allclose(x @ x.T * (labels - layer(x).sigmoid()).T / 2))
        True
    """
    _checks.samples(1, x=x)
    _checks.samples(1, train_x=train_x, train_labels=train_labels)
    _checks.finite(x=x, train_x=train_x)
    return autodiff.centroid_influence(model, x, train_x, train_labels, mean_loss(loss), memory=memory)
