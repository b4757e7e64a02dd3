"""Whether weights agree with what the loss's gradients imply at a stationary point."""

from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Real, Shaped
from torch import Tensor, nn

from gnomon import _checks
from gnomon._precision import full_precision, outside_inference
from gnomon.autodiff import chunk_size, loss_gradient, scale_of_sum, trainable
from gnomon.errors import EmptyError
from gnomon.linalg import Dense, Factored, psd_root
from gnomon.measure._correlation import correlation, root_of, weight_gram
from gnomon.measure._losses import Loss, check_labelled, scaled_sum
from gnomon.measure._separate_losses import require_separate_losses

TRANSPOSED = (nn.Embedding, nn.EmbeddingBag, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
"""Layers that store the transpose of what their input is multiplied with."""


@dataclass(frozen=True)
class FACTTable:
    r"""How each weight's $W^\top W$ agrees with F, its prediction from the loss's gradients at the weight's input.

    Attributes:
        layers: the weights' names, as in `model.named_parameters()`.
        residual: $\|W^\top W - F\|/(\|W^\top W\| + \|F\|)$, in [0, 1].
        pearson: Pearson's correlation of $W^\top W$ with F, in [-1, 1].
        cosine: the cosine with F, in [-1, 1].
        pearson_root: Pearson's correlation with $(FF^\top)^{1/2}$, which is positive semi-definite like $W^\top W$, in
            [-1, 1].
    """

    layers: tuple[str, ...]
    residual: Float[Tensor, "l"]
    pearson: Float[Tensor, "l"]
    cosine: Float[Tensor, "l"]
    pearson_root: Float[Tensor, "l"]


@full_precision
def fact_table(
    model: nn.Module,
    x: Shaped[Tensor, "n *d"],
    labels: Real[Tensor, "n *y"],
    *,
    weight_decay: float | int,
    loss: Loss = "cross_entropy",
    memory: int | None = None,
) -> FACTTable:
    r"""The features at convergence theorem, weight by weight: how far each is from a stationary point of the loss.

    Reading:
        Low, high: A residual of 0: the weight is where loss and weight decay pull equally and opposite. 1: only one of
            the two pulls, or both the same way (cosine -1). At default initialisation residuals are 0.6 to 1, for a
            weight decay of 0.01, and correlations within 0.3 of 0, where those of `nfa_table` are already high.
        Generalising: Not measured here.
        Misleads: It holds for the loss and the weight decay used in training, with the decay in the gradient; AdamW
            settles elsewhere. That a network has settled says nothing about unseen samples. The root is similar even
            without training, 0.2 to 0.9, and 1 for a weight of one row. Batch norm and dropout are evaluated in
            evaluation mode, but trained otherwise.

    $F = -\frac1{n\lambda}\sum_i \nabla_h\ell_i\,h_i^\top$, where $h_i$ is what the weight multiplies at sample i, and
    $\nabla_h\ell_i$ the gradient of its loss there, through the weight; at a stationary point of
    $\frac1n\sum_i\ell_i + \frac\lambda2\|\theta\|^2$ it is $W^\top W$

    It is $-\frac1\lambda W^\top\nabla_W L$, so that one gradient of the mean loss gives it for all weights, also where
    these act on patches, on tokens or in several calls, and neither inputs nor gradients of single samples are stored.
    The correlations do not depend on $\lambda$; those with the AGOP are in `nfa_table`, for comparison.

    What a layer computes is $z = Wh$. torch's embeddings, where h is one-hot, and its transposed convolutions store
    $W^\top$, and are read accordingly; a shared weight as in the first of its layers. Any other parameter is taken as
    it is stored: where that is the transpose, F is $-\frac1{n\lambda}\sum_i z_i\nabla_z\ell_i^\top$.

    Source:
        Boix-Adserà, Mallinar, Simon, Belkin, arXiv:2507.05644. The residual is gnomon's.
    Args:
        model: a network from (n *d) to (n c), whose samples do not mix.
        x: the training samples.
        labels: what the loss takes in addition to the outputs, as for `training_loss`.
        weight_decay: $\lambda$, as in torch's SGD and Adam; without any, 0, the residuals are 1 (0 where there is no
            gradient), and the correlations are those with $\lambda F$.
        loss: `cross_entropy`, `mse`, or a function from outputs and labels to one value per sample, as in training. In
            a probe, use `functools.partial(fact_table, weight_decay=..., loss=...)`.
        memory: bytes to use for a graph; default: 512 MiB.
    Returns:
        One number per weight of two axes or more that requires gradients, in float64. The correlations are 0 where a
        matrix, after centring if any, is 0. The residual is 0 where both matrices are.
    Raises:
        ShapeError: if the outputs are not (n, c), or labels and loss do not match them.
        EmptyError: if there are no samples, or no such weights.
        RangeError: at NaN or infinity, at labels that are not classes, or if the weight decay is negative.
        UnsupportedModuleError: if in training mode BatchNorm mixes the samples or Dropout draws random numbers, or if
            nothing is trainable.
    Cost: a forward and a backward pass over the samples, one more forward pass where they do not fit at once, and
        O(q p min(q, p)) for each weight of q rows.
    Example:
        >>> import torch, gnomon
        >>> layer = torch.nn.Linear(1, 1, bias=False)
        >>> _ = torch.nn.init.constant_(layer.weight, 0.5)
        >>> table = gnomon.fact_table(layer, torch.ones(1, 1), torch.ones(1), weight_decay=2, loss="mse")
        >>> table.residual, table.cosine  # 1/2 is where (w - 1)² + w² is least
        (tensor([0.], dtype=torch.float64), tensor([1.], dtype=torch.float64))
    """
    _checks.settings(_checks.at_least_0("weight_decay", weight_decay))
    check_labelled(x, labels)
    weights = {name: part for name, part in trainable(model, x).items() if part.ndim > 1 and part.numel() > 0}
    if not weights:
        raise EmptyError("model", "a weight of two axes or more that requires gradients", "none", "Pass another.")
    require_separate_losses(model, x, labels, loss, memory)
    x, labels = outside_inference(x), outside_inference(labels)
    size = chunk_size(model, x, memory=memory)
    gradients = loss_gradient(model, weights, x, labels, partial(scaled_sum, loss), size, create_graph=False)
    share = scale_of_sum(len(x)) / len(x)
    rows = []
    for name, part in gradients.items():
        gradient = share * part.double()
        weight, pull = (_multiplying(model, name, own) for own in (weights[name].detach().double(), -gradient))
        rows.append(_row(weight, pull, weight_decay))
    return FACTTable(tuple(weights), *torch.stack(rows, dim=1))


def _multiplying(model: nn.Module, name: str, weight: Float[Tensor, "q *p"]) -> Float[Tensor, "r s"]:
    """The weight as the matrix that its layer multiplies with its input; those of groups row under row."""
    place, _, own = name.rpartition(".")
    layer = model.get_submodule(place)
    if own == "weight" and isinstance(layer, TRANSPOSED):
        groups = getattr(layer, "groups", 1)
        return weight.reshape(groups, len(weight) // groups, -1).mT.flatten(0, 1)
    return weight.flatten(1)


def _narrowed(weight: Float[Tensor, "q p"], gradient: Float[Tensor, "q p"]) -> tuple[Tensor, Tensor]:
    r"""Both in an orthonormal basis that spans their rows and the vector of ones, whose entries stay equal in it.

    So no inner product of products of the two changes, whether their mean entry is subtracted or not; but these are no
    longer p x p, and p may be the size of a vocabulary.
    """
    q, p = weight.shape
    if 2 * q + 1 >= p:
        return weight, gradient
    triangle = torch.linalg.qr(torch.cat([weight.new_ones(1, p), weight, gradient]).mT, mode="r").R.mT
    ones = triangle[0] / triangle[0].norm()
    # Reflected, from the basis whose first vector is that of ones.
    normal = ones - len(ones) ** -0.5
    weight, gradient = (triangle - 2 * torch.outer(triangle @ normal, normal) / normal.square().sum())[1:].split(q)
    return weight, gradient


def _row(weight: Float[Tensor, "q p"], gradient: Float[Tensor, "q p"], decay: float | int) -> Float[Tensor, "4"]:
    """The four numbers of a weight, from the weight and minus the gradient of the mean loss with respect to it."""
    p = weight.shape[1]
    weight, gradient = _narrowed(weight, gradient)
    gram, pull = weight_gram(weight), weight.mT @ gradient
    own, others = decay * torch.linalg.matrix_norm(gram), torch.linalg.matrix_norm(pull)
    residual = torch.linalg.matrix_norm(decay * gram - pull) / torch.where(own + others > 0, own + others, 1)
    of_rows = len(weight) < weight.shape[1]
    squared = Factored(psd_root(gradient @ gradient.mT) @ weight) if of_rows else Dense(pull @ pull.mT)
    root = root_of(squared).dense()
    matrices = (pull, True), (pull, False), (root, True)
    return torch.stack([residual, *(correlation(gram, other, centred=c, terms=p) for other, c in matrices)])
