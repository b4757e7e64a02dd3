"""The measurement: quantities of each sample batch by batch, those of all samples at once."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gnomon import Probe
from gnomon.autodiff import DEFAULT_BUDGET
from gnomon_lab.measuring.lacking import running
from gnomon_lab.measuring.quantities import Quantity, by_sample
from gnomon_lab.measuring.samples import Data

LARGEST_BATCH = 256
"""So that there is progress to show."""


class Measured(NamedTuple):
    """The values, and what they cost.

    Attributes:
        values: by quantity, or by the parts of its result; one number, or several, such as one or more a sample.
        seconds: by quantity or by what it looks at, wall time.
    """

    values: dict[str, Tensor]
    seconds: dict[str, float]


def measure(
    model: nn.Module,
    data: Data,
    quantities: Mapping[str, Quantity],
    *,
    outputs: int,
    layer: str | None = None,
    memory: int | None = None,
    show: Callable[[int, int], None] = lambda done, total: None,
) -> Measured:
    """The quantities of the network at the samples, in eval mode.

    Args:
        model: the network.
        data: the samples, on its device and in its dtype.
        quantities: by name, in the order in which they are to be shown.
        outputs: of the network; the Jacobians of a batch are as many rows a sample.
        layer: whose input the features are; the last linear one unless told.
        memory: bytes for the Jacobians of a batch, and again for what it takes to make them; 512 MiB unless told.
        show: is told how many of how many parts are done.

    Raises:
        DataError: if the network raises what is no GnomonError.
    """
    x, labels = data.x, data.labels
    alone = {name: quantity for name, quantity in quantities.items() if by_sample(quantity)}
    together = {name: quantity for name, quantity in quantities.items() if name not in alone}
    jacobian = outputs * math.prod(x.shape[1:]) * x.element_size()
    size = max(1, min(LARGEST_BATCH, (memory or DEFAULT_BUDGET) // jacobian))
    parts = [(alone, slice(start, start + size)) for start in range(0, len(x), size) if alone]
    parts += [(together, slice(None))] if together else []
    pieces: dict[str, list[Tensor]] = {}
    seconds: Counter[str] = Counter()
    for done, (asked, part) in enumerate(parts, 1):
        samples = x[part] if labels is None else (x[part], labels[part])
        with running(x):
            reading = Probe(model, samples, asked, layers=layer, memory=memory).read()
        for name, value in parts_of(reading.values).items():
            pieces.setdefault(name, []).append(value.cpu())
        seconds.update(reading.seconds)
        show(done, len(parts))
    order = [*quantities]
    names = sorted(pieces, key=lambda name: order.index(name.partition(".")[0]))
    joined = {name: pieces[name][0] if len(pieces[name]) == 1 else torch.cat(pieces[name]) for name in names}
    return Measured(joined, dict(seconds))


def parts_of(values: Mapping[str, object]) -> dict[str, Tensor]:
    """The tensors by name, those of a dataclass by its name and theirs."""
    found: dict[str, Tensor] = {}
    for name, value in values.items():
        if isinstance(value, Tensor):
            found[name] = value
        elif is_dataclass(value):
            found |= parts_of({f"{name}.{part.name}": getattr(value, part.name) for part in fields(value)})
    return found
