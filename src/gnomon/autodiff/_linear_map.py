"""The linear map that a layer computes, found numerically from its inputs and outputs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

ROWS, ENTRIES = 64, 2**20
"""Logits are compared in blocks of so many rows, or more where they have no more entries than this."""
COMPARED = 64
"""Logits that are compared to find the row from which they come."""


@dataclass(frozen=True)
class LinearMap:
    r"""From features to logits: $f W^\top + b$.

    Attributes:
        features: the input.
        weight: W.
        bias: b; None if there is none.
    """

    features: Float[Tensor, "n p"]
    weight: Float[Tensor, "c p"]
    bias: Float[Tensor, "c"] | None


def linear_map(layer: nn.Module, given: Tensor, logits: Float[Tensor, "n c"]) -> LinearMap | None:
    """The map by which the layer computes these logits from its input; None if it does not."""
    if not given.is_floating_point():
        return None
    maps = (mapped(given, weight, bias, logits) for weight, bias in _weights_and_biases(layer, logits.shape[1]))
    return next((found for found in maps if found is not None), None)


def mapped(
    given: Tensor, weight: Float[Tensor, "c p"], bias: Tensor | None, logits: Float[Tensor, "n c"]
) -> LinearMap | None:
    """The map with this weight and bias, of those features of the input that it takes to these logits; None if none."""
    if len(given) != len(logits):
        return None
    maps = (LinearMap(features, weight, bias) for features in _sources(given, weight, bias, logits))
    return next((found for found in maps if follow(logits, found)), None)


def rounded(output: Tensor, autocast: torch.dtype | None) -> Tensor:
    """What a layer under autocast put out, as it was: in half precision, even if it became float32 later."""
    return output if autocast is None else output.to(autocast)


def _weights_and_biases(layer: nn.Module, classes: int) -> Iterator[tuple[Float[Tensor, "c p"], Tensor | None]]:
    """What the layer may compute this many outputs with."""
    for matrix in matrices(layer):
        for weight in (matrix, matrix.mT):
            if len(weight) == classes:
                yield from ((weight, bias) for bias in biases(layer, classes))


def _sources(
    given: Tensor, weight: Float[Tensor, "c p"], bias: Tensor | None, logits: Float[Tensor, "n c"]
) -> Iterator[Float[Tensor, "n p"]]:
    """The rows from which the logits may come: of the whole input, or at a position of each sample's."""
    yield from rows_of(given, weight.shape[1])
    if given.ndim > 2 and given.shape[-1] == weight.shape[1]:
        yield _at_their_positions(given, weight, bias, logits)


def _at_their_positions(
    given: Float[Tensor, "n *t p"], weight: Float[Tensor, "c p"], bias: Tensor | None, logits: Float[Tensor, "n c"]
) -> Float[Tensor, "n p"]:
    """For each sample, the row from which these logits come, such as the last; some of the logits suffice to tell."""
    rows = given.flatten(1, -2)
    with torch.no_grad():
        dtype = torch.promote_types(logits.dtype, given.dtype)
        outputs = rows.to(dtype) @ weight[:COMPARED].mT.to(dtype)
        if bias is not None:
            outputs = outputs + bias[:COMPARED]
        place = (outputs - logits[:, None, :COMPARED]).abs().amax(2).argmin(1)
    return rows[torch.arange(len(rows), device=rows.device), place]


def has_weight(layer: nn.Module) -> bool:
    """Whether a layer has a weight of its own."""
    return isinstance(getattr(layer, "weight", None), Tensor)


def matrices(layer: nn.Module) -> Iterator[Float[Tensor, "q p"]]:
    """The layer's weights, including those made by a hook; for convolutions, those that see one pixel at a time."""
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
    """One row of features per sample: the layer's input, or its mean over pixels or tokens, as logits may be means."""
    if given.ndim == 2 and given.shape[1] == width:
        yield given
    if given.ndim > 2 and given.shape[1] == width:
        yield given.flatten(2).mean(2)
    if given.ndim > 2 and given.shape[-1] == width:
        yield given.flatten(1, -2).mean(1)


@torch.no_grad()
def follow(logits: Float[Tensor, "n c"], by: LinearMap) -> bool:
    """Whether all logits are what the map gives, up to rounding; also for a network that has diverged.

    All, since a network may choose its head by sample. Costs two or three passes through that layer.
    """
    precision = max(torch.finfo(tensor.dtype).eps for tensor in (logits, by.features, by.weight))
    # The root, as products in float32 may be TF32's; of half precision this would be so much that other maps follow
    # too, and there features, weight and logits are each rounded by half an epsilon.
    tolerance = min(precision**0.5, 2 * precision + torch.finfo(torch.float32).eps ** 0.5)
    dtype = torch.promote_types(torch.promote_types(logits.dtype, by.features.dtype), by.weight.dtype)
    weight = by.weight.to(dtype)
    lengths = weight.norm(dim=1)
    rows = max(ROWS, ENTRIES // max(1, len(weight)))
    for found, given in zip(torch.split(logits, rows), torch.split(by.features, rows), strict=True):
        features = given.to(dtype)
        expected, size = features @ weight.mT, features.norm(dim=1, keepdim=True) * lengths
        if by.bias is not None:
            expected, size = expected + by.bias, size + by.bias.abs()
        near = (found - expected).abs() <= tolerance * size
        if not (near.all() or (near | (found == expected) | (found.isnan() & expected.isnan())).all()):
            return False
    return True


def side_by_side(maps: Sequence[LinearMap], share: float) -> LinearMap:
    """The sum of several maps, all of which count equally, as one map of their features side by side."""
    biases = [each.bias for each in maps if each.bias is not None]
    return LinearMap(
        torch.cat([each.features for each in maps], dim=1),
        share * torch.cat([each.weight for each in maps], dim=1),
        share * torch.stack(biases).sum(0) if biases else None,
    )
