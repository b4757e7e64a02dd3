"""Residual networks for small images."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from gnomon import _checks


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions, each normalised, and the way round them."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both ways, through a ReLU."""
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """A residual network for small images; `features` gives what its linear head sees."""

    def __init__(self, channels: int, classes: int, blocks: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        stages: list[nn.Module] = []
        before = width
        for stage, count in enumerate(blocks):
            out = width * 2**stage
            for block in range(count):
                stages.append(BasicBlock(before, out, 2 if stage > 0 and block == 0 else 1))
                before = out
        self.blocks = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(before, classes)

    def features(self, x: Tensor) -> Tensor:
        """(n f): the last block's channels, averaged over the image."""
        return torch.flatten(self.pool(self.blocks(self.stem(x))), 1)

    def forward(self, x: Tensor) -> Tensor:
        """(n c) from images (n channels h w)."""
        return self.head(self.features(x))


def resnet18(
    channels: int = 3, classes: int = 10, *, width: int = 64, generator: torch.Generator | None = None
) -> ResNet:
    """ResNet-18 for small images: a 3 x 3 first convolution of stride 1, and no max-pooling after it.

    Convolutions start normal with variance 2 / fan-out, BatchNorm as the identity, the head as PyTorch's default.

    Source:
        He et al. 2015; the small-image variant is that of Han, Papyan, Donoho, arXiv:2106.02073, and others before.
    Args:
        channels: of the images.
        classes: outputs.
        width: channels of the first stage; each of the three others doubles them.
        generator: where the weights come from; torch's global one unless told.
    Raises:
        RangeError: listing every number that is below 1.
    """
    _checks.settings(
        "resnet18",
        ("channels", channels, "at least 1", channels >= 1),
        ("classes", classes, "at least 1", classes >= 1),
        ("width", width, "at least 1", width >= 1),
    )
    with torch.device("meta"):
        model = ResNet(channels, classes, (2, 2, 2, 2), width)
    model = model.to_empty(device="cpu")
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu", generator=generator)
        elif isinstance(module, nn.BatchNorm2d):
            module.reset_parameters()
        elif isinstance(module, nn.Linear):
            bound = 1 / math.sqrt(module.in_features)
            for parameter in module.parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return model
