"""The final linear layer of a network, or several: found by what the forward pass computes, not by its place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gnomon.autodiff._affine_map import affine_map, repeated, widths
from gnomon.autodiff._layers import layer_named, modules_of, same
from gnomon.autodiff._linear_map import (
    LinearMap,
    follow,
    has_weight,
    linear_map,
    mapped,
    matrices,
    rounded,
    rows_of,
    side_by_side,
)
from gnomon.autodiff._positions import Positions
from gnomon.autodiff._run import Model, outputs_of, uncompiled
from gnomon.autodiff._tape import Call, recording
from gnomon.errors import UnsupportedModuleError

MOST = 8
"""The most layers that are tried together."""
Calls = Sequence[tuple[Call, object]]
"""Calls of modules, each with its output before the module's hooks."""


@dataclass(frozen=True)
class Head:
    """The layer that produces the logits, or several that are added up or averaged, and their joint linear map.

    Attributes:
        layers: the layers, in the order in which they are called, or named.
        widths: the number of features of each.
        weight: the weights of all layers side by side, from the latest pass and without a graph; likewise the bias.
        bias: None if there is none.
        exact: whether all logits have to follow from these layers; named layers' need not, except where the logits tell
            which row of a layer's input is each sample's.
    """

    layers: tuple[nn.Module, ...]
    widths: tuple[int, ...]
    weight: Float[Tensor, "c p"]
    bias: Float[Tensor, "c"] | None
    exact: bool = True


def linear_head(
    model: Model, x: Shaped[Tensor, "n *d"], names: Sequence[str] = (), positions: Positions | None = None
) -> Head:
    """The layers from whose inputs, weights and biases the logits follow: linear, convolving single pixels, or others.

    The search compares numbers in a pass over two samples, starting from the layer called last: a layer registered
    elsewhere, or next to others like it, is found; one whose outputs are processed further is not. If no single layer
    qualifies by its own weight, it may be a module that computes an affine map by several, such as a layer with an
    adapter, or one with a hook; or the layers called last, added up or averaged. Named layers are used even if further
    operations follow them. If a network is read at several `positions`, each is a row.

    Raises:
        UnsupportedModuleError: if there is none; if a named layer is not called, or is not an affine map with as many
            outputs as there are logits; if of several layers one's input is a linear map of another's.
        RangeError: if there is no layer with one of the names.
    """
    modules = modules_of(model)
    candidates = {name: module for name, module in modules.items() if any(True for _ in matrices(module))}
    layers = {name: layer_named(model, name) for name in names} or candidates
    if not layers:
        raise UnsupportedModuleError(
            "model",
            "a network with a linear layer at its end",
            f"{type(model).__name__} without one",
            "Name the layer whose input is meant.",
        )
    calls: list[tuple[Call, object]] = []
    start = x[:2] if len(x) > 1 else torch.cat([x, x])
    two = start.clone()  # which the network may change in place
    with torch.no_grad(), uncompiled():
        with recording(candidates | layers, lambda call, output: calls.append((call, output))):
            logits = outputs_of(model(two), two)
        rows = calls
        if positions is not None:
            logits, rows = positions.split(logits), [at_rows(call, output, positions) for call, output in calls]
        if names:
            return _of_named(layers, calls, rows, logits)
        head = _of_one(rows, logits) or _of_a_module(calls, rows, logits, start) or _of_several(calls, rows, logits)
    if head is None:
        raise no_head()
    return head


def at_rows(call: Call, output: object, positions: Positions) -> tuple[Call, object]:
    """A call as if each position were a sample, as far as input and output have positions."""
    rows = positions.of_layer(call.module, output) if isinstance(output, Tensor) else None
    given = positions.of_layer(call.module, call.x)
    return call if given is None else replace(call, x=given), output if rows is None else rows


def _of_named(layers: Mapping[str, nn.Module], calls: Calls, rows: Calls, logits: Float[Tensor, "n c"]) -> Head:
    """The head made up of the named layers."""
    latest = {call.module: (call, output, row.x) for (call, output), (row, _) in zip(calls, rows, strict=True)}
    maps: dict[nn.Module, LinearMap] = {}
    for name, layer in layers.items():
        if layer not in latest:
            raise not_called()
        call, output, given = latest[layer]
        logits = rounded(logits, call.autocast)
        maps[layer] = linear_map(layer, given, logits) or _whatever_follows(name, call, output, given, logits)
    _require_apart(layers, calls, "head")
    head = _joint(maps, logits) or _head_of(maps, side_by_side([*maps.values()], 1.0))
    firsts = [next(rows_of(latest[layer][2], width)) for layer, width in zip(head.layers, head.widths, strict=True)]
    pairs = zip(firsts, (found.features for found in maps.values()), strict=True)
    told = not all(torch.allclose(row, features, 0, 0, equal_nan=True) for row, features in pairs)
    return replace(head, exact=told)


