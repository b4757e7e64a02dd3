"""Plain convolutional networks for small images."""

import torch
from torch import Tensor, nn

from gnomon._kinds import checked
from gnomon.models._build import build


class VGG(nn.Module):
    """Five stages of 3 x 3 convolutions, each ending in max-pooling; `features` gives what its linear head sees.

    Pooling keeps partial windows at the image's edge. So 28 x 28 images leave one pixel, as 32 x 32 ones do, and
    multiples of 32 are pooled as usual.
    """

    def __init__(self, channels: int, classes: int, counts: tuple[int, ...], width: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        before = channels
        for stage, count in enumerate(counts):
            out = width * min(2**stage, 8)
            for _ in range(count):
                layers += [nn.Conv2d(before, out, 3, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()]
                before = out
            layers.append(nn.MaxPool2d(2, ceil_mode=True))
        self.body = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(before, classes)

    def features(self, x: Tensor) -> Tensor:
        """(n f): the last stage's channels, averaged over the image."""
        return torch.flatten(self.pool(self.body(x)), 1)

    def forward(self, x: Tensor) -> Tensor:
        """(n c) from images (n channels h w) of any size."""
        return self.head(self.features(x))


@checked
def vgg11(channels: int = 3, classes: int = 10, *, width: int = 64, generator: torch.Generator | None = None) -> VGG:
    """VGG-11 for small images: its eight convolutions with BatchNorm, and one linear layer in place of its three.

    The two hidden linear layers of 4096, with their dropout, and the pooling to 7 x 7 before them are omitted: 32 x 32
    images end as one pixel. BatchNorm follows each convolution, which then needs no bias. Weights are initialised as in
    `resnet18`.

    Source:
        Simonyan and Zisserman, arXiv:1409.1556, configuration A; BatchNorm in place of dropout as in Papyan, Han,
        Donoho 2020, whose networks Han, Papyan, Donoho, arXiv:2106.02073, adopt.
    Args:
        channels: channels of the images.
        classes: outputs.
        width: channels of the first stage; the second, third and fourth double them, the fifth does not.
        generator: where the weights come from; default: torch's global one.
    Raises:
        RangeError: listing every number that is not whole or below 1.
    """
    return vgg(channels, classes, (1, 1, 2, 2, 2), width, generator)


@checked
def vgg13(channels: int = 3, classes: int = 10, *, width: int = 64, generator: torch.Generator | None = None) -> VGG:
    """VGG-13 for small images: as `vgg11`, with two convolutions in every stage (configuration B)."""
    return vgg(channels, classes, (2, 2, 2, 2, 2), width, generator)


def vgg(channels: int, classes: int, counts: tuple[int, ...], width: int, generator: torch.Generator | None) -> VGG:
    """The network with this many convolutions in each stage."""
    return build(
        lambda: VGG(channels, classes, counts, width), generator, channels=channels, classes=classes, width=width
    )
