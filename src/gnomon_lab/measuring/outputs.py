"""A network's outputs: one row of logits per sample, or converted to that where possible, or else described."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gnomon.errors import DataError, RangeError, ShapeError
from gnomon.probe import in_eval_mode, normalised, of_classes
from gnomon_lab.measuring.measure import running
from gnomon_lab.measuring.samples import Position

FEW = 8
"""Samples at which outputs are inspected."""


def take_outputs(
    network: nn.Module,
    x: Shaped[Tensor, "n *d"],
    *,
    layer: str | None,
    position: Position,
    labelled: int | None = None,
) -> str | None:
    """Makes the network output one row of logits per sample: those of a layer, where one is named.

    If a position is named, it outputs a row for each, of which `Probe` takes those to be read. If positions are
    `labelled`, as many as have a label, the outputs must have as many.

    Returns:
        What its outputs are if they are not logits, in a sentence.

    Raises:
        RangeError: if the network has no such layer, or its outputs no such position.
        ShapeError: if its outputs are not rows of logits, and cannot be converted to them, or labels are of others.
        DataError: if it needs several inputs, or raises what is no GnomonError.
    """
    require_one_input(network)
    some = x[:FEW] if len(x) > 1 else torch.cat([x, x])
    with running(x):
        if layer is not None or position is not None or not plain(tried(network, some), len(some)):
            attach(network, layer, position, labelled)
        logits = tried(network, some)
    kind = normalised(logits)
    if kind is None:
        return None
    before = layer_before(network, some, logits)
    advice = "if a layer outputs what precedes it, name that layer: --logits NAME"
    if before is not None:
        advice = f"--logits {before} takes the output of this layer, which is before it"
    return f"the outputs are {kind}, and what is measured is of these; {advice}"


def require_one_input(network: nn.Module) -> None:
    """Raises DataError if the forward pass needs more than one input."""
    parameters = inspect.signature(network.forward).parameters.values()
    asked = [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.default is parameter.empty
    ]
    if len(asked) > 1:
        raise DataError(
            "--model",
            "a network of one input, the samples",
            f"one of {len(asked)}: {', '.join(asked)}",
            "Let the factory fill in the others, or a hook cut them out of the samples.",
        )


def tried(network: nn.Module, x: Shaped[Tensor, "n *d"]) -> Any:  # noqa: ANN401 (of the user's network)
    """What the network returns; the network itself stays unchanged."""
    return in_eval_mode(network, lambda: network(x), None)[0]


def plain(output: object, n: int) -> bool:
    """Whether these are rows of numbers, one per sample."""
    return isinstance(output, Tensor) and output.ndim == 2 and len(output) == n


def attach(network: nn.Module, layer: str | None, position: Position, labelled: int | None) -> None:
    """Makes the network output what `rows` returns for its outputs, or for those of a layer."""
    samples: list[int] = []
    seen: list[object] = []
    named = dict(network.named_modules())
    if layer is not None and layer not in named:
        names = ", ".join(name for name in named if name)
        raise RangeError("--logits", f"one of {names or 'no layers'}", f"{layer!r}", "Choose one.")

    def begin(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        samples[:], seen[:] = [len(inputs[0])], []  # before other hooks, which may move samples to another axis

    def end(module: nn.Module, inputs: object, output: object) -> Tensor:
        if layer is None:
            return rows(output, samples[0], position, labelled)
        if not seen:
            raise ShapeError("--logits", "a layer that the forward pass calls", repr(layer), "Choose another.")
        last = seen[-1]
        seen.clear()
        return rows(last, samples[0], position, labelled)

    network.register_forward_pre_hook(begin, prepend=True)
    if layer is not None:
        named[layer].register_forward_hook(lambda module, inputs, output: seen.append(output))
    network.register_forward_hook(end)


def rows(output: object, n: int, position: Position, labelled: int | None) -> Float[Tensor, "n *c"]:
    """The outputs as one row per sample, or per position if one or all are named: alone or a container's `logits`.

    Raises:
        ShapeError: if they are something else, which the error names.
        RangeError: if there is no such position.
    """
    logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", output)
    if not isinstance(logits, Tensor):
        raise ShapeError(
            "outputs",
            "one tensor, alone or under the name logits",
            type(output).__name__,
            "Name the layer whose output are the logits: --logits NAME.",
        )
    shape = tuple(logits.shape)
    if position == "all" and logits.ndim in (3, 4) and len(logits) == n:
        return logits
    if isinstance(position, int | None) and logits.ndim == 3 and len(logits) == n:
        if position is None:
            advice = "Name the one to measure at: --position -1 is the last; or each: --position all."
            raise no_rows(n, f"{shape}, rows of {shape[1]} positions", advice)
        if not -shape[1] <= position < shape[1]:
            raise RangeError("--position", f"{-shape[1]} to {shape[1] - 1}", position, "Name one of these.")
        if labelled not in (None, shape[1]):
            advice = "Save one for each, and -100 where there is none."
            raise ShapeError("--data", f"labels at {shape[1]} positions, as the outputs have", labelled, advice)
        return logits
    if position is not None:
        raise no_rows(n, f"{shape}, without positions in the midst", "Leave out --position.")
    if shape[:1] != (n,) and n in shape:
        advice = "Let a hook bring them to the front, or build the network with batch_first=True."
        raise no_rows(n, f"{shape}, samples on axis {shape.index(n)}", advice)
    if logits.ndim != 2 or len(logits) != n:
        such = "outputs[:, None]" if logits.ndim == 1 else "the mean over pixels"
        raise no_rows(n, str(shape), f"Let a hook make one row of outputs per sample, such as {such}.")
    return logits


def no_rows(n: int, got: str, advice: str) -> ShapeError:
    """The error for outputs that have other axes than those of samples and of logits."""
    return ShapeError("outputs", f"({n}, c) of {n} samples", got, advice)


def layer_before(network: nn.Module, x: Shaped[Tensor, "n *d"], outputs: Float[Tensor, "n *c"]) -> str | None:
    """The layer whose outputs a softmax, or its logarithm, turns into these; None if there is no such layer."""
    last: str | None = None
    of_probabilities = bool(outputs.min() >= 0)

    def note(name: str, output: object) -> None:
        nonlocal last
        if isinstance(output, Tensor) and output.shape == outputs.shape and output.is_floating_point():
            axis = of_classes(output)
            after = output.softmax(axis) if of_probabilities else output.log_softmax(axis)
            if not torch.equal(output, outputs) and torch.allclose(after, outputs, atol=1e-4):
                last = name

    def watched() -> str | None:
        for name, module in network.named_modules():
            if name:
                module.register_forward_hook(lambda module, inputs, output, name=name: note(name, output), prepend=True)
        network(x)
        return last

    return in_eval_mode(network, watched, None)[0]  # which removes the hooks
