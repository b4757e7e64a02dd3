"""Random numbers: the same on every device and in every precision, or as a generator of the user's draws them."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor


def generator_of(*numbers: int) -> torch.Generator:
    """A generator for a user's seed and what else it is for, as whole numbers: other ones draw other numbers.

    None draws those that torch does from the seed itself: they may be the weights of a network made with that seed.
    """
    return torch.Generator().manual_seed(hash(tuple(map(_distinct, numbers))) % 2**63)


def _distinct(number: int) -> int | tuple[int]:
    """What has a hash of its own for each small number: of -1 and -2 it is the same."""
    return number if number >= 0 else (~number,)


def normal(*shape: int, generator: torch.Generator, like: Float[Tensor, "*_"]) -> Float[Tensor, "..."]:
    """Standard normal numbers in the dtype and on the device of `like`: drawn on the CPU, in single precision."""
    return torch.randn(shape, generator=generator, dtype=torch.float32, device="cpu").to(like)


def drawn(
    draw: Callable[..., Tensor],
    size: int | tuple[int, ...],
    *,
    generator: torch.Generator | None,
    device: torch.device,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """What `draw`, such as `torch.randn`, draws: on the generator's device, since it draws on no other, then moved."""
    own = device if generator is None else generator.device
    return draw(size, generator=generator, dtype=dtype, device=own).to(device)
