"""The batch size above which batches agree on the gradient."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.errors import RangeError
from gnomon.linalg import Estimate
from gnomon.measure._jackknife import half_width
from gnomon.measure.gradients._batch_gradients import BatchGradients


@full_precision
def gradient_noise_scale(batch_gradients: BatchGradients, *, whole: bool = False) -> Estimate:
    r"""The batch size at which the gradient's noise is as large as the gradient: the simple noise scale.

    Reading:
        Low, high: Low: few samples suffice to tell the direction. High: the samples' gradients cancel, and the
            gradients of batches much smaller than this are mostly noise.
        Generalising: Says nothing: on 500 digits it rises from 10 to above 1,000 during training, both in a network
            that generalises and in one that memorised, and ends at 33 and 13 (`whole`).
        Misleads: It grows as the loss falls, whatever is learnt, and for memorised samples it is infinite: their mean
            gradient cannot be told from 0, unless they are the `whole` training set.

    $B = \operatorname{tr}\Sigma/\|G\|^2$, with the covariance $\Sigma$ of the samples' gradients and their mean G

    Both are estimated without bias from the gradients $g_b$ of m batches of $n_b$ samples and g of all n:
    $\operatorname{tr}\Sigma \approx S = \frac1{m-1}\sum_b n_b\|g_b - g\|^2$, $\|G\|^2 \approx \|g\|^2 - S/n$. The error
    is that of 1/B by the jackknife over batches, propagated to B. Where the samples are the `whole`, G is g, and their
    covariance has n in place of n - 1: $B \approx \frac{n-1}n S/\|g\|^2$; only their division into m batches is left
    to chance, and the error is smaller by $\sqrt{1 - m/n}$: 0 for batches of one sample.

    Source:
        McCandlish et al., arXiv:1812.06162.
    Args:
        batch_gradients: the gradients of at least two batches.
        whole: whether the samples are all that training draws from, rather than a sample of a larger set.
    Returns:
        At least 0; unit: samples. Infinity where the estimate of $\|G\|^2$ is not above 0, with an infinite error where
        its interval reaches 0; 0 where all gradients are equal. Invariant under scaling the loss.
    Raises:
        RangeError: if there is only one batch, or `whole` is neither true nor false.
    Cost: that of `batch_gradients`.
    Example:
        >>> import torch, gnomon
        >>> layer, x = torch.nn.Linear(1, 1, bias=False), torch.ones(100, 1)
        >>> targets = layer.weight.detach() + 2 + torch.arange(100).view(100, 1) % 2
        >>> scale = gnomon.gradient_noise_scale(gnomon.batch_gradients(layer, x, targets, loss="mse", batches=100))
        >>> scale.value  # a variance of 25/99 around a mean of 5/2
        tensor(0.0404)
    """
    _checks.settings(("whole", whole, "True or False", isinstance(whole, bool)))
    found = batch_gradients
    if len(found.sizes) < 2:
        advice = "Pass more samples, and allow more batches."
        raise RangeError("batch_gradients", "gradients of two batches or more", "those of one", advice)
    largest = torch.maximum(found.norm, found.deviations.max()).double()
    unit = torch.where(largest > 0, largest, 1)
    norm, deviations, along = (part.double() / unit for part in (found.norm, found.deviations, found.along))
    sizes, squares = found.sizes.double(), deviations.square()
    if whole:
        inverse, without = _inverse_of_whole(sizes, norm.square(), sizes * squares)
    else:
        inverse, without = _inverse(sizes, norm, squares, along)
    chance = 1 - len(sizes) / sizes.sum() if whole else sizes.new_ones(())
    error = torch.where(chance > 0, half_width(without) * chance.sqrt(), 0)  # the half-width may be infinite
    low = inverse - error  # NaN where there is no noise without one of the batches
    # NaN where all gradients are 0.
    value = torch.where(inverse > 0, 1 / inverse, torch.inf).masked_fill(inverse.isnan(), 0)
    error = torch.where(low > 0, 1 / low - value, torch.inf).masked_fill(value == 0, 0)
    return Estimate(value.to(found.norm), error.to(found.norm), torch.tensor(len(found.sizes), device=value.device))


def _inverse(
    sizes: Float[Tensor, "b"], norm: Float[Tensor, ""], squares: Float[Tensor, "b"], along: Float[Tensor, "b"]
) -> tuple[Float[Tensor, ""], Float[Tensor, "b"]]:
    """One over the noise scale, for all batches and without each in turn: from the squares of deviations."""
    n, b = sizes.sum(), len(sizes)
    noise = (sizes * squares).sum()
    rest = n - sizes
    share = sizes / rest
    # Without a batch the mean shifts by this share of that batch's deviation, in the opposite direction.
    noises = (noise - sizes * squares * (1 + share)).clamp(min=0)
    signals = norm.square() - 2 * share * norm * along + share.square() * squares
    return norm.square() / noise * (b - 1) - 1 / n, signals / noises * (b - 2) - 1 / rest


def _inverse_of_whole(
    sizes: Float[Tensor, "b"], signal: Float[Tensor, ""], noises: Float[Tensor, "b"]
) -> tuple[Float[Tensor, ""], Float[Tensor, "b"]]:
    """The same where the mean gradient is exact: from each batch's contribution to the noise."""
    n, b = sizes.sum(), len(sizes)
    inverse = signal * (b - 1) / noises.sum() * n / (n - 1)
    return inverse, signal * (b - 1) ** 2 / b / (noises.sum() - noises) * n / (n - 1)
