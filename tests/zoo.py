"""Awkward networks, each with a batch: what people train, and what breaks careless differentiation."""

import torch
from torch import nn

from gnomon.models import mlp


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.last = nn.Linear(width, width), nn.Linear(width, 3)

    def forward(self, x):
        return self.last(x + torch.relu(self.first(x)))


class Shared(nn.Module):
    """One layer used twice."""

    def __init__(self, width):
        super().__init__()
        self.layer, self.last = nn.Linear(width, width), nn.Linear(width, 3)

    def forward(self, x):
        return self.last(torch.relu(self.layer(torch.relu(self.layer(x)))))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.block(x).mean(1))


def conv(*layers):
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), *layers, nn.Flatten(), nn.LazyLinear(3))


BUILDERS = {
    "mlp": (lambda: mlp((6, 8, 8, 3)), (5, 6)),
    "bias": (lambda: mlp((6, 8, 3), bias=True), (5, 6)),
    "flatten": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.Tanh(), nn.Linear(4, 3)), (5, 3, 4)),
    "one output": (lambda: mlp((6, 8, 1)), (5, 6)),
    "one sample": (lambda: mlp((6, 8, 3)), (1, 6)),
    "linear": (lambda: nn.Linear(6, 3, bias=False), (5, 6)),
    "conv": (lambda: conv(nn.ReLU()), (4, 1, 5, 5)),
    "max-pool": (lambda: conv(nn.ReLU(), nn.MaxPool2d(2)), (4, 1, 6, 6)),
    "BatchNorm": (lambda: conv(nn.BatchNorm2d(4), nn.ReLU()), (4, 1, 5, 5)),
    "LayerNorm": (lambda: nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)), (5, 6)),
    "dropout": (lambda: nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3)), (5, 6)),
    "residual": (lambda: Residual(6), (5, 6)),
    "shared": (lambda: Shared(6), (5, 6)),
    "tokens": (lambda: nn.Sequential(nn.Linear(40, 4), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3)), (20, 3, 40)),
    "attention": (lambda: Attention(), (4, 3, 8)),
}
"""From a name to how to build the network, and the shape of its batch."""


def zoo(name, dtype=torch.float64, seed=0):
    """The network, in eval mode, and its batch."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        build, shape = BUILDERS[name]
        model, x = build(), torch.randn(shape)
        model(x)
    return model.to(dtype).eval(), x.to(dtype)
