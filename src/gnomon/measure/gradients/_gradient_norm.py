"""How strong the pull of the loss still is."""

from jaxtyping import Float
from torch import Tensor

from gnomon._precision import full_precision
from gnomon.measure.gradients._batch_gradients import BatchGradients


@full_precision
def gradient_norm(batch_gradients: BatchGradients) -> Float[Tensor, ""]:
    r"""The length of the gradient of the mean loss in all parameters together.

    Reading:
        Low, high: 0 where gradient descent without weight decay is stationary; high where steps change the loss a lot.
        Generalising: Says nothing: on digits 0.28 at the end in a network that generalises, where a penalty pulls
            against the loss, 0.066 in one that memorised.
        Misleads: It also falls with the loss in networks that memorise, and jumps with Adam's steps there. It changes
            with the scale of the loss, and when scale is moved between layers.

    $\|\frac1n\sum_i\nabla_\theta\ell_i\|_2$

    Weight decay and other penalties are not in it.

    Source:
        As a measure of generalisation: Jiang et al., arXiv:1912.02178.
    Args:
        batch_gradients: the gradients of the samples, however these are split into batches.
    Returns:
        At least 0; unit: loss per parameter. Exact for these samples. Grows in proportion with the loss, and is
        invariant under rotations of the parameters.
    Raises:
        ArgumentTypeError: if the argument is anything else.
    Cost: that of `batch_gradients`: with its 16 batches 2 to 13 forward and backward passes. Where nothing else needs
        these, `functools.partial(batch_gradients, batches=2)` takes one to two.
    Example:
        >>> import torch, gnomon
        >>> layer, x, labels = torch.nn.Linear(2, 2), torch.zeros(4, 2), torch.tensor([0, 0, 0, 1])
        >>> _ = torch.nn.init.zeros_(layer.bias)
        >>> gnomon.gradient_norm(gnomon.batch_gradients(layer, x, labels))
        tensor(0.3536)
    """
    return batch_gradients.norm
