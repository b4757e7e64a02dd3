"""A one-layer transformer, as small as the one that learns modular addition."""

import math

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn
from torch.nn import functional

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.errors import RangeError, ShapeError, public


class OneLayerTransformer(nn.Module):
    r"""Attention and a ReLU layer over a few tokens, read off at the last of them; no LayerNorm, no dropout.

    With x the embeddings plus positions, of which only the last one, $x_t$, is a query and has an output:
    $r = x_t + W_O\,[\mathrm{softmax}(q_h^\top K_h/\sqrt k)\,V_h]_h$,
    $f = W_U\,(r + W_{out}\,\mathrm{ReLU}(W_{in}\,r + b_{in}) + b_{out})$

    The last position attends to all positions, so no mask is needed, and the outputs of the other positions are never
    computed. The network maps embeddings, not tokens, to logits: `model(model.embed(tokens))`. Thus Jacobians with
    respect to the input exist, and attention is written out, since fused attention has no second derivative.

    Weights are drawn as in the source: normal with variance 1/width, the unembedding 1/outputs; biases start at 0.

    Source:
        Nanda et al., Progress measures for grokking via mechanistic interpretability, arXiv:2301.05217, and their
        code. Departs from it in that the unembedding leaves out the token "=", if `outputs` is `tokens` - 1.
    Args:
        tokens: the number of tokens in the vocabulary.
        outputs: c, the number of logits.
        context: t, the number of tokens per sample.
        width: d, the width of the embeddings.
        heads: the number of attention heads; each is `width` / `heads` wide.
        hidden: m, the number of neurons.
        generator: where the weights come from; default: torch's global one.
    Raises:
        RangeError: if a size is not whole and positive, or `heads` does not divide `width`.
    """

    @public
    def __init__(
        self,
        tokens: int,
        outputs: int,
        *,
        context: int = 3,
        width: int = 128,
        heads: int = 4,
        hidden: int = 512,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        sizes = {"tokens": tokens, "outputs": outputs, "context": context}
        sizes |= {"width": width, "heads": heads, "hidden": hidden}
        _checks.settings(*(_checks.whole_number(name, value, 1) for name, value in sizes.items()))
        if width % heads:
            raise RangeError(
                "heads",
                f"a divisor of the width, {width}",
                heads,
                "Give every head the same width.",
            )

        def normal(*shape: int, variance: float = 1 / width) -> nn.Parameter:
            return nn.Parameter(torch.randn(shape, generator=generator) * math.sqrt(variance))

        self.heads = heads
        self.W_E = normal(tokens, width)
        self.W_pos = normal(context, width)
        self.W_Q, self.W_K, self.W_V, self.W_O = (normal(width, width) for _ in range(4))
        self.W_in, self.W_out = normal(hidden, width), normal(width, hidden)
        self.b_in, self.b_out = nn.Parameter(torch.zeros(hidden)), nn.Parameter(torch.zeros(width))
        self.W_U = normal(outputs, width, variance=1 / outputs)

    @full_precision
    def embed(self, tokens: Integer[Tensor, "n t"]) -> Float[Tensor, "n t d"]:
        """The rows of the embedding, without positions, with a graph to it.

        Raises:
            ShapeError: if tokens are not (n t).
            EmptyError: if there are none.
            RangeError: if a token is not a whole number from 0 to the last of the vocabulary.
        """
        self._check(tokens)
        return self.W_E[tokens.long()]

    def _check(self, tokens: Tensor) -> None:
        """Raises unless these are tokens of the vocabulary, one row per sample."""
        _checks.rows(tokens=tokens)
        last = len(self.W_E) - 1
        if tokens.is_floating_point():
            raise RangeError("tokens", "whole numbers", tokens.dtype, "Convert them.")
        if not 0 <= tokens.min() <= tokens.max() <= last:
            found = f"{tokens.min().item()} to {tokens.max().item()}"
            raise RangeError("tokens", f"those from 0 to {last}", found, "Number the vocabulary from 0.")

    def forward(self, embeddings: Float[Tensor, "n t d"]) -> Float[Tensor, "n c"]:
        """The logits at the last token; ShapeError unless there are as many tokens, as wide, as there are positions."""
        if embeddings.shape[1:] != self.W_pos.shape:
            raise ShapeError(
                "embeddings",
                f"shape (n, {', '.join(map(str, self.W_pos.shape))})",
                _checks.shape_of(embeddings),
                "Pass what `embed` gives for that many tokens.",
                where="OneLayerTransformer.forward",
            )
        x = embeddings + self.W_pos
        return self._read_off(x[:, -1], x[:, -1:] @ self.W_Q.T, x @ self.W_K.T, x @ self.W_V.T)

    @full_precision
    def of_tokens(self, tokens: Integer[Tensor, "n t"]) -> Float[Tensor, "n c"]:
        """The same as `model(model.embed(tokens))`, with keys and values computed once per token and position.

        Where samples outnumber tokens a step of training takes less time: about two thirds with 3,830 of 114 tokens. It
        has no embeddings of a sample, with respect to which it could be differentiated.

        Raises:
            ShapeError, EmptyError, RangeError: as `embed`, and unless there are as many tokens as positions.
        """
        self._check(tokens)
        if tokens.shape[1] != len(self.W_pos):
            raise ShapeError(
                "tokens", f"shape (n, {len(self.W_pos)})", _checks.shape_of(tokens), "Pass one per position."
            )
        x = (self.W_E.unsqueeze(1) + self.W_pos).flatten(0, 1)
        rows = tokens.long() * len(self.W_pos) + torch.arange(len(self.W_pos), device=tokens.device)
        uses = (rows[:, -1:], self.W_Q), (rows, self.W_K), (rows, self.W_V)
        query, key, value = (functional.embedding(at, x @ weight.T) for at, weight in uses)
        return self._read_off(functional.embedding(rows[:, -1], x), query, key, value)

    def _read_off(
        self,
        x: Float[Tensor, "n d"],
        query: Float[Tensor, "n 1 d"],
        key: Float[Tensor, "n t d"],
        value: Float[Tensor, "n t d"],
    ) -> Float[Tensor, "n c"]:
        """The logits at the last position, x with its position added."""
        by_head = (*key.shape[:2], self.heads, -1)
        # With one query per sample, sums of products take less time than batches of matrix products this small.
        scores = (query * key).reshape(by_head).sum(3) / math.sqrt(x.shape[1] / self.heads)
        attention = scores.softmax(1).unsqueeze(3)
        mixed = (attention * value.reshape(by_head)).sum(1).flatten(1)
        last = x + mixed @ self.W_O.T
        neurons = torch.relu(last @ self.W_in.T + self.b_in)
        return (last + neurons @ self.W_out.T + self.b_out) @ self.W_U.T
