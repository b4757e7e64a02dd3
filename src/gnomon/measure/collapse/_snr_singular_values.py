"""The sizes of the class separation, direction by direction."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon._precision import half_as_single
from gnomon.measure._moments import ClassMoments
from gnomon.measure.collapse._snr import snr


@half_as_single
def snr_singular_values(class_moments: ClassMoments) -> Float[Tensor, "j"]:
    r"""The singular values of the signal-to-noise ratio that can be other than zero, the largest first.

    Reading:
        Low, high: High: classes are far apart compared with their spread. Equal, for equal classes: these form a
            simplex.
        Generalising: On training digits the first is 2,158 with true labels (96 % accuracy on unseen digits), 52 from a
            large initialisation (84 %).
        Misleads: Shuffled labels end at 2,477.

    $\omega_j = \sigma_j(\Sigma_W^{-1/2}\bar M)$, $j < k$

    For classes of equal size and p at least k - 1 they are equal exactly where the ratio is a simplex ETF.

    Source:
        Han, Papyan, Donoho, arXiv:2106.02073, definition 2 and lemma 7.
    Args:
        class_moments: the class moments of the features.
    Returns:
        min(k - 1, p) values, at least 0; if m of the classes have samples, those from the m-th on are 0 up to rounding.
        Unit: class means per within-class standard deviation. Invariant under every invertible affine map of the
        features. Differentiable once, as `snr` is.
    Raises:
        RangeError: as `snr`.
    Cost: O(p³).
    Example:
        >>> import torch, gnomon
        >>> h = torch.tensor([[-2.0], [0.0], [4.0], [6.0]])
        >>> gnomon.snr_singular_values(gnomon.class_moments(h, torch.tensor([0, 0, 1, 1]), 2))
        tensor([4.2426])
    """
    return torch.linalg.svdvals(snr(class_moments))[: len(class_moments.means) - 1]
