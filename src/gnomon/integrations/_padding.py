"""Which tokens are padding, where a text network's configuration says so."""

import inspect
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from gnomon._warn import warn

OTHER_USES = ("bos_token_id", "eos_token_id", "sep_token_id")
"""What else a padding token may be, as GPT-2's is: where it pads can then not be seen in the tokens."""


def padding_token(network: nn.Module) -> tuple[int | None, str | None]:
    """The token that pads, None if there is none or the network takes no mask; and what else that token is, if any."""
    config: Any = getattr(network, "config", None)
    if not hasattr(config, "get_text_config") or "attention_mask" not in inspect.signature(network.forward).parameters:
        return None, None
    text = config.get_text_config()
    pad = getattr(text, "pad_token_id", None)
    if not isinstance(pad, int):
        return None, None
    return pad, next((name for name in OTHER_USES if is_among(pad, getattr(text, name, None))), None)


def is_among(token: int, ids: object) -> bool:
    """Whether this is the token, or one of the tokens, that a configuration names."""
    return token in ids if isinstance(ids, list) else token == ids


def padding_in(network: nn.Module, tokens: Int[Tensor, "n t"]) -> Bool[Tensor, "n t"]:
    """Where padding stands, before or after a text.

    Warns where this cannot be known: if the token stands within a text or on both sides, or is something else too.
    """
    pad, other = padding_token(network)
    if pad is None or tokens.ndim != 2:
        return torch.zeros_like(tokens, dtype=torch.bool)
    padding = tokens == pad
    ends = padding[:, 0] | padding[:, -1]
    left, right = padding[:, :-1], padding[:, 1:]
    clear = (left >= right).all(1) | (left <= right).all(1)
    doubtful = ends & ~clear if other is None else ends
    if doubtful.any():
        what = "within texts or on both sides" if other is None else f"which is its {other} too"
        warn(
            f"Logits(x): expected padding that can be nothing else, got token {pad}, {what}: it is read as words. "
            f"If it is padding, read TextLogits(model) at EmbeddedTexts, which take the mask.",
            UserWarning,
        )
    return padding & (ends & ~doubtful)[:, None]
