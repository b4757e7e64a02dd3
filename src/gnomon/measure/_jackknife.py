"""The error of a value computed from batches, estimated by leaving out one at a time."""

import torch
from jaxtyping import Float
from torch import Tensor

CONFIDENCE = 0.95
"""The probability that an interval contains the value."""


def half_width(left_out: Float[Tensor, "b"]) -> Float[Tensor, ""]:
    """Half the width of the 95 % interval around a value, from its values without each batch in turn.

    By Student's distribution, since batches are few; infinity for fewer than three, where the rest has no spread.
    """
    from scipy.special import stdtrit  # SciPy's import takes time: only where it is used

    count = len(left_out)
    if count < 3:
        return torch.full_like(left_out.sum(), torch.inf)
    variance = (count - 1) ** 2 / count * left_out.var()
    return float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) * variance.sqrt()
