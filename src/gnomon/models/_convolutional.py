"""Convolutional networks."""

import itertools

import torch
from torch import nn

from gnomon import _checks
from gnomon._kinds import checked


@checked
def cnn(widths: tuple[int, ...] = (3, 32, 64, 128, 10), *, generator: torch.Generator | None = None) -> nn.Sequential:
    r"""A ReLU network of 3 × 3 convolutions and two linear layers, without biases; Kaiming's initialisation.

    Each block has two convolutions: one to its width, and one of that width with stride 2, which halves the image. Then
    come two averages over 2 × 2 pixels and two linear layers. Without biases the network is positively homogeneous.
    Weights are normal with variance $2 / m$, where m is the layer's outputs times the pixels of its kernel (fan-out),
    also in the last layer, which no ReLU follows.

    Source:
        Walker et al., arXiv:2506.12284, figure 5: six convolutions and two linear layers.
    Args:
        widths: the widths of the input's channels, the blocks, and the output; default: the paper's.
        generator: where the weights come from; default: torch's global one.
    Returns:
        The network, from (n, channels, h, w) to (n, classes). For b blocks, h and w range from 3·2ᵇ + 1 to 7·2ᵇ, where
        the averages leave one pixel: 25 to 56 for three, such as CIFAR's 32.
    Raises:
        RangeError: if there are fewer than three widths, or one is not whole and positive.
    """
    _checks.settings(
        ("widths", widths, "at least three", len(widths) >= 3),
        *(_checks.whole_number("width", width, 1) for width in widths),
    )
    *blocks, classes = widths
    layers: list[nn.Module] = []
    for width, following in itertools.pairwise(blocks):
        layers += [_convolution(width, following, 1), nn.ReLU(), _convolution(following, following, 2), nn.ReLU()]
    last = blocks[-1]
    layers += [nn.AvgPool2d(2), nn.AvgPool2d(2), nn.Flatten()]
    layers += [_linear(last, last), nn.ReLU(), _linear(last, classes)]
    model = nn.Sequential(*layers).to_empty(device="cpu")
    for weight in model.parameters():
        nn.init.kaiming_normal_(weight, mode="fan_out", nonlinearity="relu", generator=generator)
    return model


def _convolution(width: int, following: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(width, following, 3, stride, padding=1, bias=False, device="meta")


def _linear(width: int, following: int) -> nn.Linear:
    return nn.Linear(width, following, bias=False, device="meta")
