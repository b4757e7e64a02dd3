"""The attention mask of padded texts, for a network of transformers whose configuration says which token pads."""

import inspect
from typing import Any

from jaxtyping import Bool, Shaped
from torch import Tensor, nn

from gnomon_lab.measuring.folders import CONFIG

OTHER_USES = ("bos_token_id", "eos_token_id", "sep_token_id")
"""What else a padding token may be, as GPT-2's is: where it pads can then not be seen in the tokens."""


def mask_padding(network: nn.Module, x: Shaped[Tensor, "n *d"]) -> str | None:
    """Has the network ignore padding, as its tokenizer's mask does, if a token in x can be nothing else.

    Args:
        network: one that transformers built; a hook is added to it, and what is padding.
        x: the samples; only tokens, (n t) in whole numbers, can be padded.

    Returns:
        In words what is masked, or why nothing is; None if there is no padding, or the network takes no mask.
    """
    config: Any = network.config
    pad = getattr(config.get_text_config(), "pad_token_id", None)
    takes_mask = "attention_mask" in inspect.signature(network.forward).parameters
    if x.is_floating_point() or x.ndim != 2 or not isinstance(pad, int) or not takes_mask:
        return None
    text = x != pad
    if text.all():
        return None
    token = f"token {pad}, the pad_token_id of {CONFIG},"
    others = [name for name in OTHER_USES if is_among(pad, getattr(config.get_text_config(), name, None))]
    if others:
        return f"no attention mask: {token} is its {others[0]} too"
    side = side_of(text)
    if side is None:
        return f"no attention mask: {token} stands within texts or on both sides of them"

    def add(module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return inputs, {**named, "attention_mask": (inputs[0] != pad).long()}

    network.register_forward_pre_hook(add, with_kwargs=True)
    marked: Any = network  # a probe asks it, and refuses to read a position that is padding
    marked.gnomon_padding = lambda x: x == pad
    return f"{token} is masked {side} {(~text).any(1).sum():,} of {len(x):,} texts"


def is_among(token: int, ids: object) -> bool:
    """Whether this is the token, or one of the tokens, that a configuration names."""
    return token in ids if isinstance(ids, list) else token == ids


def side_of(text: Bool[Tensor, "n t"]) -> str | None:
    """Where all that is no text stands, before or after the text of its row; None if neither."""
    left, right = text[:, :-1], text[:, 1:]
    if (left >= right).all():
        return "after"
    return "before" if (left <= right).all() else None
