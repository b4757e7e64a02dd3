"""The networks: a vision transformer and an encoder of characters, as people write them with PyTorch's layers."""

import torch
from torch import Tensor, nn

PATCH = 4
"""The side of a piece of an image, in pixels."""


class Encoder(nn.Module):
    """Tokens as rows, each with a learnt position, two of PyTorch's transformer layers; no dropout.

    Args:
        tokens: numbers per token.
        context: tokens per sample.
        outputs: number of logits.
        width: width of the layers.
        from_last: whether it is read off at the last token; otherwise off the mean over all.
    """

    def __init__(self, tokens: int, context: int, outputs: int, width: int = 64, *, from_last: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Linear(tokens, width)
        self.places = nn.Parameter(0.02 * torch.randn(context, width))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(2)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, outputs)
        self.from_last = from_last

    def hidden(self, x: Tensor) -> Tensor:
        """The layers' features of each token, (n, t, w)."""
        h = self.embedding(x) + self.places
        for layer in self.layers:
            h = layer(h)
        return self.norm(h)

    def forward(self, x: Tensor) -> Tensor:
        """The logits, (n, c)."""
        h = self.hidden(x)
        return self.head(h[:, -1] if self.from_last else h.mean(1))


def patches(images: Tensor) -> Tensor:
    """Square pieces of images (n, c, h, w) as tokens (n, t, v)."""
    return nn.functional.unfold(images, PATCH, stride=PATCH).transpose(1, 2).contiguous()


def pretrain(encoder: Encoder, x: Tensor, steps: int, generator: torch.Generator) -> None:
    """Teaches the encoder to fill in characters: a seventh of the tokens is blanked and predicted from those around."""
    guess = nn.Linear(encoder.head.in_features, x.shape[2])
    optimizer = torch.optim.AdamW([*encoder.parameters(), *guess.parameters()], 1e-3)
    for _ in range(steps):
        batch = x[torch.randint(len(x), (64,), generator=generator)]
        blank = torch.rand(batch.shape[:2], generator=generator) < 1 / 7
        guesses = guess(encoder.hidden(batch.masked_fill(blank[..., None], 0.0)))
        optimizer.zero_grad()
        torch.autograd.backward(nn.functional.cross_entropy(guesses[blank], batch[blank].argmax(1)))
        optimizer.step()
