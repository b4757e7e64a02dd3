"""The power diagram that each layer forms, at given samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnomon import _checks
from gnomon._precision import full_precision, in_single
from gnomon.autodiff import Call, Tape, map_tapes
from gnomon.errors import UnsupportedModuleError
from gnomon.measure._sequential import children

Cell = tuple[Tensor, Tensor]
"""Centroid and radius of each sample."""


@dataclass(frozen=True)
class LayerCentroids:
    r"""Centroid and radius of each sample's cell, for each layer and for the network up to and including it.

    Attributes:
        layers: the child of the network with which each layer begins, as in `named_modules`, in order.
        centroid: $\mu^{(l)}$, (n *h) for each layer, with the axes of its own input; unit: outputs per input of the
            layer.
        radius: $\tau^{(l)}$; the square of that unit, with the inputs taken to have unit one.
        centroid_up_to: $\mu^{(1\leftarrow l)}$, with the axes of x; the last is `gnomon.centroid`.
        radius_up_to: $\tau^{(1\leftarrow l)}$.
    """

    layers: tuple[str, ...]
    centroid: tuple[Float[Tensor, "n *_"], ...]
    radius: Float[Tensor, "n l"]
    centroid_up_to: Float[Tensor, "n l *d"]
    radius_up_to: Float[Tensor, "n l"]


@full_precision
def layer_centroids(model: nn.Sequential, x: Float[Tensor, "n *d"], *, memory: int | None = None) -> LayerCentroids:
    r"""The centroids and radii of the cells around each sample, layer by layer.

    Reading:
        Low, high: For the cosine with the sample, up to each layer: 0 across it, 1 along it.
        Generalising: On digits equally high at every depth in a network that generalises, 0.74 up to the third layer;
            falling with depth in one that memorised, to 0.31, as at the start.
        Misleads: All units of a layer count equally, including those that no later layer uses. Only one seed, on
            digits, was examined.

    With $f^{(l)}(h) = A^{(l)}h + B^{(l)}$ around the layer's input h, and the same for the net up to it:
    $\mu^{(l)} = {A^{(l)}}^\top\mathbf{1}$, $\quad\mu^{(1\leftarrow l)} = {A^{(1\leftarrow l-1)}}^\top\mu^{(l)}$,
    $\quad\tau = \|\mu\|^2 + 2\langle\mathbf{1}, B\rangle$ for either

    A layer begins at each child that has a weight of two axes or more (linear, convolution, a block of these) and
    includes what follows until the next: activation, pooling, normalisation. What precedes the first layer belongs to
    it; nested Sequentials are opened, except those with a forward of their own.

    The sample's cell is the one of least power $\|h - \mu\|^2 - \tau$, since that is $\|h\|^2$ minus twice the layer's
    summed output $\langle\mu, h\rangle + \langle\mathbf{1}, B\rangle$, and the largest of the layer's affine pieces
    applies. This requires outputs that are maxima of affine functions: ReLU, leaky ReLU, absolute value, max-pooling,
    not hard tanh. For the net up to the layer it holds within one cell of the layers before; over all of input space it
    holds only for convex sums (docs/errata.md). For smooth layers these are the numbers of the tangent map, and there
    is no diagram. Follows torch's grad mode, as `input_jacobian` does.

    Source:
        Walker et al., Jacobian Alignment Explains Grokking, theorems 10 and 13; the radii are those of Balestriero
        et al., The Geometry of Deep Networks: Power Diagram Subdivision, arXiv:1905.08443.
    Args:
        model: layers, one after the other, from (n *d) to (n c), whose samples do not mix.
        x: the samples.
        memory: bytes to use beyond the result; default: 512 MiB.
    Returns:
        One centroid and radius per sample and layer; the first layer's own and those up to it are equal.
    Raises:
        UnsupportedModuleError: if the model is not a Sequential with layers that are called one after the other, if a
            layer's input is changed in place, or if BatchNorm in training mode mixes the samples.
        ShapeError: if the outputs are not (n, c).
        EmptyError: if there are no samples.
        RangeError: if x is not of floating point, or holds NaN or infinity; if the dtype does not hold a radius.
    Cost: one backward pass per layer. Precision: the radii lose digits where offsets are small compared with the
        outputs.
    Example:
        >>> import torch
        >>> from gnomon import layer_centroids
        >>> net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
        >>> found = layer_centroids(net, torch.ones(5, 3))
        >>> found.layers, found.centroid_up_to.shape
        (('0', '2'), torch.Size([5, 2, 3]))
    """
    if not isinstance(model, nn.Sequential) or len(model) == 0:
        got = "an empty one" if isinstance(model, nn.Sequential) else type(model).__name__
        raise UnsupportedModuleError(
            "model",
            "an nn.Sequential with layers",
            got,
            "Write the network as one; blocks that branch may be its children.",
        )
    parts = list(children(model))
    starts = _starts(parts)
    names = tuple(parts[start][0] for start in starts)
    watch = {str(place): child for place, child in enumerate(dict.fromkeys(child for _, child in parts))}

    def read(tape: Tape, start: int) -> dict[str, Tensor]:
        if [call.module for call in tape.calls] != [child for _, child in parts]:
            raise UnsupportedModuleError(
                "model",
                "an nn.Sequential that calls its children one after the other",
                f"{type(model).__name__} with a forward of its own",
                "Write it as nn.Sequential.",
            )
        inputs = [tape.x, *(_kept(tape.calls[place]) for place in starts[1:])]
        outputs = [*inputs[1:], tape.logits]
        _require_one_path(tape, names[1:], inputs[1:], outputs[1:])
        own, up_to = zip(*map(partial(_cells, tape), inputs, outputs), strict=True)
        return {f"centroid {name}": centroid for name, (centroid, _) in zip(names, own, strict=True)} | {
            "radius": torch.stack([radius for _, radius in own], dim=1),
            "centroid up to": torch.stack([centroid for centroid, _ in up_to], dim=1),
            "radius up to": torch.stack([radius for _, radius in up_to], dim=1),
        }

    found = map_tapes(model, x, read, memory=memory, watch=watch)
    centroid = tuple(found[f"centroid {name}"] for name in names)
    return LayerCentroids(names, centroid, found["radius"], found["centroid up to"], found["radius up to"])


def _starts(children: list[tuple[str, nn.Module]]) -> list[int]:
    """Where layers begin: at the first child, and at each with a weight of two axes or more, except the first such."""
    weighty = [
        place
        for place, (_, child) in enumerate(children)
        if any(parameter.ndim > 1 for parameter in child.parameters())
    ]
    return [0, *weighty[1:]]


def _kept(start: Call) -> Tensor:
    """The input with which a layer began; its values are lost if it has been changed in place since."""
    if start.changed:
        raise UnsupportedModuleError(
            "model",
            "layers that leave their inputs as they are",
            f"{type(start.module).__name__}, whose input is changed in place",
            "Set inplace=False.",
        )
    return start.x


def _require_one_path(tape: Tape, names: Sequence[str], inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """Raises UnsupportedModuleError if an output of one of these layers depends on the samples around its input."""
    for name, before, after in zip(names, inputs, outputs, strict=True):
        if not tape.only_by(before, after):
            raise UnsupportedModuleError(
                "model",
                "layers that follow one another",
                f"one that begins at {name!r}, which the samples also go around",
                "Make what branches one child.",
            )


def _cells(tape: Tape, before: Tensor, after: Tensor) -> tuple[Cell, Cell]:
    """The centroid and radius of a layer between two tensors of the pass, and of the network up to the second."""
    n, ones = len(tape.x), torch.ones_like(after)
    # A single sample was run together with a copy of itself, which does not count.
    ones[n:] = 0
    inputs = before, tape.x
    sums = in_single(after[:n]).reshape(n, -1).sum(1)
    cells = []
    for point, whole in zip(inputs, tape.gradients(after, inputs, ones), strict=True):
        centroid = whole[:n]
        rows = in_single(centroid).reshape(n, -1)
        offset = sums - (rows * point[:n].reshape(n, -1)).sum(1)
        radius = (rows.square().sum(1) + 2 * offset).to(centroid.dtype)
        _checks.held("model", "radii", radius)
        cells.append((centroid, radius if tape.create_graph else radius.detach()))
    own, up_to = cells
    return own, up_to
