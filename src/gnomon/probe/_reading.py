"""What a probe read at one step."""

import sys
from collections.abc import Set
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from gnomon import linalg, measure
from gnomon.autodiff import same
from gnomon.linalg import Estimate

Value = Any
"""A tensor, or a frozen dataclass of tensors."""


@dataclass(frozen=True, eq=False)
class Reading:
    """The quantities at one step.

    Two are equal if step and values are, NaN beside NaN, whatever they cost. `torch.save` writes one, and `torch.load`
    reads it with `weights_only` too, once `gnomon.Reading` has been imported.

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

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reading):
            return NotImplemented
        return self.step == other.step and self.missing == other.missing and equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash((self.step, *self.values))

    def scalars(self) -> dict[str, float]:
        """Plain numbers for a log: the mean, and where there are several values also `.min` and `.max`.

        The tensors of a dataclass go by its name and theirs, as in `mse_decomposition.total`; an estimate by its own
        name, beside its error, as in `jacobian_norm` and `jacobian_norm.error`.
        """
        numbers: dict[str, float] = {}
        for name, value in tensors(self.values).items():
            value = value.detach().double()
            numbers[name] = value.mean().item()
            if value.numel() > 1:
                numbers |= {f"{name}.min": value.min().item(), f"{name}.max": value.max().item()}
        return numbers


def equal(one: Value, other: Value) -> bool:
    """Whether two values are the same numbers of one dtype on one device."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and one.device == other.device and same(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(value, other[name]) for name, value in one.items())
    if is_dataclass(one):
        return all(equal(getattr(one, part.name), getattr(other, part.name)) for part in fields(one))
    return bool(one == other)


def tensors(values: dict[str, Value]) -> dict[str, Tensor]:
    """All tensors by name, those of dataclasses among them."""
    found: dict[str, Tensor] = {}
    for name, value in values.items():
        if isinstance(value, Tensor):
            found[name] = value
        else:
            parts = {f"{name}.{field.name}": getattr(value, field.name) for field in fields(value)}
            if isinstance(value, Estimate):
                parts = {name: value.value, f"{name}.error": value.error}
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


def kinds_of_values() -> list[type]:
    """The dataclasses that gnomon's quantities return: they hold numbers, and do nothing as they are loaded."""
    places = (linalg, *(sys.modules[quantity.__module__] for quantity in vars(measure).values() if callable(quantity)))
    found = {kind for place in places for kind in vars(place).values() if isinstance(kind, type) and is_dataclass(kind)}
    return [kind for kind in found if kind.__module__.startswith(("gnomon.measure", "gnomon.linalg"))]


torch.serialization.add_safe_globals([Reading, *kinds_of_values()])
