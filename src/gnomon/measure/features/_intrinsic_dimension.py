"""The dimension of the set on which features lie."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.linalg import power_of_two
from gnomon.measure._by_class import first_of_each

_BLOCK = 2**22
"""The number of distances that are stored at once."""
_CLOSE = 1e-5
"""The distance, relative to the longest row, whose square by products is known to a few millionths."""


@full_precision
def intrinsic_dimension(features: Float[Tensor, "n *p"]) -> Float[Tensor, ""]:
    r"""The dimension of the manifold that features fill, from each sample's two nearest neighbours (TwoNN).

    Reading:
        Low, high: Low: around each sample the features vary along few directions, however the manifold is curved.
        Generalising: Not measured here.
        Misleads: High dimensions are underestimated, since samples are never close enough: for 1,000 Gaussian samples
            in 50 dimensions it gives 31. It measures at the scale of neighbours, which noise fills.

    With the ratio $\mu_i = r_{i2}/r_{i1}$ of the distances to the two nearest samples, in increasing order,
    $F_i = i/n$, and the largest tenth left out: the slope of the line through zero that fits $-\log(1 - F_i)$ to
    $\log\mu_i$ by least squares

    This is the linear fit of the paper, not the maximum likelihood estimate, $n / \sum_i\log\mu_i$, which is dominated
    by the largest ratios. Samples that coincide count once, since their ratio is infinite; scikit-dimension instead
    drops them as samples and keeps them as neighbours.

    Source:
        Facco, d'Errico, Rodriguez, Laio, Estimating the intrinsic dimension of datasets by a minimal neighborhood
        information, arXiv:1803.06992; for the features of networks, Ansuini et al., arXiv:1905.12784.
    Args:
        features: a layer's output for each sample; further axes are flattened.
    Returns:
        At least 0; 0 for fewer than three distinct samples, infinite where all that are not left out have their two
        neighbours at the same distance, as on a grid, but up to millions where these are equal only up to the rounding
        of float32. Otherwise invariant under scaling, shift and rotation of the features.
    Raises:
        ShapeError: if the features have fewer than two axes.
        EmptyError: if there are no samples.
        RangeError: at NaN or infinity.
    Cost: O(n² p) time, distances in blocks of 32 MiB; memory some ten times that of float32 features. Precision: in
        float64.
    Example:
        >>> import torch, gnomon
        >>> angle = 6.28 * torch.rand(1000, generator=torch.Generator().manual_seed(0))
        >>> round(float(gnomon.intrinsic_dimension(torch.stack([angle.cos(), angle.sin()], 1))))
        1
    """
    _checks.samples(features=features)
    _checks.finite(features=features)
    rows = _distinct(features.flatten(1).double())
    rows = rows / power_of_two(rows)  # so that squares neither overflow nor underflow
    n = len(rows)
    if n < 3:
        return (0 * rows.sum()).to(features.dtype)
    nearest = _two_nearest(rows.detach() - rows.detach().mean(0))
    # From the samples themselves: the products that find most neighbours lose the digits of small distances.
    first, second = torch.linalg.vector_norm(rows.unsqueeze(1) - rows[nearest], dim=2).sort(1).values.unbind(1)
    kept = 9 * n // 10
    ratios = (second / first).log().sort().values[:kept]
    wanted = -(1 - torch.arange(1, kept + 1, device=rows.device, dtype=rows.dtype) / n).log()
    squares = ratios.square().sum()
    slope = (ratios * wanted).sum() / torch.where(squares > 0, squares, 1)
    return torch.where(squares > 0, slope, torch.inf).to(features.dtype)


def _distinct(rows: Float[Tensor, "n p"]) -> Float[Tensor, "m p"]:
    """The distinct rows, of equal ones the first."""
    kinds, place = torch.unique(rows.detach(), dim=0, return_inverse=True)
    return rows[first_of_each(place, len(kinds))]


def _two_nearest(rows: Float[Tensor, "n p"]) -> Tensor:
    """The indices of the two rows closest to each row, (n 2)."""
    size = max(1, _BLOCK // len(rows))
    found, distances = _closest(rows, torch.arange(len(rows), device=rows.device), size, "use_mm_for_euclid_dist")
    # By products it is several times as fast; of neighbours this close they leave no digits.
    close = distances <= _CLOSE * torch.linalg.vector_norm(rows, dim=1).amax()
    (lost,) = close.nonzero(as_tuple=True)
    if len(lost):
        found[lost], _ = _closest(rows, lost, size, "donot_use_mm_for_euclid_dist")
    return found


def _closest(
    rows: Float[Tensor, "n p"], which: Int[Tensor, "m"], size: int, mode: str
) -> tuple[Int[Tensor, "m 2"], Float[Tensor, "m"]]:
    """For some rows, the two closest of the others, and the distance of the second; `size` rows at a time."""
    found = []
    for places in torch.split(which, size):
        distances = torch.cdist(rows[places], rows, compute_mode=mode)
        distances[torch.arange(len(places), device=rows.device), places] = torch.inf
        found.append(distances.topk(2, largest=False))
    return torch.cat([two.indices for two in found]), torch.cat([two.values[:, 1] for two in found])
