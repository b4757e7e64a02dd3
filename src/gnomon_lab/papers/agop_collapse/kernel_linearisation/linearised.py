"""A kernel matrix as a common part, a linear one and a ridge: the display of section 4.2, fitted."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon.linalg import identity


@dataclass(frozen=True)
class Linearised:
    r"""$K \approx b\,(\gamma\mathbf 1\mathbf 1^\top + G + \lambda I)$ for a kernel matrix K and a Gram matrix G.

    Source:
        Beaglehole, Súkeník, Mondelli, Belkin, arXiv:2402.13728, section 4.2, where b is 1.
    Attributes:
        slope: b; unit: of the kernel, over that of G.
        level: $\gamma$; unit: of G, as is all that follows but the shares.
        ridge: $\lambda$.
        rest: the spectral norm of what is left of K, over that of bG, both centred; at least 0.
        rest_over_ridge: the same over $b\lambda$.
    """

    slope: float
    level: float
    ridge: float
    rest: float
    rest_over_ridge: float


def linearised(kernel: Float[Tensor, "n n"], gram: Float[Tensor, "n n"]) -> Linearised:
    r"""Slope and level by least squares over the pairs of different points; the ridge is what the diagonal has beyond.

    For points of unit length in random directions and many dimensions these are the coefficients of the kernel's
    expansion in the inner product about 0: $\varphi'(0)$, $\varphi(0)/\varphi'(0)$ and
    $(\varphi(1) - \varphi(0))/\varphi'(0) - 1$ for $\varphi(x^\top z)$.
    """
    pairs = ~identity(gram).bool()
    values, products = kernel[pairs], gram[pairs]
    apart = products - products.mean()
    slope = (apart @ values) / (apart @ apart)
    level = values.mean() / slope - products.mean()
    ridge = (kernel.diagonal() / slope - gram.diagonal()).mean() - level
    rest = spectral_norm(centred(kernel / slope - gram - ridge * identity(gram)))
    return Linearised(
        float(slope), float(level), float(ridge), float(rest / spectral_norm(centred(gram))), float(rest / ridge.abs())
    )


def centred(matrix: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    r"""$HAH$ with $H = I - \frac1n\mathbf 1\mathbf 1^\top$: without what is common to all pairs."""
    columns = matrix - matrix.mean(0)
    return columns - columns.mean(1, keepdim=True)


def spectral_norm(matrix: Float[Tensor, "n n"]) -> Float[Tensor, ""]:
    """The largest absolute eigenvalue of a symmetric matrix."""
    return torch.linalg.eigvalsh(matrix).abs().max()
