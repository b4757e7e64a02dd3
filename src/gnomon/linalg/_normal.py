"""Random numbers that are the same on every device and in every precision."""

import torch
from jaxtyping import Float
from torch import Tensor


def normal(*shape: int, generator: torch.Generator, like: Float[Tensor, "*_"]) -> Float[Tensor, "..."]:
    """Standard normal numbers in the dtype and on the device of `like`: drawn on the CPU, in single precision."""
    return torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu").to(like)
