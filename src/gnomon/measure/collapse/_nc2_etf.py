"""Whether class means form a simplex equiangular tight frame (NC2)."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon._precision import half_as_single
from gnomon.measure._by_class import centred
from gnomon.measure._frames import at_least_two, distance_of_cosines


@half_as_single
def nc2_etf(centred_means: Float[Tensor, "k p"]) -> Float[Tensor, ""]:
    r"""How far the centred directions of the class means are from a simplex equiangular tight frame.

    Reading:
        Low, high: 0: the class means' directions form a simplex.
        Generalising: On training digits 0.98 with true labels (96 % accuracy on unseen digits), 4.22 from a large
            initialisation (84 %).
        Misleads: Shuffled labels end lower, 0.78. It grows with the number of classes: compare at the same number.

    $\|\bar M\bar M^\top - \Sigma_{\mathrm{ETF}}\|_F$, rows $\bar\mu_c = (\mu_c - \bar\mu)/\|\mu_c - \bar\mu\|$ with
    $\bar\mu = \frac1k\sum_c\mu_c$, and
    $\Sigma_{\mathrm{ETF}} = (1 + \frac1{k-1})I - \frac1{k-1}\mathbf 1\mathbf 1^\top$

    Lengths are divided out, but where the value is 0 they are equal, since centred means sum to 0 and the directions of
    a simplex do so only with equal weights: so the centred means' inner products are $\propto\Sigma_{\mathrm{ETF}}$
    exactly then.

    Source:
        Beaglehole et al., arXiv:2402.13728, figure 3 and definition 3.1, with the norm taken to be Frobenius'.
    Args:
        centred_means: the class means, with k at least 2, minus any one point: `moments.centred_means`. `moments.means`
            have the same value, but far from the origin, compared with their differences, not its digits.
    Returns:
        At least 0; 0 exactly where all angles between centred means are those of the simplex, as they always are for
        two classes. Invariant under scaling, shift and rotation. Centred means within the rounding of the means have no
        direction: their cosines are 0.
    Raises:
        ShapeError: if the means are not (k p) with k at least 2.
        EmptyError: if there are none.
        RangeError: at NaN or infinity.
    Cost: O(k p min(k, p)) time, O(k p) memory, and O(p²) or 1,024² numbers.
    Example:
        >>> import torch, gnomon
        >>> gnomon.nc2_etf(torch.eye(3)) < 1e-6
        tensor(True)
    """
    means = at_least_two(centred_means=centred_means)
    shares = torch.full_like(means[:, 0].detach(), 1 / len(means))
    return distance_of_cosines(centred(means, shares), -1 / (len(means) - 1))
