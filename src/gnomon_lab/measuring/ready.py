"""What is found out about a network with its weights, and about the samples, before the reading."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Unpack

from torch import nn

from gnomon.errors import DataError
from gnomon_lab.measuring.measure import How, left_out
from gnomon_lab.measuring.outputs import take_outputs
from gnomon_lab.measuring.padding import mask_padding
from gnomon_lab.measuring.quantities import Quantity
from gnomon_lab.measuring.samples import Data
from gnomon_lab.measuring.shown import by_reason


class Ready(NamedTuple):
    """What is to be read.

    Attributes:
        quantities: those that can be measured.
        left_out: the others, with the reasons.
        outputs: what the network outputs if it is not logits, in a sentence.
        mask: what is masked as padding, or why nothing is, in words; None where no texts are padded.
    """

    quantities: dict[str, Quantity]
    left_out: dict[str, str]
    outputs: str | None
    mask: str | None


def ready(
    network: nn.Module,
    data: Data,
    quantities: Mapping[str, Quantity],
    *,
    described: bool,
    logits: str | None,
    all_of_them: bool,
    say: Callable[[str], None],
    also: Mapping[str, Quantity] | None = None,
    **how: Unpack[How],
) -> Ready:
    """Makes the network output logits, one row per sample or per position, and finds out what can be measured.

    Args:
        network: the network with its weights, on the device and in the dtype of the reading; hooks are added to it.
        data: the samples, as the network gets them.
        quantities: by name.
        described: whether the network is one that its folder describes, which gets a mask for padded texts.
        logits: the layer that outputs the logits; default: what the network returns.
        all_of_them: whether it is an error if one cannot be measured.
        say: called with what is unusual.
        also: quantities that are read too if one of the others can be measured.
        how: see `How`.

    Raises:
        DataError: if the network does not take the samples, or no quantity can be measured, or not all that have to be.
    """
    position = how.get("position")
    labels = data.labels
    mask = mask_padding(network, data.x) if described else None
    if mask is not None:
        say(mask)
    labelled = labels[0].numel() if labels is not None and labels.ndim > 1 else None
    outputs = take_outputs(network, data.x, layer=logits, position=position, labelled=labelled)
    if outputs is not None:
        say(outputs)
    wanted = {**quantities, **(also or {})}
    without = left_out(network, data, wanted, layer=how.get("layer"), head=how.get("head", ()), position=position)
    left = {name: quantity for name, quantity in wanted.items() if name not in without}
    reasons = by_reason(without)
    if not left.keys() & quantities.keys() or (without and all_of_them):
        why = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
        raise DataError("--quantities", "what can be measured here", why, "Leave these out.")
    for reason, names in reasons.items():
        say(f"left out {', '.join(names)}: {reason}")
    return Ready(left, without, outputs, mask)