def _whatever_follows(name: str, call: Call, output: object, given: Tensor, logits: Float[Tensor, "n c"]) -> LinearMap:
    """The map that the named layer computes, from the features in its input, whatever follows it."""
    classes = logits.shape[1]
    found = affine_map(call, repeated(call, output))
    if found is None and any(classes in matrix.shape for matrix in matrices(call.module)):
        raise UnsupportedModuleError(
            "head",
            "layers that multiply their input by a weight and add at most a bias",
            f"{name!r}, a {type(call.module).__name__}, which does something else",
            "Do that in a module before or after it, or name it in layers, to read its input alone.",
        )
    if found is not None and len(found.weight) == classes:
        at_place = mapped(given, found.weight, found.bias, logits)
        for features in rows_of(given, found.weight.shape[1]):
            return at_place or replace(found, features=features)
    raise UnsupportedModuleError(
        "head",
        f"layers with a weight of {classes} rows, as many as there are outputs",
        f"{name!r}, a {type(call.module).__name__}",
        "Name those from which the logits come.",
    )


def _of_one(rows: Calls, logits: Float[Tensor, "n c"]) -> Head | None:
    """The layer called last by whose own weight and bias the logits follow."""
    # Complete networks also have parameters of the right shape: they come after layers with a weight of their own.
    for call in sorted((call for call, _ in reversed(rows)), key=lambda call: not has_weight(call.module)):
        found = linear_map(call.module, call.x, rounded(logits, call.autocast))
        if found is not None:
            return _head_of({call.module: found}, found)
    return None


def _of_a_module(calls: Calls, rows: Calls, logits: Float[Tensor, "n c"], start: Tensor) -> Head | None:
    """The smallest module that maps its input to the logits, with all that is in it and its hooks do.

    What the samples enter is a network rather than its head, even if it is linear.
    """
    for (call, output), (row, _) in zip(calls, rows, strict=True):
        if call.alone and logits.shape[1] in widths(call.x, output) and not same(call.x, start):
            by = affine_map(call, repeated(call, output))
            if by is None or len(by.weight) != logits.shape[1]:  # a row has as many entries along another axis
                continue
            found = mapped(row.x, by.weight, by.bias, rounded(logits, call.autocast))
            if found is not None:
                return _head_of({call.module: found}, found)
    return None


def _of_several(calls: Calls, rows: Calls, logits: Float[Tensor, "n c"]) -> Head | None:
    """The layers called last whose outputs, added up or averaged, are the logits."""
    maps: dict[nn.Module, LinearMap] = {}
    for call, output in reversed(rows):
        if has_weight(call.module) and isinstance(output, Tensor) and output.shape == logits.shape:
            found = linear_map(call.module, call.x, output)
            if found is not None and call.module not in maps:
                maps = {call.module: found, **maps}
                if len(maps) > 1 and (head := _joint(maps, rounded(logits, call.autocast))):
                    _require_apart({call.name: call.module for call, _ in calls if call.module in maps}, calls, "model")
                    return head
        if len(maps) == MOST:
            break
    return None


def _require_apart(layers: Mapping[str, nn.Module], calls: Calls, argument: str) -> None:
    """Raises if the input of one of these layers is that of another, or comes from it by the affine maps of layers.

    Together they are then a single map, as a layer and an adapter are, not one of their inputs side by side.
    """
    given = {call.module: call.x for call, _ in calls}
    for first, layer in layers.items():
        reached = [given[layer]]
        for call, output in calls:
            if isinstance(output, Tensor) and any(_one(call.x, each) for each in reached) and affine_map(call, output):
                reached.append(output)
        for second, other in layers.items():
            if other is not layer and any(_one(given[other], each) for each in reached):
                raise UnsupportedModuleError(
                    argument,
                    "added layers, none given a linear map of what another is given",
                    f"{first!r} and {second!r}, which together are one map",
                    "Add them up in a module, and name that as the head if it is not found.",
                )


def _one(one: Tensor, other: Tensor) -> bool:
    """Whether the two are one tensor in memory: equal ones may come from different places."""
    in_one_place = one.data_ptr() == other.data_ptr() and one.stride() == other.stride()
    return in_one_place and same(one, other)  # a tensor without memory of its own, as a subclass, is at 0


def _joint(maps: Mapping[nn.Module, LinearMap], logits: Float[Tensor, "n c"]) -> Head | None:
    """The head made up of all these layers, if the logits are their sum or mean."""
    for share in (1.0, 1 / len(maps)):
        together = side_by_side([*maps.values()], share)
        if follow(logits, together):
            return _head_of(maps, together)
    return None


def _head_of(maps: Mapping[nn.Module, LinearMap], together: LinearMap) -> Head:
    """The head made up of these layers, with their joint map."""
    widths = tuple(each.weight.shape[1] for each in maps.values())
    bias = None if together.bias is None else together.bias.detach()
    return Head(tuple(maps), widths, together.weight.detach(), bias)


def not_called() -> UnsupportedModuleError:
    """The error for a layer that a pass does not reach."""
    return UnsupportedModuleError(
        "layer", "a layer that the forward pass calls", "one that it does not", "Choose another."
    )


def no_head() -> UnsupportedModuleError:
    """The error for a network in which no layer outputs the logits."""
    return UnsupportedModuleError(
        "model",
        "a network whose final linear layer outputs the logits",
        "one in which no linear layer does, for all samples",
        "Name the layer whose input is meant, or the layers from which the logits come as the head; if they come from a"
        " weight without a layer, as by F.linear, multiply by it in a module.",
    )
