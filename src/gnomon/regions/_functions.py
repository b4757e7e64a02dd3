"""What functions and methods of tensors do.

Each maker has the signature of its function, so that Python itself binds the arguments, but for torch's `input` and
`other`, which come by their places: data is `Data`, a constant is passed as it is. A result of None says that the
function is not piecewise affine with these arguments.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gnomon.regions._bends import BENDS
from gnomon.regions._layer_functions import LAYERS
from gnomon.regions._operations import (
    Affine,
    Operation,
    PiecewiseLinear,
    Planes,
    as_origin,
    joined,
    moved,
    on_each,
)
from gnomon.regions._recording import Call, Data, Number, Operand, leaves, replaced


def of_call(call: Call, part: int) -> Operation | None:
    """The operation behind one of the results of a call; None if it is not known to be piecewise affine."""
    made = call.results[part]
    if made is None or made.dtype != torch.float64 or call.named.get("out") is not None:
        return None
    first, *others = leaves((call.arguments, call.named))
    if call.name in LINEAR and isinstance(first, Data) and not any(isinstance(other, Data) for other in others):
        # The planes need not lie in memory as the network's data does.
        return _linear_part(replace(call, function=Tensor.reshape) if call.name == "view" else call, part)
    if call.name in PRODUCTS and sum(isinstance(factor, Data) for factor in (first, *others)) == 1:
        # In place, a constant has no room for the planes.
        return _linear_part(replace(call, function=torch.mul) if call.in_place else call, part)
    maker = MAKERS.get(call.name)
    if maker is None:
        return None
    try:
        inspect.signature(maker).bind(*call.arguments, **call.named)
    except TypeError:  # arguments of another function with this name
        return None
    operation = maker(*call.arguments, **call.named)
    return joined(operation) if isinstance(operation, PiecewiseLinear) else operation


def _linear_part(call: Call, part: int) -> Affine:
    """A call that is linear in its only data, or one of its results."""

    def apply(sample: Tensor) -> Tensor:
        given = sample.clone() if call.in_place else sample
        arguments, named = replaced((call.arguments, call.named), lambda v: given if isinstance(v, Data) else v)
        result = call.function(*arguments, **named)
        return result[part] if call.several else result

    return Affine(lambda planes: on_each(apply, planes))


def _jointly(function: Callable[..., Tensor], *operands: Operand) -> Affine:
    """A function that is linear in all of its operands together, some of which are constants."""

    def apply(*planes: Planes) -> Planes:
        given, dtype = iter(planes), planes[0].dtype
        parts = [
            next(given) if isinstance(operand, Data) else as_origin(torch.as_tensor(operand, dtype=dtype), planes[0])
            for operand in operands
        ]
        return on_each(function, *parts)

    return Affine(apply)


def _add(x: Operand, y: Operand, *, alpha: Number = 1) -> Affine:
    """A sum of data, or a shift by a constant."""
    if isinstance(x, Data) and isinstance(y, Data):
        if len(x.shape) == len(y.shape):
            return Affine(lambda left, right: left + alpha * right)
    elif isinstance(x, Data) and not isinstance(y, Data) and _keeps(x, y):
        return Affine(lambda planes: moved(planes, alpha * y))
    elif isinstance(y, Data) and not isinstance(x, Data) and _keeps(y, x):
        return Affine(lambda planes: moved(alpha * planes, x))
    return _jointly(lambda left, right: torch.add(left, right, alpha=alpha), x, y)


def _keeps(x: Data, y: Tensor | Number) -> bool:
    """Whether adding a constant keeps the shape of the data."""
    return not isinstance(y, Tensor) or np.broadcast_shapes(x.shape, y.shape) == x.shape


def _sub(x: Operand, y: Operand, *, alpha: Number = 1) -> Affine:
    """A difference of data, or from a constant."""
    return _add(x, y, alpha=-alpha)


def _rsub(x: Data, y: Tensor | Number, *, alpha: Number = 1) -> Affine:
    """A constant minus data."""
    return _add(y, x, alpha=-alpha)


def _div(x: Data, y: Operand, *, rounding_mode: str | None = None) -> Affine | None:
    """A quotient by a constant."""
    if isinstance(y, Data) or rounding_mode is not None:
        return None
    return Affine(lambda planes: on_each(lambda sample: sample / y, planes))


def _cat(tensors: Sequence[Operand], dim: int = 0) -> Affine:
    """Results side by side."""
    return _jointly(lambda *parts: torch.cat(parts, dim), *tensors)


def _stack(tensors: Sequence[Operand], dim: int = 0) -> Affine:
    """Results side by side, along a new axis."""
    return _jointly(lambda *parts: torch.stack(parts, dim), *tensors)


def _assigned(x: Data | Tensor, index: Any, value: Operand) -> Affine | None:  # noqa: ANN401 - between brackets
    """Some entries replaced by others."""
    if any(isinstance(part, Data) for part in leaves(index)):
        return None

    def assign(sample: Tensor, value: Tensor) -> Tensor:
        changed = sample.clone()
        changed[index] = value
        return changed

    return _jointly(assign, x, value)


def _where(condition: Operand, x: Operand, y: Operand) -> Affine | None:
    """Entries of one or the other, as a constant says; as a method it comes second."""
    if isinstance(x, Tensor) and x.dtype == torch.bool:
        condition, x = x, condition
    if not isinstance(condition, Tensor) or condition.dtype != torch.bool:
        return None
    return _jointly(lambda left, right: torch.where(condition, left, right), x, y)


def _masked_fill(x: Operand, mask: Operand, value: Operand) -> Affine | None:
    """Some entries replaced, as a constant says."""
    return _where(mask, value, x)


def _pad(x: Data, pad: Sequence[int], mode: str = "constant", value: Number | None = None) -> Affine:
    """Padding by a number or by the sample's own entries."""
    padding = list(pad)
    plain = Affine(lambda planes: on_each(lambda sample: functional.pad(sample, padding, mode), planes))
    if not value:
        return plain
    return Affine(
        lambda planes: moved(plain.apply(planes), functional.pad(planes.new_zeros(x.shape), padding, value=value))
    )


