"""All sums modulo a number, as the tokens of a transformer."""

import operator
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from gnomon import _checks
from gnomon._kinds import checked
from gnomon.errors import RangeError


class Tokens(NamedTuple):
    """Sequences of tokens and their classes; sequence i is `tokens[i]` with class `labels[i]`.

    Attributes:
        tokens: indices into the vocabulary, from 0.
        labels: the class of each sequence, an integer from 0.
    """

    tokens: Int[Tensor, "n t"]
    labels: Int[Tensor, "n"]


@checked
def modular_addition(p: int = 113, fraction: float = 0.3, *, generator: torch.Generator) -> tuple[Tokens, Tokens]:
    r"""The p² sums $a + b \bmod p$, split at random into train and test.

    Each is the sequence (a, b, =); the token "=" has the number p, so that the vocabulary has p + 1 tokens.

    Source:
        Nanda et al., Progress measures for grokking via mechanistic interpretability, arXiv:2301.05217, section 3.

    Args:
        p: the modulus; a prime in the literature.
        fraction: the share of the p² pairs used for training, rounded down.
        generator: draws the permutation of which the first are taken; its state decides the split.

    Returns:
        Train and test on the CPU: tokens (n, 3) and labels 0 to p - 1, both int64.

    Raises:
        RangeError: `p` is not whole, below 2 or not below 2³¹, or one side of the split is left without a pair.

    Example:
        >>> train, test = modular_addition(5, 0.4, generator=torch.Generator().manual_seed(0))
        >>> train.tokens.shape, test.tokens.shape
        (torch.Size([10, 3]), torch.Size([15, 3]))
        >>> bool((train.tokens[:, :2].sum(1) % 5 == train.labels).all())
        True
    """
    if not _checks.whole(p, 2, 2**31 - 1):
        raise RangeError("p", "a whole number of at least 2 and below 2³¹", p, "Take a prime.")
    p = operator.index(p)  # from NumPy and torch too
    if not 0 <= fraction <= 1:
        raise RangeError("fraction", "a share from 0 to 1", fraction, "Pass one below 1.")
    train = rounded_down(fraction, p**2)
    if not 1 <= train < p**2:
        raise RangeError(
            "fraction",
            f"1 to {p**2 - 1} of the {p**2} pairs",
            f"{train} by {fraction}",
            "Leave at least one on each side.",
        )
    pairs = torch.randperm(p**2, generator=generator, device=generator.device).cpu()
    first, second = pairs // p, pairs % p
    sums = Tokens(torch.stack([first, second, torch.full_like(first, p)], dim=1), (first + second) % p)
    return Tokens(*(part[:train] for part in sums)), Tokens(*(part[train:] for part in sums))


def rounded_down(fraction: float, number: int) -> int:
    """This share of a number, without what is left of a whole; 0.29 of 100 is 29, though their product is below it."""
    nearest = round(fraction * number)
    return nearest if nearest / number <= fraction else nearest - 1
