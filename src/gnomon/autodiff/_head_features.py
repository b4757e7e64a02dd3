"""The input of layers in a pass, and the features from which the logits follow."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon.autodiff._head import Head, no_head, not_called
from gnomon.autodiff._linear_map import LinearMap, follow, linear_map, mapped, rounded, rows_of
from gnomon.autodiff._positions import Positions
from gnomon.autodiff._tape import Call, Tape
from gnomon.errors import ShapeError, UnsupportedModuleError


def features_in(
    tape: Tape, watched: Sequence[str], head: Head | None, positions: Positions | None
) -> Float[Tensor, "n *p"]:
    """The input of the layer watched under this name; for a head, the features from which the logits follow.

    Raises:
        UnsupportedModuleError: if the pass did not reach the layer, or changed its input in place, or if a head did not
            output the logits.
        ShapeError: if the layer's input does not have a row for each sample, or for each position that is read.
    """
    logits = tape.logits if positions is None else positions.split(tape.logits)
    seen: list[list[Tensor]] = []
    for name in watched:
        calls = [call for call in tape.calls if call.name == name]
        if not calls:
            raise not_called()
        if head is None:
            # A single sample was run together with a copy of itself.
            _require_input_of_samples(calls[-1], max(2, len(tape.x)) if positions is None else None)
        seen.append([_given(call, tape, positions) for call in calls])
        logits = rounded(logits, calls[-1].autocast)
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
            "a layer whose input has one row for each sample",
            f"one of shape {_checks.shape_of(call.x)}",
            "Name another, or the positions that are read.",
        )


def _given(call: Call, tape: Tape, positions: Positions | None) -> Float[Tensor, "n *p"]:
    """What the layer was given in this call, for each sample, or one row for each position that is read."""
    given = call.x[: len(call.x) // 2] if len(tape.x) == 1 else call.x
    if positions is None:
        return given
    rows = positions.of_layer(call.module, given)
    if rows is None:
        expected = "a layer that is given what has the positions of the outputs"
        got = f"shape {_checks.shape_of(given)}"
        advice = "Name one that is called at each position, linear or a convolution if it has as many channels."
        raise ShapeError("layers", expected, got, advice)
    return rows


def _followed(logits: Float[Tensor, "n c"], head: Head, seen: Sequence[Sequence[Tensor]]) -> Float[Tensor, "n p"]:
    """The part of the layers' inputs from which the logits follow."""
    if head.exact and len(head.layers) == 1:
        for given in reversed(seen[0]):
            rows = given[: len(logits)]
            found = linear_map(head.layers[0], rows, logits) or mapped(rows, head.weight, head.bias, logits)
            if found is not None:
                return found.features
        raise no_head()
    inputs = [given[-1][: len(logits)] for given in seen]
    features = torch.cat([next(rows_of(x, width)) for x, width in zip(inputs, head.widths, strict=True)], dim=1)
    if head.exact and not follow(logits, LinearMap(features, head.weight, head.bias)):
        raise no_head()
    return features
