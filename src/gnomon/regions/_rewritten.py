"""Functions that bend in their own way, written in terms of functions that can be read."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional


def _maximum(x: Tensor, y: Tensor) -> Tensor:
    """The larger of two tensors; not as a sum of a ReLU, in which a large one absorbs the other."""
    shape = np.broadcast_shapes(x.shape, y.shape)
    return _amax(torch.stack([x.broadcast_to(shape), y.broadcast_to(shape)], -1), -1)


def _minimum(x: Tensor, y: Tensor) -> Tensor:
    """The smaller of two tensors."""
    return -_maximum(-x, -y)


def _amax(x: Tensor, dim: int | Sequence[int] = (), keepdim: bool = False) -> Tensor:
    """The largest entries along axes."""
    axes = sorted(axis % x.ndim for axis in ([dim] if isinstance(dim, int) else dim or range(x.ndim)))
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    ends = [x.shape[axis] for axis in kept]
    columns = x.permute(*kept, *axes).reshape(1, prod(ends), prod(x.shape[axis] for axis in axes))
    largest = functional.max_pool1d(columns, columns.shape[2])
    return largest.reshape([1 if axis in axes else x.shape[axis] for axis in range(x.ndim)] if keepdim else ends)


def _amin(x: Tensor, dim: int | Sequence[int] = (), keepdim: bool = False) -> Tensor:
    """The smallest entries along axes."""
    return -_amax(-x, dim, keepdim)


def _max(x: Tensor, dim: int | Tensor | None = None, keepdim: bool = False) -> Tensor | tuple[Tensor, ...]:
    """The largest entry, or those along an axis and where they are, or the larger of two tensors."""
    if isinstance(dim, int):
        return torch.return_types.max((_amax(x, dim, keepdim), x.argmax(dim, keepdim)))
    return _amax(x) if dim is None else _maximum(x, dim)


def _min(x: Tensor, dim: int | Tensor | None = None, keepdim: bool = False) -> Tensor | tuple[Tensor, ...]:
    """The smallest entry, or those along an axis and where they are, or the smaller of two tensors."""
    if isinstance(dim, int):
        return torch.return_types.min((_amin(x, dim, keepdim), x.argmin(dim, keepdim)))
    return _amin(x) if dim is None else _minimum(x, dim)


REWRITTEN: dict[str, Callable[..., Any]] = {
    "maximum": _maximum,
    "minimum": _minimum,
    "amax": _amax,
    "amin": _amin,
    "max": _max,
    "min": _min,
    "data": Tensor.detach,  # which, unlike it, counts changes together with its tensor
}
