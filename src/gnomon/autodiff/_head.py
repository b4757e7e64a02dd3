"""The final linear layer of a network: found by what the forward pass does, not by where it stands."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from gnomon.autodiff._run import Model, outputs_of
from gnomon.autodiff._tape import Call, recording
from gnomon.errors import UnsupportedModuleError

ROWS = 64
"""Samples at which it is checked that logits follow: a layer does the same to all."""


@dataclass(frozen=True)
class LinearMap:
    r"""From features to logits: $f W^\top + b$.

    Attributes:
        features: what goes in.
        weight: W.
        bias: b; None if there is none.
    """

    features: Float[Tensor, "n p"]
    weight: Float[Tensor, "c p"]
    bias: Float[Tensor, "c"] | None


@dataclass(frozen=True)
class Head:
    """The layer from which the logits come, and what it does.

    Attributes:
        layer: the layer.
        weight: of the latest pass, without a graph, as is the bias.
        bias: None if there is none.
    """

    layer: nn.Module
    weight: Float[Tensor, "c p"]
    bias: Float[Tensor, "c"] | None


def linear_head(model: Model, x: Shaped[Tensor, "n *d"]) -> Head:
    """The layer whose input, weight and bias the logits follow from: linear, or convolving single pixels, or another.

    Looked for in a pass over two samples, from the layer that was called last, by numbers: a layer that is registered
    elsewhere, or beside others like it, is found, and one with hooks or a forward of its own that do more is not.

    Raises:
        UnsupportedModuleError: if there is none.
    """
    modules = dict(model.named_modules()) if isinstance(model, nn.Module) else {}
    layers = {name: module for name, module in modules.items() if any(True for _ in matrices(module))}
    if not layers:
        raise UnsupportedModuleError(
            "model",
            "a network with a linear layer at its end",
            f"{type(model).__name__} without one",
            "Name the layer whose input is meant.",
        )
    calls: list[Call] = []
    two = x[:2] if len(x) > 1 else torch.cat([x, x])
    with torch.no_grad(), recording(layers, lambda call, output: calls.append(call)):
        logits = outputs_of(model(two), two)
    # Whole networks too have parameters of the right shape: after those with a weight of their own.
    calls.sort(key=lambda call: isinstance(getattr(call.module, "weight", None), Tensor))
    for call in reversed(calls):
        found = linear_map(call.module, call.x, logits)
        if found is not None:
            return Head(call.module, found.weight.detach(), None if found.bias is None else found.bias.detach())
    raise goes_on()


def goes_on() -> UnsupportedModuleError:
    """The error where no layer makes the logits."""
    return UnsupportedModuleError(
        "model",
        "a network whose final linear layer puts out the logits",
        "one that goes on behind it",
        "Name the layer whose input is meant.",
    )


def linear_map(layer: nn.Module, given: Tensor, logits: Float[Tensor, "n c"]) -> LinearMap | None:
    """The map by which the layer makes these logits of what it is given; None if it does not."""
    if len(given) != len(logits) or not given.is_floating_point():
        return None
    classes = logits.shape[1]
    for matrix in matrices(layer):
        for weight in (matrix, matrix.mT):
            for features in rows_of(given, weight.shape[1]) if len(weight) == classes else ():
                for bias in biases(layer, classes):
                    if follow(logits[:ROWS], LinearMap(features[:ROWS], weight, bias)):
                        return LinearMap(features, weight, bias)
    return None


def matrices(layer: nn.Module) -> Iterator[Float[Tensor, "q p"]]:
    """The layer's weights, also those that a hook makes, and of convolutions those that see one pixel at a time."""
    for weight in (getattr(layer, "weight", None), *layer.parameters()):
        if isinstance(weight, Tensor) and weight.ndim >= 2 and weight.shape[2:].numel() == 1 and weight.numel() > 0:
            yield weight.flatten(1)


def biases(layer: nn.Module, classes: int) -> Iterator[Float[Tensor, "c"] | None]:
    """What the layer may add to its outputs."""
    for bias in (getattr(layer, "bias", None), *layer.parameters()):
        if isinstance(bias, Tensor) and bias.shape == (classes,):
            yield bias
    yield None


def rows_of(given: Tensor, width: int) -> Iterator[Float[Tensor, "n p"]]:
    """One row of features a sample: what the layer is given, or its mean over pixels or tokens, as logits may be."""
    if given.ndim == 2 and given.shape[1] == width:
        yield given
    if given.ndim > 2 and given.shape[1] == width:
        yield given.flatten(2).mean(2)
    if given.ndim > 2 and given.shape[-1] == width:
        yield given.flatten(1, -2).mean(1)


@torch.no_grad()
def follow(logits: Float[Tensor, "n c"], by: LinearMap) -> bool:
    """Whether the logits are what the map gives, up to rounding; where a network has diverged too."""
    precision = max(torch.finfo(tensor.dtype).eps for tensor in (logits, by.features, by.weight))
    dtype = torch.promote_types(torch.promote_types(logits.dtype, by.features.dtype), by.weight.dtype)
    logits, features, weight = logits.to(dtype), by.features.to(dtype), by.weight.to(dtype)
    expected, size = features @ weight.mT, features.norm(dim=1, keepdim=True) * weight.norm(dim=1)
    if by.bias is not None:
        expected, size = expected + by.bias, size + by.bias.abs()
    near = (logits - expected).abs() <= precision**0.5 * size
    return bool((near | (logits == expected) | (logits.isnan() & expected.isnan())).all())
