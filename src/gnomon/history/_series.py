"""What was read at which steps, as numbers, checked."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon.errors import EmptyError, RangeError, ShapeError


def series(
    steps: Sequence[float | int] | Tensor, least: int, **named: Sequence[float | int] | Tensor
) -> tuple[Float[Tensor, "t ..."], ...]:
    """Steps and the values read at them, in float64, checked: `least` readings or more, one value per step."""
    times = as_numbers("steps", steps)
    read = {name: as_numbers(name, values) for name, values in named.items()}
    if times.ndim != 1:
        raise ShapeError("steps", "one axis", f"shape {_checks.shape_of(times)}", "Flatten the steps.")
    if len(times) < least:
        raise EmptyError("steps", f"at least {least} readings", len(times), "Record more of them.")
    for name, values in read.items():
        if values.ndim == 0 or len(values) != len(times) or values.numel() == 0:
            raise ShapeError(
                name,
                f"{len(times)} readings as in steps",
                f"shape {_checks.shape_of(values)}",
                "Pass one value per step.",
            )
    _checks.finite(steps=times, **read)
    back = (times.diff() <= 0).nonzero().flatten().tolist()
    if back:
        at = back[0]
        raise RangeError(
            "steps",
            "steps that increase",
            f"{float(times[at + 1]):,.12g} after {float(times[at]):,.12g} at index {at + 1}",
            "Sort the records, and drop duplicates.",
        )
    return times, *read.values()


def as_numbers(name: str, values: Sequence[float | int] | Tensor) -> Tensor:
    """In float64 and without a graph, on the CPU: a verdict is not differentiated."""
    return values.detach().to("cpu", torch.float64) if isinstance(values, Tensor) else _checks.numbers(name, values)
