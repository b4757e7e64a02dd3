"""The error of a value computed from batches, estimated by leaving out one at a time."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon.linalg import student


def half_width(left_out: Float[Tensor, "b"]) -> Float[Tensor, ""]:
    """Half the width of the 95 % interval around a value, from its values without each batch in turn.

    By Student's distribution, since batches are few; infinity for fewer than three, where the rest has no spread.
    """
    count = len(left_out)
    if count < 3:
        return torch.full_like(left_out.sum(), torch.inf)
    variance = (count - 1) ** 2 / count * left_out.var()
    return student(count - 1) * variance.sqrt()