def _same(x: Operand, *settings: Any, **named: Any) -> Affine | None:  # noqa: ANN401 - torch's
    """The identity; where it lies in memory and what it is to autograd do not matter."""
    return Affine(lambda planes, *_: planes) if isinstance(x, Data) else None


def _shaped_as(function: Callable[[Tensor, torch.Size], Tensor]) -> Callable[..., Affine]:
    """A function that uses only the shape of its second argument."""
    return lambda x, other: Affine(lambda planes, *_: on_each(lambda sample: function(sample, other.shape), planes))


LINEAR = {
    # Another shape, or some entries.
    *("view", "reshape", "flatten", "unflatten", "ravel", "squeeze", "unsqueeze", "permute", "transpose", "t", "T"),
    *("mT", "swapaxes", "swapdims", "movedim", "moveaxis", "getitem", "narrow", "select", "index_select", "gather"),
    *("chunk", "split", "tensor_split", "unbind", "expand", "broadcast_to", "repeat", "tile", "flip", "roll"),
    *("pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "unfold", "fold"),
    # Sums.
    *("neg", "negative", "mean", "sum", "cumsum", "interpolate", "upsample"),
    *(f"{kind}avg_pool{axes}d" for kind in ("", "adaptive_") for axes in (1, 2, 3)),
}
"""Functions that are linear in their first argument as they stand."""
PRODUCTS = {"mul", "multiply", "matmul", "rmatmul", "mm", "bmm", "mv", "einsum", "tensordot"}
"""Functions that are linear in each of their arguments."""
MAKERS: Mapping[str, Callable[..., Operation | None]] = {
    **BENDS,
    **LAYERS,
    "add": _add,
    **dict.fromkeys(("sub", "subtract"), _sub),
    "rsub": _rsub,
    **dict.fromkeys(("div", "divide", "true_divide"), _div),
    **dict.fromkeys(("cat", "concat", "concatenate"), _cat),
    "stack": _stack,
    "setitem": _assigned,
    "where": _where,
    "masked_fill": _masked_fill,
    "pad": _pad,
    **dict.fromkeys(("contiguous", "clone", "to", "double", "type_as", "detach", "requires_grad", "positive"), _same),
    **dict.fromkeys(("view_as", "reshape_as"), _shaped_as(torch.reshape)),
    "expand_as": _shaped_as(torch.broadcast_to),
}
