"""How near a network's Jacobians are to those that theorem 2 calls optimal."""

from collections.abc import Callable
from typing import Literal

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cosine_similarity

from gnomon import aligned_jacobian

OPTIMUM = "train/optimal_alignment"
"""As it is recorded; records from before 2026-11-29 lack it."""
NEAR_ONE = 0.9
"""What counts as "tends to one", for which the paper prints no number: a tenth is left to all other directions."""


def to_optimum(loss: str) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The quantity for a loss: its name is that of the inner function."""
    named: Literal["mse", "cross_entropy"] = "mse" if loss == "mse" else "cross_entropy"

    def optimal_alignment(jacobian: Tensor, x: Tensor, labels: Tensor) -> Float[Tensor, "n"]:
        """The cosine of each Jacobian with theorem 2's minimiser, which is the same at every norm; in [-1, 1]."""
        best = aligned_jacobian(x, labels, jacobian.shape[1], 1.0, loss=named)
        return cosine_similarity(jacobian.flatten(1), best.flatten(1), dim=1)

    return optimal_alignment
