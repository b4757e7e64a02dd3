"""The affine map that a module computes, whatever it is made of: found by what it does, from numbers."""

from collections.abc import Iterator
from contextlib import nullcontext

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon.autodiff._linear_map import LinearMap, follow, linear_map, rounded
from gnomon.autodiff._tape import Call


def repeated(call: Call, output: object) -> object:
    """What the module makes of its input with all that its hooks do; this output if it was passed something else."""
    return _called(call, call.x.clone()) if call.alone else output


def affine_map(call: Call, output: object) -> LinearMap | None:
    """The map by which the module computes this output from its input, or each row of it from that of its input.

    Its own weight and bias; or, as for a layer beside which there is an adapter, what it makes of the basis vectors.
    None if the output does not follow.
    """
    if not isinstance(output, Tensor) or not call.x.is_floating_point():
        return None
    output = rounded(output, call.autocast)
    if output.ndim == 2 and (own := linear_map(call.module, call.x, output)):
        return own
    for axis in _axes(call.x, output):
        rows, results = call.x.movedim(axis, -1), output.movedim(axis, -1).flatten(0, -2)
        found = linear_map(call.module, rows.flatten(0, -2), results)
        if found is None and call.alone:
            found = _of_basis(call, rows, axis)
        if found is not None and follow(results, found):
            return found
    return None


def widths(given: Tensor, output: object) -> list[int]:
    """The numbers of entries that a row of the output may have, if it has a row for each of the input's."""
    return [output.shape[axis] for axis in _axes(given, output)] if isinstance(output, Tensor) else []


def _axes(given: Tensor, output: Tensor) -> Iterator[int]:
    """The axes along which the entries of a row may lie."""
    if 1 < output.ndim == given.ndim:
        for axis in dict.fromkeys((given.ndim - 1, 1)):
            if given.movedim(axis, -1).shape[:-1] == output.movedim(axis, -1).shape[:-1]:
                yield axis


def _called(call: Call, x: Tensor) -> object:
    """What the module makes of this input, under autocast if the call was."""
    with nullcontext() if call.autocast is None else torch.autocast(x.device.type, call.autocast):
        return call.module(x)


def _of_basis(call: Call, rows: Float[Tensor, "n *t p"], axis: int) -> LinearMap | None:
    """The map of these rows that agrees with the module at 0 and at the basis vectors, which lie one at a position."""
    *positions, width = rows.shape[1:]
    count = rows[0, ..., 0].numel()
    samples = max(2, width // count + 1)
    basis = rows.new_zeros(samples * count, width).fill_diagonal_(1)
    output = _called(call, basis.view(samples, *positions, width).movedim(-1, axis).contiguous())
    if not isinstance(output, Tensor) or output.ndim != rows.ndim:
        return None
    results = output.movedim(axis, -1).flatten(0, -2)
    if len(results) != len(basis):
        return None
    bias = results[width]
    return LinearMap(rows.flatten(0, -2), (results[:width] - bias).mT, bias if bias.any() else None)
