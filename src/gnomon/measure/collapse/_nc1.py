"""How far samples stray from their class means, compared with how far apart these are (NC1)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon._precision import half_as_single
from gnomon.linalg import largest, scaled
from gnomon.measure._by_class import roundings, warn_without_spread, without
from gnomon.measure._moments import ClassMoments


@half_as_single
def nc1(class_moments: ClassMoments) -> Float[Tensor, ""]:
    r"""The variability within classes in the metric of the variability between them, per class.

    Reading:
        Low, high: Low: features are at their class means. High: classes spread as far as they are apart.
        Generalising: On training digits it falls to 0.0017 with true labels (96 % accuracy on unseen digits), and only
            to 0.18 from a large initialisation (84 %).
        Misleads: Memorised classes collapse too: 0.0099 with shuffled labels. On unseen images it stays 6 to 1200 times
            larger (mse-vs-ce, mse-collapse): say which samples it is measured on. Few samples per class make it low, m
            of them by a factor of at most about 1 - 1/m: 0.19, 0.41 and 0.53 with 2, 5 and 500 samples of the same ten
            normal classes in 16 dimensions, and 0 with one sample whatever the features. Compare at the same m. Three
            different numbers have this name.

    $\tfrac1k\operatorname{tr}(\Sigma_W\Sigma_B^\dagger)$, with the Moore-Penrose pseudo-inverse

    Public code calls three numbers NC1, which must not be compared: this one; the same without $\tfrac1k$, as in the
    authors' notebook for the source, which is k times this; and `nc1_trace_ratio`.

    With $A = \sqrt{w}\,(\mu - \mu_G)$ (k p), $\Sigma_B = A^\top A$, and the trace is that of
    $A^{\dagger\top}\Sigma_W A^\dagger$: no p x p matrix is inverted. That $\sqrt{w}^\top A = 0$ is used as known, not
    computed: A is reflected so that this direction is left out, since its rounding error would otherwise be inverted.

    Source:
        Papyan, Han, Donoho, arXiv:2008.08186, figure 6, which is figure 7 of Han, Papyan, Donoho, arXiv:2106.02073.
        Departs from them in the weights $w_c = n_c/n$ for unequal classes; k is the number of those that have samples.
    Args:
        class_moments: the class moments of the features.
    Returns:
        At least 0; 0 where every sample is at its class mean, as it is, with a warning, where no class has two samples,
        and, by the pseudo-inverse, where all class means coincide. Invariant under scaling, shift and rotation of the
        features, and, if the means span all dimensions, under every invertible linear map. Infinite or not a number
        where the means are so close that it is beyond the dtype's range.
    Cost: O(k p min(k, p)), and O(k p²) for Σ_W stored in full, O(k n p) as rows; O(k p) memory. Precision: that of the
        pseudo-inverse of A, which loses as many digits as the means' differences have by their sizes, and not twice as
        many unless the scatter is as small along the same directions. Directions in which the means differ by no more
        than rounding explains count as none: that of the features, half an epsilon of their dtype, or that of the
        means where the moments do not hold what it took off. Where the scatter is stored in full, rounding moves it by
        up to an epsilon of float64, of $\operatorname{tr}\Sigma_W\|A^\dagger\|^2$.
    Example:
        >>> import torch, gnomon
        >>> h = torch.tensor([[0.0], [2.0], [10.0], [12.0]])
        >>> gnomon.nc1(gnomon.class_moments(h, torch.tensor([0, 0, 1, 1]), 2))
        tensor(0.0200)
    """
    warn_without_spread("nc1", class_moments.counts)
    if len(class_moments.counts) > class_moments.means.shape[1]:
        class_moments = class_moments.present()  # if there are many, those without samples would cost as much
    root = class_moments.weights.sqrt()
    spread = without(root.unsqueeze(1) * class_moments.centred_means, root)
    # Differences due to rounding are no separation.
    eps = torch.finfo(spread.dtype).eps
    weighted = (root.unsqueeze(1) * class_moments.means).detach()
    # The dtype has to hold the squares of the means' differences, but not those of the means.
    rounding = eps * largest(weighted) * torch.linalg.matrix_norm(scaled(weighted))
    if class_moments.rounded_off is not None:
        # Then it is that of the features, half an epsilon of each, in part alike for all samples of a class: for k x p
        # independent errors of the means, the largest singular value.
        rounding = rounding * (1 / math.sqrt(len(spread) + 1) + 1 / math.sqrt(spread.shape[1])) / 2
    # Both as tensors: given one number and one tensor, torch would wait for the tensor's value.
    inverse = torch.linalg.pinv(
        spread, atol=rounding, rtol=torch.full_like(rounding, eps * roundings(max(spread.shape)))
    )
    within = class_moments.within_covariance
    strayed = within.variances(inverse.mT.to(within.held.dtype)).sum() / class_moments.classes_present
    return strayed.to(spread.dtype)
