"""The label's output compared with the others."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon import _checks


def lead(logits: Float[Tensor, "n c"], labels: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
    """The label's output minus the largest other one; infinity where there is no other."""
    _checks.outputs(logits, labels)
    own = labels.long().unsqueeze(1)
    others = logits.scatter(1, own, -torch.inf)
    return logits.gather(1, own).squeeze(1) - others.amax(1)
