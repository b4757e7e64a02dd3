"""The cross-entropy of each sample, with all its digits."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def cross_entropies(logits: Float[Tensor, "n c"], labels: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
    r"""Minus the logarithm of each label's probability, and its derivatives, right to rounding however small they are.

    $m + \log\!\big(1 + \sum_{j\ne y}e^{z_j - z_y - m} + (e^{-m} - 1)\big)$, $m = \max_j z_j - z_y$

    Where the label leads, m is 0, and nothing is added to 1 before its logarithm is taken: torch's `cross_entropy` is 0
    from a lead of 37 on in float64, as is its derivative with respect to the label's logit.
    """
    index = labels.unsqueeze(1)
    own = logits.gather(1, index)
    # A constant, as the value does not depend on it.
    behind = logits.detach().amax(1, keepdim=True) - own.detach()
    # One copy, then in place: it is the largest tensor. torch.func's vmap has no rule for `scatter_`.
    others = logits.scatter(1, index, -torch.inf).sub_(own + behind).exp_().sum(1)
    behind = behind.squeeze(1)
    return behind + torch.log1p(others + torch.expm1(-behind))
