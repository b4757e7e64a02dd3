"""Spectra of batches of matrices."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def top_share(matrix: Float[Tensor, "*n r s"]) -> Float[Tensor, "*n"]:
    r"""The share $\sigma_1^2/\sum_i\sigma_i^2$ of the largest singular value, in [1/min(r, s), 1]; 0 for a zero matrix.

    From the eigenvalues of the smaller Gram matrix: its largest eigenvalue is as exact as the singular value, and its
    gradient has no division by gaps between singular values.
    """
    scale = torch.linalg.vector_norm(matrix.detach(), math.inf, (-2, -1), keepdim=True)
    matrix = matrix / torch.where(scale > 0, scale, 1)
    wide = matrix.shape[-2] <= matrix.shape[-1]
    gram = matrix @ matrix.mT if wide else matrix.mT @ matrix
    total = gram.diagonal(dim1=-2, dim2=-1).sum(-1)
    return torch.linalg.eigvalsh(gram)[..., -1] / torch.where(total > 0, total, 1)
