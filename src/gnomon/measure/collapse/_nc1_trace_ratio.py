"""How far samples stray from their class means, compared with how far apart these are, as a ratio of traces."""

from jaxtyping import Float
from torch import Tensor

from gnomon._precision import half_as_single
from gnomon.measure._by_class import warn_without_spread
from gnomon.measure._moments import ClassMoments


@half_as_single
def nc1_trace_ratio(class_moments: ClassMoments) -> Float[Tensor, ""]:
    r"""The variance within classes over the variance between them.

    Reading:
        Low, high: Low: features are at their class means. The widest directions weigh most.
        Generalising: On training digits 0.011 with true labels (96 % accuracy on unseen digits), 0.21 from a large
            initialisation (84 %).
        Misleads: Shuffled labels end at 0.19, like the large initialisation, from which they differ by a factor of 18
            in `nc1`. Few samples per class make it low, m of them by a factor of at most about 1 - 1/m: 0.12 and 0.28
            with 2 and 500 samples of the same ten normal classes in 16 dimensions. Compare at the same m.

    $\operatorname{tr}\Sigma_W / \operatorname{tr}\Sigma_B$

    Not to be compared with `nc1`, $\tfrac1k\operatorname{tr}(\Sigma_W\Sigma_B^\dagger)$, nor with the same without
    $\tfrac1k$: public code calls all three NC1. This one ignores directions: variability along the class means counts
    as much as variability across them.

    Source:
        Beaglehole, Súkeník, Mondelli, Belkin, Average gradient outer product as a mechanism for deep neural collapse,
        arXiv:2402.13728, section 5 and figure 3, with the covariances of section 3.2. Departs from it in the weights
        $n_c/n$ for unequal classes.
    Args:
        class_moments: the class moments of the features.
    Returns:
        At least 0; 0 where every sample is at its class mean, as it is, with a warning, where no class has two samples;
        infinite where the class means coincide, and not a number where all samples do. Invariant under scaling, shift
        and rotation of the features.
    Cost: O(k p), or O(n p) where the scatter is stored as rows.
    Example:
        >>> import torch, gnomon
        >>> h = torch.tensor([[0.0], [2.0], [10.0], [12.0]])
        >>> gnomon.nc1_trace_ratio(gnomon.class_moments(h, torch.tensor([0, 0, 1, 1]), 2))
        tensor(0.0400)
    """
    warn_without_spread("nc1_trace_ratio", class_moments.counts)
    between = class_moments.between_covariance.trace()
    return class_moments.within_covariance.trace().to(between.dtype) / between
