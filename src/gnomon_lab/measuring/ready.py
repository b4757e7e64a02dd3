"""What is found out of a network with its weights, and of the samples, before they are read."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Unpack

from torch import nn

from gnomon.errors import DataError
from gnomon_lab.measuring.measure import How, left_out
from gnomon_lab.measuring.outputs import take_outputs
from gnomon_lab.measuring.quantities import Quantity
from gnomon_lab.measuring.samples import Data
from gnomon_lab.measuring.shown import by_reason


class Ready(NamedTuple):
    """What is to be read.

    Attributes:
        data: the samples, with the labels of the position that is asked for.
        quantities: those that can be had.
        left_out: the others, with the reasons.
        outputs: what the network puts out where it is no logits, in a sentence.
    """

    data: Data
    quantities: dict[str, Quantity]
    left_out: dict[str, str]
    outputs: str | None


def ready(
    network: nn.Module,
    data: Data,
    quantities: Mapping[str, Quantity],
    *,
    logits: str | None,
    all_of_them: bool,
    say: Callable[[str], None],
    also: Mapping[str, Quantity] | None = None,
    **how: Unpack[How],
) -> Ready:
    """Lets the network put out one row of logits a sample, and finds out what can be had of it.

    Args:
        network: with its weights, where and in which numbers it is to be read; it gets hooks.
        data: the samples, as it gets them.
        quantities: by name.
        logits: the layer that puts these out; default: what the network returns.
        all_of_them: whether it is an error if one cannot be had.
        say: is told what is unusual.
        also: quantities that are read too where one of the others can be had.
        how: see `How`.

    Raises:
        DataError: if no quantity can be had, or not all that have to be.
    """
    position = how.get("position")
    outputs = take_outputs(network, data.x, layer=logits, position=position)
    if outputs is not None:
        say(outputs)
    data = data.at(position)
    wanted = {**quantities, **(also or {})}
    without = left_out(network, data, wanted, layer=how.get("layer"), head=how.get("head", ()), position=position)
    left = {name: quantity for name, quantity in wanted.items() if name not in without}
    reasons = by_reason(without)
    if not left.keys() & quantities.keys() or (without and all_of_them):
        why = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())
        raise DataError("--quantities", "what can be measured here", why, "Leave these out.")
    for reason, names in reasons.items():
        say(f"left out {', '.join(names)}: {reason}")
    return Ready(data, left, without, outputs)
