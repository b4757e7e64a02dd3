"""What a probe read at one step."""

from collections.abc import Set
from dataclasses import dataclass, field, fields, replace
from typing import Any

from torch import Tensor

Value = Any
"""A tensor, or a frozen dataclass of tensors."""


@dataclass(frozen=True)
class Reading:
    """The quantities at one step.

    Attributes:
        step: the training step.
        values: each quantity's result, as the function returned it.
        seconds: what each observation and each quantity cost, wall time; an observation that several quantities
            share counts once, under its own name (`logits` is the forward pass).
        missing: by quantity, why it has no value at this step; then its value is NaN.
    """

    step: int
    values: dict[str, Value]
    seconds: dict[str, float]
    missing: dict[str, str] = field(default_factory=dict)

    def scalars(self) -> dict[str, float]:
        """Plain numbers for a log: the mean, and where there are several values also `.min` and `.max`.

        The tensors of a dataclass go by its name and theirs, as in `mse_decomposition.total`.
        """
        numbers: dict[str, float] = {}
        for name, value in tensors(self.values).items():
            value = value.detach().double()
            numbers[name] = value.mean().item()
            if value.numel() > 1:
                numbers |= {f"{name}.min": value.min().item(), f"{name}.max": value.max().item()}
        return numbers


def tensors(values: dict[str, Value]) -> dict[str, Tensor]:
    """All tensors by name, those of dataclasses among them."""
    found: dict[str, Tensor] = {}
    for name, value in values.items():
        if isinstance(value, Tensor):
            found[name] = value
        else:
            parts = {f"{name}.{field.name}": getattr(value, field.name) for field in fields(value)}
            found |= {place: part for place, part in parts.items() if isinstance(part, Tensor)}
    return found


def apart(value: Value, live: Set[int]) -> Value:
    """The value, copied where it lies in memory that training will write to: in one of these storages."""
    if isinstance(value, Tensor):
        return value.clone() if place(value) in live else value
    parts = {name: getattr(value, name) for name in (field.name for field in fields(value))}
    shared = {name: part for name, part in parts.items() if isinstance(part, Tensor) and place(part) in live}
    return replace(value, **{name: part.clone() for name, part in shared.items()}) if shared else value


def place(tensor: Tensor) -> int:
    """Where the tensor's storage lies."""
    return tensor.untyped_storage().data_ptr()
