"""The gradient of the loss, and how it varies from batch to batch."""

from dataclasses import dataclass

from jaxtyping import Float, Int, Real, Shaped
from torch import Tensor, nn

from gnomon._precision import full_precision
from gnomon.measure._batch_sums import BatchSums
from gnomon.measure._losses import Loss


@dataclass(frozen=True)
class BatchGradients:
    r"""How the gradients $g_b$ of batches lie around that of all samples, $g = \frac1n\sum_b n_b g_b$.

    Attributes:
        sizes: the number of samples in each batch, $n_b$.
        norm: $\|g\|$; unit: loss per parameter; so for all but the sizes.
        deviations: $\|g_b - g\|$.
        along: $\langle g_b - g, g\rangle/\|g\|$, 0 where g vanishes.
    """

    sizes: Int[Tensor, "b"]
    norm: Float[Tensor, ""]
    deviations: Float[Tensor, "b"]
    along: Float[Tensor, "b"]


@full_precision
def batch_gradients(
    model: nn.Module,
    x: Shaped[Tensor, "n *d"],
    labels: Real[Tensor, "n *y"],
    *,
    loss: Loss = "cross_entropy",
    batches: int = 16,
    seed: int = 0,
    memory: int | None = None,
) -> BatchGradients:
    r"""The gradient of the mean loss in the parameters, and how those of random batches lie around it.

    Reading:
        Low, high: Deviations above the norm: batches of this size mostly pull in different directions. Far below: each
            pulls as all do.
        Generalising: Not measured here.
        Misleads: Deviations shrink with the square root of the number of samples in a batch: compare them at the same
            number, or read `gradient_noise_scale`.

    `gradient_norm` and `gradient_noise_scale` use this, so that one pass over the samples serves both. In a probe,
    another loss is passed here: `[functools.partial(batch_gradients, loss="mse"), gradient_norm]`.

    Each sample is assigned to one of the batches at random, and these are equally large, up to one sample. Parameters
    that do not require gradients do not count. The result has no graph.

    Source:
        gnomon, for the quantities that follow from it.
    Args:
        model: a network from (n *d) to (n c), whose samples do not mix.
        x: the samples; token indices are allowed, as nothing is differentiated with respect to them.
        labels: what the loss takes in addition to the outputs, as for `training_loss`.
        loss: `cross_entropy`, `mse`, or a function from outputs and labels to one value per sample; the gradient is
            that of its mean.
        batches: the number of batches that the samples are split into, at least 2; fewer where the memory does not hold
            that many gradients or there are fewer samples.
        seed: the seed of the batches, which are drawn independently of training's random numbers.
        memory: bytes to use; default: 512 MiB. Samples are processed in chunks that fit.
    Returns:
        In the parameters' dtype, at least float32. The norm is that of all samples, whatever the batches.
    Raises:
        ShapeError: if the outputs are not (n, c), or labels and loss do not match them.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity, in outputs, loss and gradients too; at labels that are not classes, and at
            settings out of range.
        UnsupportedModuleError: if in training mode BatchNorm mixes the samples or Dropout draws random numbers, or if
            nothing is trainable.
    Cost: a forward and a backward pass over the samples, in as many pieces as there are batches, and O(b p).
    Example:
        >>> import torch, gnomon
        >>> layer = torch.nn.Linear(1, 1, bias=False)
        >>> x, targets = torch.tensor([[1.0], [2.0]]), layer.weight.detach() * torch.tensor([[1.0], [2.0]]) - 1
        >>> found = gnomon.batch_gradients(layer, x, targets, loss="mse")
        >>> found.norm, found.deviations
        (tensor(3.), tensor([1., 1.]))
    """
    sums = BatchSums(loss, batches, seed, memory)
    sums.add(model, x, labels)
    return BatchGradients(*sums.spread())
