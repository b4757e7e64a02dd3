"""The attention mask of padded texts, for a network of transformers whose configuration says which token pads."""

from typing import Any

from jaxtyping import Bool, Shaped
from torch import Tensor, nn

from gnomon.integrations._padding import padding_token
from gnomon_lab.measuring.folders import CONFIG


def mask_padding(network: nn.Module, x: Shaped[Tensor, "n *d"]) -> str | None:
    """Has the network ignore padding, as its tokenizer's mask does, if a token in x can be nothing else.

    Args:
        network: one that transformers built; a hook is added to it, and what is padding.
        x: the samples; only tokens, (n t) in whole numbers, can be padded.

    Returns:
        In words what is masked, or why nothing is; None if there is no padding, or the network takes no mask.
    """
    pad, other = padding_token(network)
    if x.is_floating_point() or x.ndim != 2 or pad is None:
        return None
    text = x != pad
    if text.all():
        return None
    token = f"token {pad}, the pad_token_id of {CONFIG},"
    if other is not None:
        return f"no attention mask: {token} is its {other} too"
    side = side_of(text)
    if side is None:
        return f"no attention mask: {token} stands within texts or on both sides of them"

    def add(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return inputs, {**named, "attention_mask": (inputs[0] != pad).long()}

    network.register_forward_pre_hook(add, with_kwargs=True)
    marked: Any = network  # a probe asks it, and refuses to read a position that is padding
    marked.gnomon_padding = lambda x: x == pad
    return f"{token} is masked {side} {(~text).any(1).sum():,} of {len(x):,} texts"


def side_of(text: Bool[Tensor, "n t"]) -> str | None:
    """Where all that is no text stands, before or after the text of its row; None if neither."""
    left, right = text[:, :-1], text[:, 1:]
    if (left >= right).all():
        return "after"
    return "before" if (left <= right).all() else None
