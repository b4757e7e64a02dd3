"""Networks that several experiments of this wing train: a transformer of one layer, and how they are initialised."""

import math

import torch
from torch import Tensor, nn

HEADS = 4


class Transformer(nn.Module):
    """Attention and a ReLU layer over a few tokens, read off at the last of them; no LayerNorm, no dropout.

    It takes tokens as one-hot rows, so that Jacobians with respect to its input exist.
    """

    def __init__(self, context: int, tokens: int, outputs: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Linear(tokens, width, bias=False)
        self.positions = nn.Parameter(torch.zeros(context, width))
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.attended, self.neurons = nn.Linear(width, width), nn.Linear(width, 4 * width)
        self.out, self.head = nn.Linear(4 * width, width), nn.Linear(width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """From tokens (n, t, v) to logits (n, c)."""
        x = self.embedding(x) + self.positions
        heads = (*x.shape[:2], HEADS, -1)
        scores = (self.query(x[:, -1:]) * self.key(x)).reshape(heads).sum(3) / math.sqrt(x.shape[2] / HEADS)
        mixed = (scores.softmax(1).unsqueeze(3) * self.value(x).reshape(heads)).sum(1).flatten(1)
        last = x[:, -1] + self.attended(mixed)
        return self.head(last + self.out(self.neurons(last).relu()))


def started(model: nn.Module, scale: float, generator: torch.Generator) -> nn.Module:
    """With PyTorch's initialisation of linear layers and convolutions, from our own generator, times `scale`."""
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                bound = scale / math.sqrt(layer.weight[0].numel())
                for parameter in layer.parameters(recurse=False):
                    parameter.uniform_(-bound, bound, generator=generator)
    return model
