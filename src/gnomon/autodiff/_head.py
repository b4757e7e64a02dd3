"""The final linear layer of a network, or several: found by what the forward pass computes, not by its place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gnomon import _checks
from gnomon.autodiff._layers import layer_named, modules_of
from gnomon.autodiff._linear_map import (
    LinearMap,
    follow,
    has_weight,
    linear_map,
    map_of,
    matrices,
    rows_of,
    side_by_side,
)
from gnomon.autodiff._positions import Positions
from gnomon.autodiff._run import Model, outputs_of, uncompiled
from gnomon.autodiff._tape import Call, Tape, recording
from gnomon.errors import ShapeError, UnsupportedModuleError

MOST = 8
"""The most layers that are tried together."""


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
    elsewhere, or next to others like it, is found; one whose hooks or own forward do more is not. If no single layer
    qualifies, it may be the layers called last, added up or averaged. Named layers are used even if further operations
    follow them. If a network is read at several `positions`, each is a row.

    Raises:
        UnsupportedModuleError: if there is none; if a named layer does not output logits, or is not called.
        RangeError: if there is no layer with one of the names.
    """
    modules = modules_of(model)
    layers = {name: layer_named(model, name) for name in names} or {
        name: module for name, module in modules.items() if any(True for _ in matrices(module))
    }
    if not layers:
        raise UnsupportedModuleError(
            "model",
            "a network with a linear layer at its end",
            f"{type(model).__name__} without one",
            "Name the layer whose input is meant.",
        )
    calls: list[tuple[Call, object]] = []
    two = x[:2].clone() if len(x) > 1 else torch.cat([x, x])  # which the network may change in place
    with torch.no_grad(), uncompiled(), recording(layers, lambda call, output: calls.append((call, output))):
        logits = outputs_of(model(two), two)
    if positions is not None:
        logits, calls = positions.split(logits), [at_rows(call, output, positions) for call, output in calls]
    if names:
        return _of_named(layers, [call for call, _ in calls], logits)
    # Complete networks also have parameters of the right shape: they come after layers with a weight of their own.
    for call in sorted((call for call, _ in reversed(calls)), key=lambda call: not has_weight(call.module)):
        found = linear_map(call.module, call.x, logits)
        if found is not None:
            return _head_of({call.module: found}, found)
    head = _of_several(calls, logits)
    if head is None:
        raise no_head()
    return head


def at_rows(call: Call, output: object, positions: Positions) -> tuple[Call, object]:
    """A call as if each position were a sample, as far as input and output have positions."""
    rows = positions.of_layer(output) if isinstance(output, Tensor) else None
    given = positions.of_layer(call.x)
    return call if given is None else replace(call, x=given), output if rows is None else rows


def features_in(
    tape: Tape, watched: Sequence[str], head: Head | None, positions: Positions | None
) -> Float[Tensor, "n *p"]:
    """The input of the layer watched under this name; for a head, the features from which the logits follow.

    Raises:
        UnsupportedModuleError: if the pass did not reach the layer, or changed its input in place, or if a head did not
            output the logits.
        ShapeError: if the layer's input does not have a row for each sample, or for each position that is read.
    """
    seen: list[list[Tensor]] = []
    for name in watched:
        calls = [call for call in tape.calls if call.name == name]
        if not calls:
            raise not_called()
        # A single sample was run together with a copy of itself.
        if head is None:
            _require_input_of_samples(calls[-1], max(2, len(tape.x)) if positions is None else None)
        seen.append([call.x[: len(call.x) // 2] if len(tape.x) == 1 else call.x for call in calls])
    logits = tape.logits
    if positions is not None:
        logits, seen = positions.split(logits), [[_rows(given, positions) for given in each] for each in seen]
    features = seen[0][-1] if head is None else _followed(logits, head, seen)
    return features if tape.create_graph else features.detach()


def _require_input_of_samples(call: Call, samples: int | None) -> None:
    """Raises unless the call's input is still what it was, with one row for each of so many samples, if given."""
    if call.changed:
        raise UnsupportedModuleError(
            "layer",
            "a layer whose input the network leaves as it is",
            "one whose input is changed in place",
            "Name another, or set inplace=False.",
        )
    if samples is not None and len(call.x) != samples:
        raise ShapeError(
            "layer",
            f"a layer whose input has one row for each of {samples} samples",
            f"one of shape {_checks.shape_of(call.x)}",
            "Name another, or the positions that are read.",
        )


def _rows(given: Tensor, positions: Positions) -> Float[Tensor, "n p"]:
    """The input of a layer, one row for each position that is read."""
    rows = positions.of_layer(given)
    if rows is None:
        expected = "a layer that is given what has the positions of the outputs"
        got = f"shape {_checks.shape_of(given)}"
        raise ShapeError("layers", expected, got, "Name one that is called at each position.")
    return rows


def _followed(logits: Float[Tensor, "n c"], head: Head, seen: Sequence[Sequence[Tensor]]) -> Float[Tensor, "n p"]:
    """The part of the layers' inputs from which the logits follow."""
    if head.exact and len(head.layers) == 1:
        for given in reversed(seen[0]):
            found = linear_map(head.layers[0], given[: len(logits)], logits)
            if found is not None:
                return found.features
        raise no_head()
    rows = [next(rows_of(given[-1][: len(logits)], width)) for given, width in zip(seen, head.widths, strict=True)]
    features = torch.cat(rows, dim=1)
    if head.exact and not follow(logits, LinearMap(features, head.weight, head.bias)):
        raise no_head()
    return features


def _of_named(layers: Mapping[str, nn.Module], calls: Sequence[Call], logits: Float[Tensor, "n c"]) -> Head:
    """The head made up of the named layers."""
    latest = {call.module: call.x for call in calls}
    maps: dict[nn.Module, LinearMap] = {}
    for name, layer in layers.items():
        if layer not in latest:
            raise not_called()
        found = linear_map(layer, latest[layer], logits) or map_of(layer, latest[layer], logits.shape[1])
        if found is None:
            raise UnsupportedModuleError(
                "head",
                f"layers with a weight of {logits.shape[1]} rows, as many as there are outputs",
                f"{name!r}, a {type(layer).__name__}",
                "Name those from which the logits come.",
            )
        maps[layer] = found
    head = _joint(maps, logits) or _head_of(maps, side_by_side([*maps.values()], 1.0))
    rows = [next(rows_of(latest[layer], width)) for layer, width in zip(head.layers, head.widths, strict=True)]
    pairs = zip(rows, (found.features for found in maps.values()), strict=True)
    told = not all(torch.allclose(row, features, 0, 0, equal_nan=True) for row, features in pairs)
    return replace(head, exact=told)


def _of_several(calls: Sequence[tuple[Call, object]], logits: Float[Tensor, "n c"]) -> Head | None:
    """The layers called last whose outputs, added up or averaged, are the logits."""
    maps: dict[nn.Module, LinearMap] = {}
    for call, output in reversed(calls):
        if has_weight(call.module) and isinstance(output, Tensor) and output.shape == logits.shape:
            found = linear_map(call.module, call.x, output)
            if found is not None and call.module not in maps:
                maps = {call.module: found, **maps}
                if len(maps) > 1 and (head := _joint(maps, logits)):
                    return head
        if len(maps) == MOST:
            break
    return None


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
        "one that continues after it",
        "Name the layer whose input is meant, or the layers from which the logits come as the head.",
    )
