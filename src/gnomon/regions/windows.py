"""The entries that each output of a max-pooling looks at."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional

Sides = int | tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """The settings of a max-pooling, as torch's."""

    size: Sides
    stride: Sides
    padding: Sides
    dilation: Sides


def windows(window: Window, shape: torch.Size) -> tuple[Int[Tensor, "u k"], tuple[int, ...]]:
    """For each output the entries of a sample of this shape that it looks at, -1 beyond the rim; the outputs' shape."""
    channels, *sides = shape
    settings = (window.size, window.dilation, window.padding, window.stride)
    # In one dimension as an image of height 1.
    flat = len(sides) == 1
    height, width = (1, *sides) if flat else sides
    size, dilation, padding, stride = (
        (neutral, along(value, 0)) if flat else (along(value, 0), along(value, 1))
        for value, neutral in zip(settings, (1, 1, 0, 1), strict=True)
    )
    # Counted from 1, since unfold fills the rim with zeros.
    places = torch.arange(1, height * width + 1, dtype=torch.float64).view(1, 1, height, width)
    inside = functional.unfold(places, size, dilation, padding, stride)[0].T.long() - 1
    starts = (torch.arange(channels) * height * width)[:, None, None]
    outputs = [
        (side + 2 * padding[i] - dilation[i] * (size[i] - 1) - 1) // stride[i] + 1
        for i, side in enumerate((height, width))
    ]
    found = torch.where(inside < 0, -1, inside + starts).flatten(0, 1)
    return found, (channels, outputs[1]) if flat else (channels, *outputs)


def along(value: Sides, axis: int) -> int:
    """A setting that may be one number for all axes."""
    return value if isinstance(value, int) else value[axis if len(value) > 1 else 0]
