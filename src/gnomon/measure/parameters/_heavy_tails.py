"""How heavy the tails of the weights' spectra are, and what lies outside the bulk of a random matrix."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon._precision import full_precision
from gnomon.linalg import largest
from gnomon.measure._parameters import weights_of

_ROWS = 256
"""The number of candidates for a tail's smallest eigenvalue that are fitted at once."""


@dataclass(frozen=True)
class HeavyTails:
    r"""For the eigenvalues of each weight's $W^\top W$, the power law of the tail, and the edge of a random bulk.

    Attributes:
        layers: the weights' names, as in `named_parameters`.
        alpha: the exponent of the tail's density $\propto\lambda^{-\alpha}$, above 1; infinite where fewer than two
            eigenvalues differ by more than rounding, so that there is no tail.
        smallest: the eigenvalue at which the tail begins, WeightWatcher's `xmin`; 0 where there is none.
        distance: the Kolmogorov-Smirnov distance between the tail and its fit, in [0, 1].
        tail: the number of eigenvalues in the tail; 0 where there is none.
        edge: where the eigenvalues of a random matrix with entries of the same mean square end (Marchenko, Pastur).
        spikes: the number of eigenvalues beyond that edge.
    """

    layers: tuple[str, ...]
    alpha: Float[Tensor, "l"]
    smallest: Float[Tensor, "l"]
    distance: Float[Tensor, "l"]
    tail: Int[Tensor, "l"]
    edge: Float[Tensor, "l"]
    spikes: Int[Tensor, "l"]


@full_precision
def heavy_tails(parameters: Mapping[str, Float[Tensor, "*d"]]) -> HeavyTails:
    r"""The power law that fits the tail of each weight's spectrum, and the eigenvalues beyond a random bulk.

    Reading:
        Low, high: According to its authors, $\alpha$ from 2 to 6 indicates a well-trained layer, above 6 one that has
            hardly learnt, below 2 one that has learnt too much.
        Generalising: Not measured here.
        Misleads: A tail is always found: of random weights of 100 x 200, which have none, 58 % have an exponent from 2
            to 6 (median 5.5, mean 6.5, nine in ten from 3.2 to 13.3), and one in eight has an eigenvalue beyond the
            edge. With few eigenvalues it is noise.

    $\alpha = 1 + m\big/\sum_{\lambda_i\ge\lambda_{\min}}\log\frac{\lambda_i}{\lambda_{\min}}$ over the m eigenvalues
    from $\lambda_{\min}$ on, which is chosen to give the smallest distance;
    $\quad\lambda_+ = (\sqrt q + \sqrt p)^2\, \frac{\|W\|_F^2}{q\,p}$

    A weight is a matrix with a row for each entry of its first axis: for a convolution the patches are flattened, while
    WeightWatcher pools the matrices at all positions of the kernel. It adjusts the bulk's variance to the histogram,
    whereas here it is that of all entries; and version 0.7.7 fits fewer than 20 eigenvalues in another way: the ten of
    a digits network's last layer give 2.6 there, 10.5 here.

    Source:
        Martin, Mahoney, arXiv:1810.01075; Martin, Peng, Mahoney, arXiv:2002.06716. The fit: Clauset, Shalizi, Newman,
        arXiv:0706.1062, with the distance as in the package `powerlaw`, except that equal eigenvalues count one after
        another.
    Args:
        parameters: the network's parameters, by name; those with one axis are left out.
    Returns:
        One number per weight. $\alpha$, distance, tail and spikes are invariant under scaling and rotations of the
        weight; smallest and edge have the square of its unit, and are infinite or 0 where the dtype does not hold that.
        For half precision, in float32. No gradients: the choice of the smallest has none.
    Raises:
        EmptyError: if none has two axes.
        RangeError: at NaN or infinity, or if they are not a mapping.
    Cost: O(q p min(q, p)) per weight, for the singular values, and O(min(q, p)²) for the fits.
    Example:
        >>> import torch, gnomon
        >>> weight = torch.randn(200, 100, generator=torch.Generator().manual_seed(0))
        >>> tails = gnomon.heavy_tails({"0.weight": weight})
        >>> tails.layers, tails.spikes
        (('0.weight',), tensor([0]))
    """
    weights = {name: weight.detach() for name, weight in weights_of(parameters).items()}
    rows = [_of_one(weight) for weight in weights.values()]
    return HeavyTails(tuple(weights), *map(torch.stack, zip(*rows, strict=True)))


