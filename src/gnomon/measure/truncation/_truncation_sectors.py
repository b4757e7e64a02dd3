"""Which samples each layer's ReLU cuts off: not at all, in part, or to one point."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from gnomon import _checks
from gnomon._precision import full_precision, single
from gnomon.measure._by_class import further
from gnomon.measure._moments import ClassMoments
from gnomon.measure._sequential import input_points, relu_layers


@dataclass(frozen=True)
class TruncationSectors:
    r"""The sectors of each hidden layer's truncation map in which the samples lie when they reach it.

    A coordinate is truncated where the preactivation is 0 or below: on a sector's face it counts as truncated, in
    accordance with $\sigma'(0) = 0$, though it does not move.

    Attributes:
        untruncated: whether the sample lies in the positive sector, with no coordinate truncated.
        full: whether it lies in the negative sector, with all coordinates truncated.
        untruncated_share: the share of each class in the positive sector, one row per layer.
        partial_share: the share of each class in neither.
        full_share: the share of each class in the negative sector.
        truncated_share: the share of coordinates that are truncated, the mean over each class.
        coordinate_share: for each layer the share of each class that is truncated in each coordinate: for class
            $\ell$ in layer $\ell$ the diagonal of $J_0^{(\ell)\perp}$, which are the rates at which the flow moves the
            bias where each layer truncates its own class alone.
    """

    untruncated: Bool[Tensor, "l n"]
    full: Bool[Tensor, "l n"]
    untruncated_share: Float[Tensor, "l k"]
    partial_share: Float[Tensor, "l k"]
    full_share: Float[Tensor, "l k"]
    truncated_share: Float[Tensor, "l k"]
    coordinate_share: tuple[Float[Tensor, "k _"], ...]

    @property
    def cluster_separated(self) -> Bool[Tensor, ""]:
        r"""Whether layer $\ell$ truncates no class but the $\ell$-th, counted from 1: definition 3.1, where it matters.

        For the samples as they reach the layer, which is what eq. (3.5) needs; the definition is for the samples as
        they are (docs/errata.md).
        """
        own = torch.eye(*self.untruncated_share.shape, dtype=torch.bool, device=self.untruncated.device)
        return ((self.untruncated_share == 1) | own).all()


@full_precision
def truncation_sectors(
    model: nn.Sequential, x: Float[Tensor, "n *d"], labels: Int[Tensor, "n"], *, classes: int | None = None
) -> TruncationSectors:
    r"""How much of each class each layer's ReLU cuts off.

    Reading:
        Low, high: High: the layer cuts off most of a class. A class entirely in the negative sector is a single point
            after it.
        Generalising: In the plane the second layer cuts off 74.4 % where two clusters are apart (100 % accuracy on
            unseen points), 46.9 % where they overlap (70 %), after 42.5 % at the start.
        Misleads: A layer that cuts a class to a point no longer gives it a gradient: a dead unit, not only a finished
            one (truncation-practice).

    $\underline\tau^{(\ell-1)}(x)\in\mathcal S_\ell^+$ if all of $z^{(\ell)} = W_\ell x^{(\ell-1)} + b_\ell$ is above 0,
    and in $\mathcal S_\ell^-$ if none is

    Since $a^{(\ell)}(\underline\tau^{(\ell-1)}(x)) = z^{(\ell)}$, the sectors are the signs of the preactivations: no
    weight is inverted, and any widths and weights will do.

    Source:
        Chen, arXiv:2501.07400, definition 2.1; coordinates by eqs. (3.42), (3.43). Departs from it in that "partially
        truncated" leaves out the fully truncated (docs/errata.md).
    Args:
        model: alternating linear layers and ReLUs, as built by `gnomon.models.mlp`.
        x: the samples.
        labels: their classes, from 0.
        classes: the number k of classes, at least 2; default: the width of the final linear layer.
    Returns:
        Shares in [0, 1], in the dtype of x (half precision in float32), with no graph kept; those of the three sectors
        sum to 1. Invariant under multiplying a hidden unit's weights and bias by a positive number and dividing by it
        the weights that leave the unit.
    Raises:
        UnsupportedModuleError: if the model is anything else, also by a forward of its own, or by a hook that changes
            outputs.
        ShapeError: if x does not have the network's number of inputs, or labels are not (n).
        EmptyError: if there are no samples, or none of some class, which the error names.
        RangeError: at NaN or infinity, at a label that is not a class, or if `classes` is below 2.
    Cost: a forward pass; where modules have hooks, also one at 8 random inputs, to see whether these change outputs.
    Example:
        >>> import torch, gnomon
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.ReLU())
        >>> model[0].weight.data = torch.eye(2)
        >>> x = torch.tensor([[1.0, 2.0], [1.0, 0.0], [-1.0, -1.0]])
        >>> sectors = gnomon.truncation_sectors(model, x, torch.tensor([0, 0, 1]))
        >>> sectors.untruncated_share, sectors.truncated_share
        (tensor([[0.5000, 0.0000]]), tensor([[0.2500, 1.0000]]))
    """
    layers, hidden = relu_layers(model)
    linear = list(layers.values())
    k = linear[-1].out_features if classes is None else classes
    _checks.settings(_checks.whole_number("classes", k, 2))
    features = input_points(x.detach(), linear[0].in_features)
    _checks.class_labels(labels, len(x), k)
    truncated = [z <= 0 for z in _preactivations(linear[:hidden], features)]
    untruncated = torch.stack([~cut.any(1) for cut in truncated])
    full = torch.stack([cut.all(1) for cut in truncated])
    dtype = single(x.dtype)
    indicators = torch.cat([untruncated, ~untruncated & ~full, full])
    rows = torch.cat([indicators.mT, *truncated], 1).to(dtype)
    empty = ClassMoments.none(k, rows[:0].double())
    counts, means, _ = further(empty.counts, empty.means, rows, labels.long())
    _checks.every_class(counts)
    means, ends = means.to(dtype), itertools.accumulate([len(indicators), *(cut.shape[1] for cut in truncated)])
    in_sectors = means[:, : len(indicators)].mT.reshape(3, hidden, k)
    by_coordinate = tuple(means[:, start:end] for start, end in itertools.pairwise(ends))
    truncated_share = torch.stack([share.mean(1) for share in by_coordinate])
    return TruncationSectors(
        untruncated, full, in_sectors[0], in_sectors[1], in_sectors[2], truncated_share, by_coordinate
    )


def _preactivations(layers: list[nn.Linear], features: Float[Tensor, "n q"]) -> Iterator[Float[Tensor, "n _"]]:
    """The input of each layer's ReLU, without a graph."""
    features = features.to(torch.promote_types(features.dtype, layers[0].weight.dtype))
    for layer in layers:
        weight, bias = (None if part is None else part.detach().to(features) for part in (layer.weight, layer.bias))
        z = functional.linear(features, weight, bias)
        _checks.finite(preactivations=z)  # NaN is not below zero
        yield z
        features = z.relu()
