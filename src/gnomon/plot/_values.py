"""Tensors as the numbers that are drawn."""

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from torch import Tensor

from gnomon.errors import ArgumentTypeError

Numbers = npt.NDArray[np.float64]
T = TypeVar("T")


def require(kind: type, expected: str, advice: str, **things: object) -> None:
    """Raises ArgumentTypeError unless all are of this kind."""
    for name, thing in things.items():
        if not isinstance(thing, kind):
            raise ArgumentTypeError(name, expected, type(thing).__name__, advice)


def tensors(**things: object) -> None:
    """Raises ArgumentTypeError unless all are tensors."""
    require(Tensor, "a tensor", "Convert it to a tensor.", **things)


def numbers(tensor: Tensor) -> Numbers:
    """A copy in NumPy, float64."""
    return tensor.detach().cpu().double().numpy()


def by_name(things: T | Mapping[str, T]) -> Mapping[str, T]:
    """Several things by name, or one without a name."""
    return {str(name): thing for name, thing in things.items()} if isinstance(things, Mapping) else {"": things}
