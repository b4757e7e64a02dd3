"""Layers with weights, one after the other: their order, and what each computes with another weight than its own."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from gnomon import _checks
from gnomon.autodiff._independence import require_one_function, require_samples_in_order
from gnomon.autodiff._layers import named_weights, weight_of
from gnomon.autodiff._memory import chunk_size
from gnomon.autodiff._run import run, uncompiled
from gnomon.autodiff._tape import Call, Tape, forward, recording, uses_of
from gnomon.errors import ShapeError, UnsupportedModuleError

See = Callable[[slice, str | None, Tensor, Tensor], None]
"""Called with the slice of some samples, and a layer's name, its input and its output at them."""


def weight_path(
    model: nn.Module, x: Float[Tensor, "n *d"], layers: str | Sequence[str] | None
) -> tuple[dict[str, nn.Module], Float[Tensor, "_ c"]]:
    """The linear layers and convolutions with these names, or all, in the order of a pass, and outputs of that pass.

    Raises:
        UnsupportedModuleError: if a layer is not one of these, is not called once, is complex, does not lead to
            the next, if samples mix, or if random numbers change the outputs.
        ShapeError: if a layer's input does not have one row per sample.
        RangeError: if there is no layer with one of the names.
        EmptyError: if there are none.
    """
    named = named_weights(model, layers)
    require_one_function(model, x)
    require_samples_in_order(model, x, named.values(), "layers")
    tape = forward(model, x[:2].detach(), named)
    _require_path(tape, named)
    for call in tape.calls:
        _require_rows(call, 2)
    return {call.name: call.module for call in tape.calls}, tape.logits.detach()


def show_layers(
    model: nn.Module,
    x: Float[Tensor, "n *d"],
    layers: Mapping[str, nn.Module],
    see: See,
    *,
    memory: int | None,
) -> None:
    """Shows the input and output of each layer at all samples, in chunks and without a graph, and keeps nothing.

    The network's outputs come last in each chunk, under None, as both input and output.

    Raises:
        ShapeError: if a layer's input does not have one row per sample.
    """
    size = chunk_size(model, x, memory=memory)
    for start in range(0, len(x), size):
        rows = slice(start, min(start + size, len(x)))
        with torch.no_grad(), uncompiled(), recording(layers, partial(_shown, see, rows)):
            outputs = run(model, x[rows])
        see(rows, None, outputs, outputs)


def with_weight(layer: nn.Module, weight: Float[Tensor, "q *p"], x: Float[Tensor, "n *h"]) -> Float[Tensor, "n *z"]:
    """The output of the linear layer or convolution for x with another weight and without a bias."""
    if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return layer._conv_forward(x, weight, None)
    return functional.linear(x, weight)


def by_patches(layer: nn.Module, x: Float[Tensor, "n *p"]) -> Float[Tensor, "n *p"]:
    """The layer's input, each entry times the square root of the number of patches, or rows, that contain it."""
    groups = getattr(layer, "groups", 1)
    ones = torch.ones_like(weight_of(layer)[:groups])
    outputs, back, *_ = torch.func.vjp(lambda one: with_weight(layer, ones, one), torch.zeros_like(x[:1]))
    return x * back(torch.ones_like(outputs))[0].sqrt()


def _shown(see: See, rows: slice, call: Call, output: Tensor) -> None:
    # A single sample is run together with a copy of itself.
    _require_rows(call, max(2, rows.stop - rows.start))
    see(rows, call.name, call.x, output)


def _require_rows(call: Call, samples: int) -> None:
    """Raises unless the call's input has one row for each of so many samples: not tokens as rows, nor tokens first."""
    if len(call.x) != samples:
        raise ShapeError(
            "layers",
            "layers whose inputs have one row for each sample",
            f"{call.name!r}, whose input has shape {_checks.shape_of(call.x)}",
            "Name others, or keep the samples on an axis of their own, the first.",
        )


def _require_path(tape: Tape, layers: Mapping[str, nn.Module]) -> None:
    """Raises UnsupportedModuleError if a layer is not called once, is complex, or does not lead to the next."""
    order = [call.name for call in tape.calls]
    for name in layers:
        if order.count(name) != 1:
            raise UnsupportedModuleError(
                "layers",
                "layers that are called once",
                f"{name!r}, called {order.count(name)} times",
                "Name others.",
            )
    given = [*(call.x for call in tape.calls[1:]), tape.logits]
    following = [*map(repr, order[1:]), "the outputs"]
    for call, features, called_next in zip(tape.calls, given, following, strict=True):
        if call.x.is_complex():
            raise UnsupportedModuleError(
                "layers", "layers with real features", f"{call.name!r}, complex", "Name others."
            )
        if call.exit is None or call.exit.node not in uses_of(features):
            raise UnsupportedModuleError(
                "layers",
                "layers one after the other",
                f"{call.name!r}, which does not lead to {called_next}, called next",
                "Name the layers of one path.",
            )
