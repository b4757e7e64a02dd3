"""Multilayer perceptrons."""

import itertools
import math

import torch
from torch import nn

from gnomon import _checks
from gnomon._precision import full_precision


@full_precision
def mlp(
    widths: tuple[int, ...], *, bias: bool = False, scale: float | int = 1.0, generator: torch.Generator | None = None
) -> nn.Sequential:
    """A ReLU network of linear layers, PyTorch's default initialisation times `scale`.

    Large scales make a network memorise first and generalise late, if at all (Liu et al., Omnigrok, 2023).

    Args:
        widths: the widths of the input, the hidden layers and the output, at least two.
        bias: whether layers have biases; the papers' networks have none, which makes them positively homogeneous.
        scale: multiplies every initial weight and bias.
        generator: where the weights come from; default: torch's global one.

    Raises:
        RangeError: if there are fewer than two widths, or one is not whole and positive; or if `scale` is negative, or
            beyond what the default dtype holds.
    """
    most = torch.finfo(torch.get_default_dtype()).max / 2
    _checks.settings(
        ("widths", widths, "at least two", len(widths) >= 2),
        *(_checks.whole_number("width", width, 1) for width in widths),
        ("scale", scale, f"from 0 to {most:.3g}", 0 <= scale <= most),
    )
    layers: list[nn.Module] = []
    for width, following in itertools.pairwise(widths):
        layer = nn.Linear(width, following, bias=bias, device="meta").to_empty(device="cpu")
        with torch.no_grad():
            # What nn.Linear does by default, from our own generator.
            for parameter in layer.parameters():
                bound = scale / math.sqrt(width)
                parameter.uniform_(-bound, bound, generator=generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])
