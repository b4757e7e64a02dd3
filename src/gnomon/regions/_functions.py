"""What functions and methods of tensors do.

Each maker has the signature of its function, so that Python itself sorts the arguments: data is a node of the traced
graph, a constant is what it is. None says that the function is not piecewise affine with these arguments.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node
from torch.nn import functional

from gnomon.regions._operations import (
    Affine,
    Maximum,
    Operation,
    PiecewiseLinear,
    clipped,
    moved,
    on_samples,
    with_bias,
)
from gnomon.regions._windows import PerAxis, Window

Number = float | int
Operand = Node | Tensor | Number
"""Data, or a constant."""
BATCH = object()
"""Stands for the number of samples among the arguments, as in `x.view(x.size(0), -1)`."""


def of_function(
    function: Callable[..., Tensor], name: str, arguments: Sequence[Any], named: Mapping[str, Any]
) -> Operation | None:
    """What a function or a method of tensors does; None if it is not known to be piecewise affine."""
    if name in LINEAR and not any(isinstance(argument, Node) for argument in (*arguments[1:], *named.values())):
        return _linear_map(lambda samples: function(samples, *arguments[1:], **named))
    make = MAKERS.get(name)
    if make is None:
        return None
    try:
        inspect.signature(make).bind(*arguments, **named)
    except TypeError:  # an argument such as `out`
        return None
    return make(*arguments, **named)


def _linear_map(function: Callable[[Tensor], Tensor]) -> Affine:
    """A linear function of samples."""
    return Affine(lambda planes: on_samples(function, planes))


def _add(x: Operand, y: Operand, *, alpha: Number = 1) -> Operation:
    """A sum of data, or a shift by a constant."""
    if not isinstance(x, Node):
        return Affine(lambda planes: moved(alpha * planes, x))
    if not isinstance(y, Node):
        return Affine(lambda planes: moved(planes, alpha * y))
    return Affine(lambda left, right: left + alpha * right)


def _sub(x: Operand, y: Operand, *, alpha: Number = 1) -> Operation:
    """A difference of data, or from a constant."""
    return _add(x, y, alpha=-alpha)


def _mul(x: Operand, y: Operand) -> Operation | None:
    """A product with a constant."""
    if not isinstance(x, Node):
        return _linear_map(lambda samples: samples * x)
    return None if isinstance(y, Node) else _linear_map(lambda samples: samples * y)


def _div(x: Operand, y: Operand) -> Operation | None:
    """A quotient by a constant."""
    return None if isinstance(y, Node) else _linear_map(lambda samples: samples / y)


def _linear(x: Operand, weight: Operand, bias: Operand | None = None) -> Operation | None:
    """A constant matrix and a constant bias."""
    if not isinstance(weight, Tensor) or isinstance(bias, Node | float | int):
        return None
    return Affine(lambda planes: with_bias(functional.linear(planes, weight), bias, 0))


def _matmul(x: Operand, y: Operand) -> Operation | None:
    """A product with a constant matrix on the right."""
    return _linear_map(lambda samples: samples @ y) if isinstance(y, Tensor) else None


def _cat(tensors: Sequence[Operand], dim: int = 0) -> Operation | None:
    """Results side by side, in any axis but that of the samples."""
    if dim < -1 or dim == 0 or not all(isinstance(part, Node) for part in tensors):
        return None
    return Affine(lambda *planes: torch.cat(planes, dim if dim < 0 else dim + 1))


def _reshape(x: Node, *shape: Any) -> Operation | None:  # noqa: ANN401 - sizes, apart or in a tuple
    """Another shape of each sample."""
    sizes = shape[0] if isinstance(shape[0], tuple | list) else shape
    if sizes[0] is not BATCH and sizes[0] != -1:
        return None
    return _linear_map(lambda samples: samples.reshape([len(samples) if size is BATCH else size for size in sizes]))


def _getitem(x: Node, index: Any) -> Operation | None:  # noqa: ANN401 - whatever stands between brackets
    """Some entries of each sample."""
    whole = isinstance(index, tuple) and index[0] == slice(None)
    return _linear_map(lambda samples: samples[index]) if whole else None


def _pad(x: Node, pad: Sequence[int], mode: str = "constant", value: Number | None = None) -> Operation | None:
    """Padding by zeros or by the sample's own entries."""
    return None if value else _linear_map(lambda samples: functional.pad(samples, list(pad), mode))


