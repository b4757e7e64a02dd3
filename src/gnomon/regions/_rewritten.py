"""Functions that bend in their own way, written in terms of functions that can be read."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from torch import Tensor
from torch.nn import functional


def _maximum(x: Tensor, y: Tensor) -> Tensor:
    """The larger of two tensors."""
    return x + (y - x).relu()


def _minimum(x: Tensor, y: Tensor) -> Tensor:
    """The smaller of two tensors."""
    return x - (x - y).relu()


def _amax(x: Tensor, dim: int | Sequence[int] = (), keepdim: bool = False) -> Tensor:
    """The largest entries along axes."""
    axes = sorted(axis % x.ndim for axis in ([dim] if isinstance(dim, int) else dim or range(x.ndim)))
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    ends = [x.shape[axis] for axis in kept]
    columns = x.permute(*kept, *axes).reshape(1, prod(ends), prod(x.shape[axis] for axis in axes))
    largest = functional.max_pool1d(columns, columns.shape[2])
    return largest.reshape([1 if axis in axes else x.shape[axis] for axis in range(x.ndim)] if keepdim else ends)


REWRITTEN: dict[str, Callable[..., Any]] = {
    "maximum": _maximum,
    "minimum": _minimum,
    "amax": _amax,
    "data": Tensor.detach,  # which, unlike it, counts changes together with its tensor
}
