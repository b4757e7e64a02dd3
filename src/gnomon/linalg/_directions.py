"""Directions and the angles between them."""

import torch
from jaxtyping import Float
from torch import Tensor


def scaled(x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """The tensor over its largest entry in absolute value, so that squares neither overflow nor underflow; 0 stays."""
    largest = x.detach().abs().amax()
    return x / torch.where(largest > 0, largest, 1)


def root(square: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """The square root; 0 for 0 and below, with gradient 0."""
    positive = square > 0
    return torch.where(positive, torch.where(positive, square, 1).sqrt(), 0)


def unit(v: Float[Tensor, "*n d"]) -> Float[Tensor, "*n d"]:
    """Each vector of the last axis divided by its length; a zero vector stays zero, with gradient zero.

    The largest entry is divided out first, so that lengths below the square root of the smallest float do not
    underflow to zero.
    """
    largest = v.detach().abs().amax(-1, keepdim=True)
    v = v / torch.where(largest > 0, largest, 1)
    length = torch.linalg.vector_norm(v, dim=-1, keepdim=True)
    # Over infinity, both the zero vector and its gradient are zero.
    return v / torch.where(largest > 0, length, torch.inf)


def length(v: Float[Tensor, "*n d"]) -> Float[Tensor, "*n"]:
    """The Euclidean length of each vector of the last axis; the gradient at a zero vector is zero.

    Where squares overflow, or are so small that they lose digits, the largest entry is divided out first.
    """
    lengths = torch.linalg.vector_norm(v, dim=-1)
    limits = torch.finfo(v.dtype)
    plain = lengths.detach()
    if (plain.isfinite() & (plain > (limits.tiny / limits.eps) ** 0.5)).all():
        return lengths
    largest = v.detach().abs().amax(-1, keepdim=True)
    largest = torch.where(largest > 0, largest, 1)
    return torch.linalg.vector_norm(v / largest, dim=-1) * largest.squeeze(-1)


def cosine(a: Float[Tensor, "*#n d"], b: Float[Tensor, "*#n d"]) -> Float[Tensor, "*n"]:
    """The cosine of the angle between the vectors of the last axis, in [-1, 1] up to rounding; 0 for a zero vector."""
    return (unit(a) * unit(b)).sum(-1)


def cka(kernel: Float[Tensor, "n n"], other: Float[Tensor, "n n"]) -> Float[Tensor, ""]:
    """The centred kernel alignment of two Gram matrices over the same samples, in [0, 1] up to rounding.

    The cosine of the two, each centred over its rows and columns (Kornblith, Norouzi, Lee, Hinton, arXiv:1905.00414);
    0 where all entries of one are equal. Not centred, any two kernels are alike where each is mostly its mean.
    """
    return cosine(_centred(kernel).flatten(), _centred(other).flatten())


def _centred(kernel: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    """Minus the means of rows and columns; scaled beforehand, so that equal entries become exactly zero."""
    kernel = scaled(kernel)
    kernel = kernel - kernel.mean(0)
    return kernel - kernel.mean(1, keepdim=True)
