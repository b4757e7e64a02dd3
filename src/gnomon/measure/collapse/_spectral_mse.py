"""The MSE on the central path as a function of the signal-to-noise ratio alone."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.errors import ShapeError
from gnomon.measure.collapse._mse_decomposition import MSEDecomposition


@half_as_single
def spectral_mse(snr_singular_values: Float[Tensor, "*n j"], classes: int) -> MSEDecomposition:
    r"""The least MSE and its parts, from the singular values of the signal-to-noise ratio of equal classes.

    Reading:
        Low, high: Low: the best classifier of these features has almost no error left.
        Generalising: On training digits it falls to 1.9e-6 with true labels (96 % accuracy on unseen digits), and to
            2.7e-2 from a large initialisation (84 %).
        Misleads: Shuffled labels end just as low, 1.8e-6. It holds for classes of equal size.

    $\mathcal L_{NC1} = \frac12\sum_{j<k}\frac{\omega_j^2}{(\omega_j^2 + k)^2}$,
    $\quad\mathcal L_{NC2/3} = \frac12\sum_{j<k}\frac{k}{(\omega_j^2 + k)^2}$,
    $\quad\mathcal L_{LS} = \frac12\sum_{j<k}\frac1{\omega_j^2 + k}$

    Equal to `mse_decomposition` at the least-squares classifier with bias, without weight decay, for classes of equal
    size, none of them without samples. For other classes the loss depends on the right singular vectors too.

    Source:
        Han, Papyan, Donoho, arXiv:2106.02073, lemma 1, which holds for a classifier with bias (docs/errata.md).
    Args:
        snr_singular_values: the result of `snr_singular_values`, or that of the central path at several times; values
            missing up to k - 1 count as 0. Unit: class means per within-class standard deviation.
        classes: the number k of classes.
    Returns:
        All parts, at least 0; unit: squared outputs; for each index of the axes before the last. `deviation` is 0.
        The sum is in (0, (k-1)/(2k)].
    Raises:
        ShapeError: if the values have no axis.
        RangeError: at NaN or infinity, with fewer than two classes, or with as many values as classes.
    Cost: O(n j).
    Example:
        >>> import torch, gnomon
        >>> gnomon.spectral_mse(torch.tensor([0.0, 1.0]), 3).total
        tensor(0.2917)
    """
    _checks.finite(snr_singular_values=snr_singular_values)
    if not snr_singular_values.ndim:
        shape = f"shape {_checks.shape_of(snr_singular_values)}"
        raise ShapeError("snr_singular_values", "at least one axis, of the values", shape, "Pass values[None] for one.")
    count = snr_singular_values.shape[-1]
    _checks.settings(_checks.whole_number("classes", classes, 2))
    _checks.settings(("number of snr_singular_values", count, f"at most {classes - 1}", count < classes))
    squares = snr_singular_values.square()
    # The ratio is squared, not its parts, which would overflow.
    nc1 = (snr_singular_values / (squares + classes)).square().sum(-1) / 2
    nc23 = (classes / (squares + classes) ** 2).sum(-1) / 2 + (classes - 1 - count) / (2 * classes)
    return MSEDecomposition(nc1, nc23, nc1 + nc23, torch.zeros_like(nc1), nc1 + nc23)
