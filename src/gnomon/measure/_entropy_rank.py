"""The effective rank, defined by entropy."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon.linalg import scaled


def entropy_rank(values: Float[Tensor, "q"]) -> Float[Tensor, ""]:
    """The exponential of the entropy of the singular values' shares; 0 with gradient 0 if all are 0."""
    values = scaled(values)
    total = values.sum()
    shares = values / torch.where(total > 0, total, 1)
    entropy = -(shares * torch.where(shares > 0, shares, 1).log()).sum()
    return torch.where(total > 0, entropy.exp(), 0)
