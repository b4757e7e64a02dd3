"""The measurement: quantities of each sample batch by batch, those of all samples at once."""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from gnomon import Probe
from gnomon.autodiff import DEFAULT_BUDGET
from gnomon_lab.measuring.lacking import running
from gnomon_lab.measuring.quantities import TOGETHER, Quantity, needs
from gnomon_lab.measuring.samples import Data

LARGEST_BATCH = 256
"""So that there is progress to show."""


class Measured(NamedTuple):
    """The values, and what they cost.

    Attributes:
        values: by quantity; one number, or one or more a sample.
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
    together = {name: quantity for name, quantity in quantities.items() if needs(quantity) & TOGETHER}
    alone = {name: quantity for name, quantity in quantities.items() if name not in together}
    jacobian = outputs * math.prod(x.shape[1:]) * x.element_size()
    size = max(1, min(LARGEST_BATCH, (memory or DEFAULT_BUDGET) // jacobian))
    parts = [(alone, slice(start, start + size)) for start in range(0, len(x), size) if alone]
    parts += [(together, slice(None))] if together else []
    pieces: dict[str, list[Tensor]] = {name: [] for name in quantities}
    seconds: Counter[str] = Counter()
    for done, (asked, part) in enumerate(parts, 1):
        samples = x[part] if labels is None else (x[part], labels[part])
        with running(x):
            reading = Probe(model, samples, asked, layer=layer, memory=memory).read()
        for name, value in reading.values.items():
            pieces[name].append(value.cpu())
        seconds.update(reading.seconds)
        show(done, len(parts))
    return Measured(
        {name: piece[0] if len(piece) == 1 else torch.cat(piece) for name, piece in pieces.items()}, dict(seconds)
    )
