"""How far a matrix is from one whose rows are shifts of each other."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.linalg._directions import scaled


@half_as_single
def circulant_deviation(matrix: Float[Tensor, "p p"]) -> Float[Tensor, ""]:
    r"""The share of a matrix's variance that lies along its wrapped diagonals: 0 for a circulant matrix.

    Reading:
        Low, high: 0: every entry depends on the difference of its indices alone. Near 1: as for independent entries.
        Generalising: For the AGOP's block between the two summands, in a kernel machine that learns a + b mod 61
            (rfm-addition), it falls to a ninth before one unseen pair in twenty is right.
        Misleads: It is low too, 0.15 to 0.18, where a machine gets only 42 to 55 % of the unseen sums right
            (rfm-addition).

    $\frac{\sum_{i,j}(A_{ij} - m_{(i-j)\bmod p})^2}{\sum_{i,j}(A_{ij} - m)^2}$, with the mean $m_k$ of each wrapped
    diagonal and the mean of all entries, m

    Source:
        Mallinar, Beaglehole, Zhu, Radhakrishnan, Pandit, Belkin, arXiv:2407.20199. Departs from it in the unit: the
        variance along the diagonals over that of all entries.
    Args:
        matrix: square.
    Returns:
        In [0, 1] up to rounding; 0 for a constant matrix. Unchanged by scaling, by adding a number and by transposing.
    Raises:
        ShapeError: if the matrix is not square, or has no entries.
        RangeError: at NaN or infinity.
    Cost: O(p²).
    Example:
        >>> import torch, gnomon
        >>> gnomon.circulant_deviation(torch.tensor([[1.0, 2.0], [2.0, 1.0]]))
        tensor(0.)
    """
    _checks.square("Pass one block of it.", matrix=matrix)
    _checks.finite(matrix=matrix)
    matrix = scaled(matrix)
    places = torch.arange(len(matrix), device=matrix.device)
    diagonals = matrix.gather(1, (places + places.unsqueeze(1)) % len(matrix))
    along = (diagonals - diagonals.mean(0)).square().sum()
    total = (matrix - matrix.mean()).square().sum()
    # Rounding of the mean does not make a matrix vary.
    varies = total > (torch.finfo(matrix.dtype).eps * len(matrix)) ** 2
    return torch.where(varies, along / torch.where(varies, total, 1), 0)
