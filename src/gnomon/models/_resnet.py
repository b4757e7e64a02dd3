"""Residual networks for small images."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from gnomon._kinds import checked
from gnomon.models._build import build


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions, each normalised, and the shortcut around them."""

    expansion = 1

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut = shortcut(channels, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both paths, through a ReLU."""
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class Bottleneck(nn.Module):
    """A 3 x 3 convolution between two of 1 x 1, the last of which widens fourfold, and the shortcut around them."""

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = self.expansion * width
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.shortcut = shortcut(channels, out, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both paths, through a ReLU."""
        y = functional.relu(self.bn1(self.conv1(x)))
        y = functional.relu(self.bn2(self.conv2(y)))
        return functional.relu(self.bn3(self.conv3(y)) + self.shortcut(x))


def shortcut(channels: int, out: int, stride: int) -> nn.Module:
    """The shortcut around a block: the identity, or, where the shape changes, a 1 x 1 convolution."""
    if stride == 1 and channels == out:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))


class ResNet(nn.Module):
    """A residual network for small images; `features` gives what its linear head sees."""

    def __init__(
        self,
        channels: int,
        classes: int,
        block: type[BasicBlock] | type[Bottleneck],
        counts: tuple[int, ...],
        width: int,
    ) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        blocks: list[nn.Module] = []
        before = width
        for stage, count in enumerate(counts):
            inner = width * 2**stage
            for index in range(count):
                blocks.append(block(before, inner, 2 if stage > 0 and index == 0 else 1))
                before = block.expansion * inner
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(before, classes)

    def features(self, x: Tensor) -> Tensor:
        """(n f): the last block's channels, averaged over the image."""
        return torch.flatten(self.pool(self.blocks(self.stem(x))), 1)

    def forward(self, x: Tensor) -> Tensor:
        """(n c) from images (n channels h w) of any size."""
        return self.head(self.features(x))


@checked
def resnet18(
    channels: int = 3, classes: int = 10, *, width: int = 64, generator: torch.Generator | None = None
) -> ResNet:
    """ResNet-18 for small images: a 3 x 3 first convolution of stride 1, and no max-pooling after it.

    Convolution weights are drawn from a normal distribution with variance 2 / fan-out; BatchNorm starts as the
    identity, the head with PyTorch's default initialisation.

    Source:
        He et al. 2015; the small-image variant is that of Han, Papyan, Donoho, arXiv:2106.02073, and others before.
    Args:
        channels: channels of the images.
        classes: outputs.
        width: channels of the first stage; each of the three others doubles them.
        generator: where the weights come from; default: torch's global one.
    Raises:
        RangeError: listing every number that is not whole or below 1.
    """
    return resnet(channels, classes, BasicBlock, (2, 2, 2, 2), width, generator)


@checked
def resnet34(
    channels: int = 3, classes: int = 10, *, width: int = 64, generator: torch.Generator | None = None
) -> ResNet:
    """ResNet-34 for small images: as `resnet18`, with 3, 4, 6 and 3 blocks."""
    return resnet(channels, classes, BasicBlock, (3, 4, 6, 3), width, generator)


@checked
def resnet50(
    channels: int = 3, classes: int = 10, *, width: int = 64, generator: torch.Generator | None = None
) -> ResNet:
    """ResNet-50 for small images: as `resnet34`, with bottlenecks, and so with four times the features.

    A bottleneck's stride is in its 3 x 3 convolution, where PyTorch has it, not in the first, where He et al. have it.
    """
    return resnet(channels, classes, Bottleneck, (3, 4, 6, 3), width, generator)


def resnet(
    channels: int,
    classes: int,
    block: type[BasicBlock] | type[Bottleneck],
    counts: tuple[int, ...],
    width: int,
    generator: torch.Generator | None,
) -> ResNet:
    """The residual network with this many blocks in each stage."""
    return build(
        lambda: ResNet(channels, classes, block, counts, width),
        generator,
        channels=channels,
        classes=classes,
        width=width,
    )
