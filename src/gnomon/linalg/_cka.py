"""How alike two kernels are over the same samples."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.errors import ShapeError
from gnomon.linalg._directions import cosine, scaled


@half_as_single
def cka(kernel: Float[Tensor, "n n"], other: Float[Tensor, "n n"]) -> Float[Tensor, ""]:
    r"""The centred alignment of two kernels over the same samples: 1 where they differ by scale and by means alone.

    Reading:
        Low, high: 1: the same pattern of samples that are alike. 0: patterns that have nothing in common.
        Generalising: For the neural tangent kernel and that at the start, on digits: it falls to 0.65 as a network
            groks, and to 0.96 in one that memorised.
        Misleads: Where features are wide and samples few, unrelated kernels are alike: 0.89 for 100 samples of
            independent noise in 784 dimensions, 0.14 for 5,000. Compare with that of an unrelated network.

    $\frac{\langle HKH,\ HLH\rangle_F}{\lVert HKH\rVert_F\,\lVert HLH\rVert_F}$, with $H = 1 - \frac1n 1 1^\top$

    Of two feature matrices, without their kernels: `start_cka`; of features and labels: `label_cka`.

    Source:
        Kornblith, Norouzi, Lee, Hinton, Similarity of Neural Network Representations Revisited, arXiv:1905.00414.
        The centred alignment itself: Cortes, Mohri, Rostamizadeh 2012.
    Args:
        kernel: inner products of the samples, such as `ntk` gives.
        other: the second kernel, over the same samples in the same order.
    Returns:
        In [0, 1] up to rounding for positive semidefinite kernels, in [-1, 1] for others; 0 where all entries of one
        are equal. Unchanged by scaling, by adding a number to a row or a column, and by reordering the samples of both.
    Raises:
        ShapeError: if the kernels are not square, not over equally many samples, or have no entries.
        RangeError: at NaN or infinity.
    Cost: O(n²).
    Example:
        >>> import torch, gnomon
        >>> first = torch.tensor([[0.0], [1.0], [2.0]])
        >>> gnomon.cka(first @ first.mT, (3 - 2 * first) @ (3 - 2 * first).mT)
        tensor(1.)
    """
    _checks.square("Pass n x n inner products.", kernel=kernel, other=other)
    if len(other) != len(kernel):
        raise ShapeError(
            "other", f"a kernel over {len(kernel)} samples", f"{len(other)}", "Read both at the same samples."
        )
    _checks.finite(kernel=kernel, other=other)
    return cosine(_centred(kernel).flatten(), _centred(other).flatten())


def _centred(kernel: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    """Minus the means of rows and columns; zero where only rounding is left of the largest entry."""
    kernel = scaled(kernel)
    kernel = kernel - kernel.mean(0)
    kernel = kernel - kernel.mean(1, keepdim=True)
    varies = torch.linalg.vector_norm(kernel.detach()) > torch.finfo(kernel.dtype).eps * len(kernel)
    return torch.where(varies, kernel, 0)
