"""Densely connected networks for small images."""

import torch
from torch import Tensor, nn

from gnomon._kinds import checked
from gnomon.errors import ShapeError, public
from gnomon.models._build import build


def convolution(channels: int, out: int, size: int) -> nn.Sequential:
    """BatchNorm, ReLU, convolution: the paper's order."""
    return nn.Sequential(
        nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, out, size, padding=size // 2, bias=False)
    )


class DenseLayer(nn.Module):
    """Adds `growth` channels to those it is given, computed from all of them."""

    def __init__(self, channels: int, growth: int, *, bottleneck: bool) -> None:
        super().__init__()
        self.added = (
            nn.Sequential(convolution(channels, 4 * growth, 1), convolution(4 * growth, growth, 3))
            if bottleneck
            else convolution(channels, growth, 3)
        )

    def forward(self, x: Tensor) -> Tensor:
        """The old channels, then the new."""
        return torch.cat([x, self.added(x)], 1)


class DenseNet(nn.Module):
    """A densely connected network for small images; `features` gives what its linear head sees.

    With `bc` it is a DenseNet-BC: bottlenecks of 4 `growth` channels, and the channels halved between two blocks.
    """

    def __init__(
        self, channels: int, classes: int, counts: tuple[int, ...], growth: int, start: int, *, bc: bool
    ) -> None:
        super().__init__()
        self.least = 2 ** (len(counts) - 1)
        layers: list[nn.Module] = [nn.Conv2d(channels, start, 3, padding=1, bias=False)]
        width = start
        for block, count in enumerate(counts):
            if block > 0:
                out = width // 2 if bc else width
                layers.append(nn.Sequential(convolution(width, out, 1), nn.AvgPool2d(2)))
                width = out
            for _ in range(count):
                layers.append(DenseLayer(width, growth, bottleneck=bc))
                width += growth
        self.body = nn.Sequential(*layers, nn.BatchNorm2d(width), nn.ReLU())
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(width, classes)

    @public
    def features(self, x: Tensor) -> Tensor:
        """(n f): the last block's channels, averaged over the image."""
        h, w = x.shape[-2:]
        if min(h, w) < self.least:
            raise ShapeError(
                "x",
                f"images of at least {self.least} x {self.least} pixels",
                f"{h} x {w}",
                "Pad or enlarge them.",
            )
        return torch.flatten(self.pool(self.body(x)), 1)

    def forward(self, x: Tensor) -> Tensor:
        """(n c) from images (n channels h w)."""
        return self.head(self.features(x))


@checked
def densenet40(
    channels: int = 3, classes: int = 10, *, growth: int = 12, generator: torch.Generator | None = None
) -> DenseNet:
    """DenseNet-40: three blocks of 12 layers, neither bottlenecks nor compression, 16 channels at first.

    Between two blocks, a 1 x 1 convolution and the average over 2 x 2 pixels. No dropout. Weights are initialised as in
    `resnet18`, which is the source's initialisation except for the head.

    Source:
        Huang et al., arXiv:1608.06993, table 2, with growth rates of 12 here and at depth 100, 24 at depth 250. The
        papers on neural collapse do not say which they used for these depths.
    Args:
        channels: channels of the images, which have at least 4 x 4 pixels.
        classes: outputs.
        growth: k, the number of channels that each layer adds.
        generator: where the weights come from; default: torch's global one.
    Raises:
        RangeError: listing every number that is not whole or below 1.
    """
    return densenet(channels, classes, (12, 12, 12), growth, 16, False, generator)


@checked
def densenet100(
    channels: int = 3, classes: int = 10, *, growth: int = 12, generator: torch.Generator | None = None
) -> DenseNet:
    """DenseNet-BC-100: as `densenet40`, with three blocks of 16 bottlenecks, compression, and 2 k channels at first."""
    return densenet(channels, classes, (16, 16, 16), growth, 2 * growth, True, generator)


@checked
def densenet201(
    channels: int = 3, classes: int = 10, *, growth: int = 32, generator: torch.Generator | None = None
) -> DenseNet:
    """DenseNet-201, with the first convolution of `densenet100`: 6, 12, 48 and 32 bottlenecks, on 8 x 8 pixels or more.

    Source:
        Huang et al., table 1, for ImageNet. The stride and the 7 x 7 size of its first convolution are omitted, and so
        are the BatchNorm, ReLU and max-pooling after that.
    """
    return densenet(channels, classes, (6, 12, 48, 32), growth, 2 * growth, True, generator)


@checked
def densenet250(
    channels: int = 3, classes: int = 10, *, growth: int = 24, generator: torch.Generator | None = None
) -> DenseNet:
    """DenseNet-BC-250: as `densenet100`, with three blocks of 41 bottlenecks."""
    return densenet(channels, classes, (41, 41, 41), growth, 2 * growth, True, generator)


def densenet(
    channels: int,
    classes: int,
    counts: tuple[int, ...],
    growth: int,
    start: int,
    bc: bool,
    generator: torch.Generator | None,
) -> DenseNet:
    """The network with this many layers in each block."""
    return build(
        lambda: DenseNet(channels, classes, counts, growth, start, bc=bc),
        generator,
        channels=channels,
        classes=classes,
        growth=growth,
    )
