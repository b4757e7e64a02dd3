"""The entries that each output of a max-pooling reads."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

PerAxis = int | tuple[int, ...]
"""One number for all axes, or one each."""


@dataclass(frozen=True)
class Window:
    """The settings of a max-pooling, as in torch, and the number of axes, at the end, along which it pools."""

    axes: int
    size: PerAxis
    stride: PerAxis
    padding: PerAxis = 0
    dilation: PerAxis = 1
    ceil: bool = False


def windows(window: Window, shape: torch.Size, device: torch.device) -> tuple[Int[Tensor, "u k"], tuple[int, ...]]:
    """For each output, the entries of a sample of this shape that it reads, -1 beyond the rim; the outputs' shape."""
    before, sides = shape[: -window.axes], shape[-window.axes :]
    # The places ahead of the window's axes, then along each of these the places of the entries before.
    found = torch.arange(before.numel(), device=device)[:, None]
    for axis, side in enumerate(sides):
        places = _along_axis(window, axis, side).to(device)
        inside = (found[:, None, :, None] >= 0) & (places[None, :, None] >= 0)
        found = torch.where(inside, found[:, None, :, None] * side + places[None, :, None], -1)
        found = found.flatten(2).flatten(0, 1)
    return found, (*before, *(len(_along_axis(window, axis, side)) for axis, side in enumerate(sides)))


def _along_axis(window: Window, axis: int, side: int) -> Int[Tensor, "o k"]:
    """For each output along an axis, the places that it reads, -1 beyond the rim."""
    size, stride, padding, dilation = (
        value if isinstance(value, int) else value[axis if len(value) > 1 else 0]
        for value in (window.size, window.stride, window.padding, window.dilation)
    )
    room = side + 2 * padding - dilation * (size - 1) - 1
    outputs = (-(-room // stride) if window.ceil else room // stride) + 1
    # The last window must begin inside the input or its padding on the left.
    if window.ceil and (outputs - 1) * stride >= side + padding:
        outputs -= 1
    places = torch.arange(outputs)[:, None] * stride - padding + torch.arange(size) * dilation
    return torch.where((places >= 0) & (places < side), places, -1)
