"""Numbers that are drawn the same way each time."""

import torch


def normal(*shape, seed=0):
    """Standard normal, in float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def orthogonal(q, seed=0):
    """A rotation or reflection of q dimensions."""
    return torch.linalg.qr(normal(q, q, seed=seed))[0]