def _of_one(weight: Float[Tensor, "q p"]) -> tuple[Tensor, ...]:
    """The attributes of one weight, in their order."""
    values, first = _eigenvalues(weight)
    (rows, columns), dtype = weight.shape, weight.dtype
    alpha, least, distance, tail = _fitted(values, 2 * max(rows, columns) * torch.finfo(dtype).eps)
    edge = (math.sqrt(rows) + math.sqrt(columns)) ** 2 * values.sum() / (rows * columns)
    # Times the first singular value twice, since its square may be beyond float64, and infinity times 0 is NaN.
    found = alpha, least * first * first, distance, tail, edge * first * first, (values > edge).sum()
    return tuple(part.to(dtype) if part.is_floating_point() else part for part in found)


def _eigenvalues(weight: Float[Tensor, "q p"]) -> tuple[Float[Tensor, "r"], Float[Tensor, ""]]:
    r"""The eigenvalues of $W^\top W$ that are not 0 up to rounding, over the largest, and the root of that.

    In increasing order, in float64; over the largest, so that none overflows or underflows.
    """
    values = torch.linalg.svdvals(weight)
    kept = values > max(weight.shape) * torch.finfo(weight.dtype).eps * values[0]
    first = largest(values).double()
    return (values[kept].flip(0).double() / first).square(), first


def _fitted(values: Float[Tensor, "r"], rounding: float) -> tuple[Tensor, ...]:
    """Exponent, smallest value, distance and length of the tail, of increasing values, that best fits a power law.

    A tail reaches from its smallest value to the largest by more than the rounding of their logarithms.
    """
    n, zero = len(values), values.new_zeros(())
    if n < 2:
        return zero + torch.inf, zero, zero, torch.tensor(0, device=values.device)
    logs, places = values.log(), torch.arange(n, device=values.device)
    counts, gaps = n - places[:-1], logs.diff()
    # The sums of log(x / smallest), gap by gap: positive terms only, so that nothing cancels.
    sums = (gaps * counts.sub(1)).flip(0).cumsum(0).flip(0)
    again = torch.cat([gaps.new_zeros(1, dtype=torch.bool), gaps[:-1] == 0])
    flat = logs[-1] - logs[:-1] <= rounding
    distances = torch.cat([_distances(logs, sums, part) for part in torch.split(places[:-1], _ROWS)]).masked_fill(
        again | flat, torch.inf
    )
    best = distances.argmin()
    found = 1 + counts.take(best) / sums.take(best), values.take(best), distances.take(best), counts.take(best)
    without = torch.inf, 0, 0, 0
    return tuple(torch.where(flat.all(), none, part) for none, part in zip(without, found, strict=True))


def _distances(logs: Float[Tensor, "r"], sums: Float[Tensor, "_"], starts: Int[Tensor, "m"]) -> Float[Tensor, "m"]:
    """The largest difference between a tail's cumulative distribution and that of its fit, for several starts."""
    steps = torch.arange(len(logs), device=logs.device) - starts.unsqueeze(1)
    counts = (len(logs) - starts).unsqueeze(1)
    slopes = counts / torch.where(sums > 0, sums, 1)[starts].unsqueeze(1)
    fitted = -torch.expm1(-slopes * (logs - logs[starts].unsqueeze(1)))
    return torch.where(steps >= 0, (fitted - steps.to(logs.dtype) / counts).abs(), 0).amax(1)
