"""Tensors and readings as the numbers that are drawn."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from torch import Tensor

from gnomon.errors import ArgumentTypeError, EmptyError, RangeError
from gnomon.linalg import Estimate
from gnomon.plot._drawn import Read

Numbers = npt.NDArray[np.float64]
T = TypeVar("T")


def require(kind: type, expected: str, advice: str, **things: object) -> None:
    """Raises ArgumentTypeError unless all are of this kind."""
    for name, thing in things.items():
        if not isinstance(thing, kind):
            raise ArgumentTypeError(name, expected, type(thing).__name__, advice)


def tensors(**things: object) -> None:
    """Raises ArgumentTypeError unless all are tensors."""
    require(Tensor, "a tensor", "Make one of it.", **things)


def numbers(tensor: Tensor) -> Numbers:
    """A copy in NumPy, float64."""
    return tensor.detach().cpu().double().numpy()


def by_name(things: T | Mapping[str, T]) -> Mapping[str, T]:
    """Several things by name, or one without a name."""
    return {str(name): thing for name, thing in things.items()} if isinstance(things, Mapping) else {"": things}


def value_of(reading: Read, quantity: str) -> Numbers:
    """All numbers of a quantity, or of one part of it, such as `mse_decomposition.total`, in one row."""
    value = _found(reading.values, quantity)
    if value is None and any(quantity.startswith(f"{name}.") for name in reading.missing):
        return np.array([math.nan])
    if isinstance(value, Estimate):
        value = value.value
    if not isinstance(value, Tensor):
        there = ", ".join(name for name in reading.scalars() if not name.endswith((".min", ".max")))
        raise RangeError("quantity", f"one of {there}", repr(quantity), "Ask the probe for it.")
    return numbers(value).reshape(-1)


def _found(values: Mapping[str, Any], name: str) -> object:
    """The value of this name, or the part of a dataclass among them; None if there is none."""
    if name in values:
        return values[name]
    owner, _, part = name.rpartition(".")
    whole = _found(values, owner) if owner else None
    parts = [field.name for field in fields(whole)] if is_dataclass(whole) else []
    return getattr(whole, part) if part in parts else None


def in_order(readings: Sequence[Read], run: str) -> Sequence[Read]:
    """The readings of a run by step.

    Raises:
        ArgumentTypeError: if they are not readings.
        EmptyError: if there are none.
    """
    require(Iterable, "a History, or a list of readings", "Pass probe.history.", readings=readings)
    for reading in readings:
        require(Read, "readings", "Pass what probe.read returned.", readings=reading)
    if not readings:
        raise EmptyError("readings", "at least one reading", f"none of {run!r}" if run else "none", "Read the probe.")
    return sorted(readings, key=lambda reading: reading.step)


def spread(values: Numbers) -> tuple[float, float, float]:
    """The mean, and the quartiles, between which the middle half lies; NaN where nothing was measured."""
    if not np.isfinite(values).all():
        return math.nan, math.nan, math.nan
    low, high = np.quantile(values, [0.25, 0.75])
    return float(values.mean()), float(low), float(high)
