"""Directions and the angles between them."""

import torch
from jaxtyping import Float
from torch import Tensor

_BLOCK = 4096
"""Entries whose squares are added up one after another."""


def largest(x: Float[Tensor, "*n"], dim: int | tuple[int, ...] = (), *, keepdim: bool = False) -> Float[Tensor, "*m"]:
    """The largest entry by absolute value, along these axes or of all; 1 where all are 0. Without a graph."""
    found = x.detach().abs().amax(dim, keepdim=keepdim)
    return torch.where(found > 0, found, 1)


def scaled(x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """The tensor over its largest entry, so that squares neither overflow nor underflow; 0 stays."""
    return x / largest(x)


def power_of_two(x: Float[Tensor, "*n"]) -> Float[Tensor, ""]:
    """That of the largest entry, at or below it: dividing by it rounds nothing. Without a graph."""
    return torch.exp2((torch.frexp(largest(x)).exponent - 1).to(x.dtype))


def root(square: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    """The square root; 0 for 0 and below, with gradient 0; NaN for NaN."""
    positive = ~(square <= 0)
    return torch.where(positive, torch.where(positive, square, 1).sqrt(), 0)


def norm(v: Float[Tensor, "*n d"]) -> Float[Tensor, "*n"]:
    """The root of the sum of squares of the last axis, right to rounding however long the axis is.

    On a CPU `torch.linalg.vector_norm` adds up float32 squares one after another, and is 2e-4 off for ten million of
    them, 6e-3 for a hundred million. The norm of the norms of blocks is right to 1e-7.
    """
    blocks = v.shape[-1] // _BLOCK
    if blocks < 2:
        return torch.linalg.vector_norm(v, dim=-1)
    whole, rest = v[..., : blocks * _BLOCK], v[..., blocks * _BLOCK :]
    rows = whole.reshape(*v.shape[:-1], blocks, _BLOCK), rest.unsqueeze(-2)
    parts = [torch.linalg.vector_norm(row, dim=-1) for row in rows]
    return norm(torch.cat(parts, -1))


def unit(v: Float[Tensor, "*n d"]) -> Float[Tensor, "*n d"]:
    """Each vector of the last axis divided by its length; a zero vector stays zero, with gradient zero.

    The largest entry is divided out first, so that lengths below the square root of the smallest float do not
    underflow to zero.
    """
    size = v.detach().abs().amax(-1, keepdim=True)
    v = v / torch.where(size > 0, size, 1)
    length = norm(v).unsqueeze(-1)
    # Over infinity, both the zero vector and its gradient are zero.
    return v / torch.where(size > 0, length, torch.inf)


def length(v: Float[Tensor, "*n d"]) -> Float[Tensor, "*n"]:
    """The Euclidean length of each vector of the last axis; the gradient at a zero vector is zero.

    Where squares overflow, or are so small that they lose digits, the largest entry is divided out first.
    """
    lengths = norm(v)
    limits = torch.finfo(v.dtype)
    plain = lengths.detach()
    if (plain.isfinite() & (plain > (limits.tiny / limits.eps) ** 0.5)).all():
        return lengths
    size = largest(v, -1, keepdim=True)
    return norm(v / size) * size.squeeze(-1)


def cosine(a: Float[Tensor, "*#n d"], b: Float[Tensor, "*#n d"]) -> Float[Tensor, "*n"]:
    """The cosine of the angle between the vectors of the last axis, in [-1, 1] up to rounding; 0 for a zero vector."""
    return (unit(a) * unit(b)).sum(-1)