def _dropout(x: Node, p: Number = 0.5, training: bool = True, inplace: bool = False) -> Operation | None:
    """Nothing, in eval mode."""
    return None if training else Affine(lambda planes: planes)


def _max_pool(
    x: Node,
    kernel_size: PerAxis,
    stride: PerAxis | None = None,
    padding: PerAxis = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Operation | None:
    """The maximum over windows."""
    return None if return_indices else Maximum(Window(kernel_size, stride or kernel_size, padding, dilation, ceil_mode))


def _relu(x: Node, inplace: bool = False) -> Operation:
    """The positive part."""
    return PiecewiseLinear()


def _leaky_relu(x: Node, negative_slope: Number = 0.01, inplace: bool = False) -> Operation:
    """ReLU with a slope on its left."""
    return PiecewiseLinear(slopes=(negative_slope, 1.0))


def _prelu(x: Node, weight: Tensor) -> Operation:
    """ReLU with a slope on its left that was learnt, one for all entries or one a channel."""
    return PiecewiseLinear(slopes=(weight, 1.0))


def _hardtanh(x: Node, min_val: Number = -1.0, max_val: Number = 1.0, inplace: bool = False) -> Operation:
    """Straight between two numbers."""
    return clipped(min_val, max_val)


def _relu6(x: Node, inplace: bool = False) -> Operation:
    """Straight between 0 and 6."""
    return clipped(0.0, 6.0)


def _clamp(x: Node, min: Tensor | Number | None = None, max: Tensor | Number | None = None) -> Operation | None:
    """Straight between two numbers, either of which may be missing."""
    return None if isinstance(min, Tensor) or isinstance(max, Tensor) else clipped(min, max)


def _absolute(x: Node) -> Operation:
    """The absolute value."""
    return PiecewiseLinear(slopes=(-1.0, 1.0))


LINEAR = {
    *("avg_pool1d", "avg_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "neg", "mean", "sum", "flatten"),
    *("unflatten", "squeeze", "unsqueeze", "permute", "transpose", "contiguous", "clone"),
}
"""Functions that are linear in their first argument as they stand."""

MAKERS: dict[str, Callable[..., Operation | None]] = {
    **dict.fromkeys(("add", "add_", "iadd"), _add),
    **dict.fromkeys(("sub", "sub_", "isub", "subtract"), _sub),
    **dict.fromkeys(("mul", "mul_", "imul", "multiply"), _mul),
    **dict.fromkeys(("div", "div_", "truediv", "itruediv", "divide"), _div),
    "linear": _linear,
    "matmul": _matmul,
    **dict.fromkeys(("cat", "concat"), _cat),
    **dict.fromkeys(("view", "reshape"), _reshape),
    "getitem": _getitem,
    "pad": _pad,
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d"), _dropout),
    **dict.fromkeys(("max_pool1d", "max_pool2d"), _max_pool),
    **dict.fromkeys(("relu", "relu_"), _relu),
    **dict.fromkeys(("leaky_relu", "leaky_relu_"), _leaky_relu),
    "prelu": _prelu,
    **dict.fromkeys(("hardtanh", "hardtanh_"), _hardtanh),
    "relu6": _relu6,
    **dict.fromkeys(("clamp", "clamp_", "clip"), _clamp),
    **dict.fromkeys(("abs", "abs_", "absolute"), _absolute),
}
