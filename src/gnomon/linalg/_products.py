"""Matrices that are known only by their products: one per sample, all multiplied at once."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon.linalg._normal import generator_of


@dataclass(frozen=True)
class Products:
    """Matrices A_i (c d) of some samples, and the source of the random vectors that they are multiplied by.

    Attributes:
        shape: n, c and d.
        like: a tensor of the dtype and on the device of the products.
        right: maps u (n d) to each A u (n c).
        left: maps v (n c) to each vᵀA (n d).
        first: the index of the first sample: each has its own random vectors, whatever the other samples are.
        seed: the seed of these.
    """

    shape: tuple[int, int, int]
    like: Tensor
    right: Callable[[Float[Tensor, "n d"]], Float[Tensor, "n c"]]
    left: Callable[[Float[Tensor, "n c"]], Float[Tensor, "n d"]]
    first: int = 0
    seed: int = 0

    def normal(self, draw: int, count: int) -> Float[Tensor, "n m c"]:
        """Standard normal vectors, `count` per sample: the same whenever this draw is requested."""
        n, c, _ = self.shape
        vectors = torch.empty(n, count, c, dtype=torch.float32, device="cpu")  # as `gnomon.linalg.normal` draws
        for i, rows in enumerate(vectors):
            rows.normal_(generator=generator_of(self.seed, self.first + i, draw))
        return vectors.to(self.like)
