"""The power diagram that each layer cuts, at given samples."""

import dataclasses
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gnomon._precision import full_precision
from gnomon.autodiff import Graph, map_graphs, require_no_batch_statistics
from gnomon.errors import UnsupportedModuleError


@dataclasses.dataclass(frozen=True)
class LayerCentroids:
    r"""Site and radius of each sample's cell, for one layer and for the network up to and with it.

    Attributes:
        name: the child of the network with which the layer begins, as in `named_modules`.
        centroid: $\mu^{(l)}$, (n *h) with the axes of the layer's own input; unit: outputs per input of the layer.
        radius: $\tau^{(l)}$, (n); the square of that unit, the inputs taken as of unit one.
        centroid_to: $\mu^{(1\leftarrow l)}$, (n *d) with the axes of x.
        radius_to: $\tau^{(1\leftarrow l)}$, (n).
    """

    name: str
    centroid: Float[Tensor, "n *h"]
    radius: Float[Tensor, "n"]
    centroid_to: Float[Tensor, "n *d"]
    radius_to: Float[Tensor, "n"]


@full_precision
def layer_centroids(
    model: nn.Sequential, x: Float[Tensor, "n *d"], *, memory: int | None = None
) -> tuple[LayerCentroids, ...]:
    r"""The centroids and radii of the cells around each sample, layer by layer.

    With $f^{(l)}(h) = A^{(l)}h + B^{(l)}$ around the layer's input h, and the same for the net up to it:
    $\mu^{(l)} = {A^{(l)}}^\top\mathbf{1}$, $\quad\mu^{(1\leftarrow l)} = {A^{(1\leftarrow l-1)}}^\top\mu^{(l)}$,
    $\quad\tau = \|\mu\|^2 + 2\langle\mathbf{1}, B\rangle$ for either

    A layer begins at each child that holds a weight of two axes or more (linear, convolution, a block of such) and
    includes what follows until the next: activation, pooling, normalisation. What stands before the first belongs to
    it; nested Sequentials are opened.

    The sample's cell is the one of least power $\|h - \mu\|^2 - \tau$, since that is $\|h\|^2$ minus twice the layer's
    summed output $\langle\mu, h\rangle + \langle\mathbf{1}, B\rangle$, and the largest of the layer's affine pieces
    holds. That takes outputs that are maxima of affine functions: ReLU, leaky ReLU, absolute value, max-pooling, not
    hard tanh. Of the net up to the layer it holds within one cell of the layers before; over all of input space only
    for convex sums (docs/errata.md). For smooth layers these are the numbers of the tangent map, and there is no
    diagram. Follows torch's grad mode, as `input_jacobian` does.

    Source:
        Walker et al., Jacobian Alignment Explains Grokking, theorems 10 and 13; the radii are those of Balestriero
        et al., The Geometry of Deep Networks: Power Diagram Subdivision, arXiv:1905.08443.
    Args:
        model: layers, one after the other, from (n *d) to (n c), whose samples do not mix.
        x: the samples.
        memory: bytes to use beyond the result; 512 MiB unless told.
    Returns:
        One for each layer, the first first. The last `centroid_to` is `gnomon.centroid`.
    Raises:
        UnsupportedModuleError: if the model is no Sequential with layers, or BatchNorm in training mode mixes the
            samples.
        ShapeError: if the outputs are not (n, c).
        EmptyError: if there are no samples.
        RangeError: if x is not of floating point, or holds NaN or infinity.
    Cost: one backward pass a layer. Precision: the radii lose digits where offsets are small beside the outputs.
    Example:
        >>> import torch
        >>> from gnomon import layer_centroids
        >>> net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
        >>> [layer.name for layer in layer_centroids(net, torch.ones(5, 3))]
        ['0', '2']
    """
    where = "layer_centroids"
    if not isinstance(model, nn.Sequential) or len(model) == 0:
        got = "an empty one" if isinstance(model, nn.Sequential) else type(model).__name__
        raise UnsupportedModuleError(
            "model",
            "an nn.Sequential with layers",
            got,
            "Write the network as one; blocks that branch may be its children.",
            where=where,
        )
    # Under the names of the user's network, not of the chain.
    require_no_batch_statistics(where, model)
    chain = Chain(model)

    def read(graph: Graph, start: int) -> dict[str, Tensor]:
        seen: dict[str, Tensor] = {}
        before, n = graph.x, len(graph.x)
        for name, after in zip(chain.layers, chain.outputs, strict=True):
            inputs, ones = (before, graph.x), torch.ones_like(after)
            # A lone sample has run beside itself, which does not count.
            ones[n:] = 0
            slopes = torch.autograd.grad(
                after, inputs, ones, retain_graph=True, create_graph=graph.create_graph, materialize_grads=True
            )
            sums = after[:n].flatten(1).sum(1)
            for kind, point, whole in zip(("", "_to"), inputs, slopes, strict=True):
                slope = whole[:n]
                centroid = slope.flatten(1)
                offset = sums - (centroid * point[:n].flatten(1)).sum(1)
                radius = centroid.square().sum(1) + 2 * offset
                seen[f"{name} centroid{kind}"] = slope
                seen[f"{name} radius{kind}"] = radius if graph.create_graph else radius.detach()
            before = after
        return seen

    values = map_graphs(where, chain, x, read, memory=memory)
    fields = [field.name for field in dataclasses.fields(LayerCentroids) if field.name != "name"]
    return tuple(
        LayerCentroids(name, **{field: values[f"{name} {field}"] for field in fields}) for name in chain.layers
    )


class Chain(nn.Module):
    """A Sequential that keeps what each of its layers puts out, from the latest forward pass."""

    def __init__(self, model: nn.Sequential) -> None:
        super().__init__()
        self.model = model
        self.layers: dict[str, list[nn.Module]] = {}
        self.outputs: list[Tensor] = []
        begun = False
        for name, child in children(model):
            weighty = any(parameter.ndim > 1 for parameter in child.parameters())
            if not self.layers or (weighty and begun):
                self.layers[name] = []
            begun = begun or weighty
            next(reversed(self.layers.values())).append(child)

    def forward(self, x: Tensor) -> Tensor:
        """The network's outputs."""
        self.outputs = []
        for layer in self.layers.values():
            for child in layer:
                x = child(x)
            self.outputs.append(x)
        return x


def children(model: nn.Sequential, prefix: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The modules in their order, with their names; one that stands twice comes twice."""
    for name, child in zip(model._modules, model, strict=True):
        if isinstance(child, nn.Sequential):
            yield from children(child, f"{prefix}{name}.")
        else:
            yield prefix + name, child
