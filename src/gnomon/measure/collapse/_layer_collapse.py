"""Which part of each layer collapses the classes: its weight, or the nonlinearity behind it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn import functional

from gnomon import _checks
from gnomon._precision import full_precision
from gnomon.autodiff import (
    chunk_size,
    forward,
    named_weights,
    require_independent_samples,
    require_samples_in_order,
    run,
    weight_of,
)
from gnomon.errors import UnsupportedModuleError
from gnomon.measure.collapse._class_moments import (
    ClassMoments,
    at_least_single,
    check_samples,
    further,
    nothing,
)
from gnomon.measure.collapse._nc2_etf import nc2_etf
from gnomon.measure.collapse._nc2_orthogonal import nc2_orthogonal


@dataclass(frozen=True)
class LayerCollapse:
    r"""Neural collapse before and after the nonlinearity of each layer, and what its weight has to do with it.

    Attributes:
        layers: the layers' names, in the order in which they are called.
        nc1_input: $\operatorname{tr}\Sigma_W/\operatorname{tr}\Sigma_B$ of $\Phi$, the rows or patches that the weight
            $W = USV^\top$ is multiplied with.
        nc1_right: that of $SV^\top\Phi$.
        nc1_before: that of $W\Phi + b$, before the nonlinearity; the same, since U keeps lengths.
        nc1_after: that of what the next of these layers is given, the network's outputs behind the last: after the
            nonlinearity, and after normalisation, pooling or a residual sum where these stand between.
        nc2_orthogonal_before, nc2_orthogonal_after, nc2_etf_before, nc2_etf_after: `nc2_orthogonal` and `nc2_etf` of
            the class means at the same two places.
    """

    layers: tuple[str, ...]
    nc1_input: Float[Tensor, "l"]
    nc1_right: Float[Tensor, "l"]
    nc1_before: Float[Tensor, "l"]
    nc1_after: Float[Tensor, "l"]
    nc2_orthogonal_before: Float[Tensor, "l"]
    nc2_orthogonal_after: Float[Tensor, "l"]
    nc2_etf_before: Float[Tensor, "l"]
    nc2_etf_after: Float[Tensor, "l"]

    @property
    def by_weight(self) -> Float[Tensor, "l"]:
        r"""The factor by which $SV^\top$ multiplies NC1; below 1 where it collapses."""
        return self.nc1_right / self.nc1_input

    @property
    def by_nonlinearity(self) -> Float[Tensor, "l"]:
        """The factor by which U and the nonlinearity multiply NC1."""
        return self.nc1_after / self.nc1_right


@full_precision
def layer_collapse(
    model: nn.Module,
    x: Float[Tensor, "n *d"],
    labels: Int[Tensor, "n"],
    *,
    layers: Sequence[str] | None = None,
    memory: int | None = None,
) -> LayerCollapse:
    r"""NC1 and NC2 before and after the nonlinearity of each layer, and NC1 between the parts of its weight.

    $\Phi \to SV^\top\Phi \to \sigma(USV^\top\Phi)$, NC1 = $\operatorname{tr}\Sigma_W/\operatorname{tr}\Sigma_B$

    Since U has orthonormal columns, $W\Phi$ has the NC1 of $SV^\top\Phi$: a weight can only collapse classes by its
    small singular values, in whose directions samples differ within classes. A convolution multiplies patches: its
    input counts each pixel once a patch, so that a unitary one leaves NC1 as it is; patches are not formed.

    Source:
        Beaglehole et al., arXiv:2402.13728, section 5 and definition 3.1. Departs from it in the weights $n_c/n$ for
        unequal classes.
    Args:
        model: a network to (n k), one output a class, whose samples do not mix.
        x: the samples.
        labels: their classes, 0 to k - 1.
        layers: the names, as in `model.named_modules()`, of linear layers or convolutions, each called once, one after
            the other; all of the network if None, which takes one without branches.
        memory: bytes to use; 512 MiB unless told. Samples are taken in chunks that fit.
    Returns:
        One number a layer, in the dtype of the features; infinite where class means coincide. No graph is kept.
    Raises:
        UnsupportedModuleError: if a layer is none with a weight, is not called once, or does not lie behind the one
            before, or if BatchNorm in training mode mixes the samples.
        ShapeError: if labels are not (n), or the outputs not (n, k).
        EmptyError: if there are no samples, or none of some class, which is named.
        RangeError: at NaN or infinity, at a label that is no class, at a name that is no layer's, or at one output.
    Cost: two forward passes, and a singular value decomposition a weight; O(k p) memory a layer of p outputs.
    Example:
        >>> import torch, gnomon
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.ReLU(), torch.nn.Linear(2, 2))
        >>> model[0].weight.data = torch.diag(torch.tensor([1.0, 0.5]))
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 2.0], [3.0, 0.0], [3.0, 2.0]])
        >>> gnomon.layer_collapse(model, x, torch.tensor([0, 0, 1, 1])).by_weight[0]
        tensor(0.2500)
    """
    where = "layer_collapse"
    _checks.floating(where, x=x)
    _checks.samples(where, x=x)
    _checks.finite(where, x=x)
    named = named_weights(where, model, layers)
    require_independent_samples(where, model, x)
    require_samples_in_order(where, model, x, named.values())
    size = chunk_size(where, model, x, jacobian=False, budget=memory)
    walk = Walk(where, named)
    with walk.watching(walk.record):
        outputs = forward(where, model, x[:2].detach()).logits
    order = walk.path(outputs)
    check_samples(where, x, labels, outputs.shape[1])
    for start in range(0, len(x), size):
        with torch.no_grad(), walk.comparing(outputs.shape[1], labels[start : start + size].long()) as add:
            add("", "outputs", run(where, model, x[start : start + size]))
    spreads = walk.spreads
    _checks.every_class(where, spreads["", "outputs"].moments.counts)
    before = [spreads[name, "before"] for name in order]
    after = [*(spreads[name, "given"] for name in order[1:]), spreads["", "outputs"]]

    def table(measure: Callable[[Spread], Tensor], places: list[Spread]) -> Float[Tensor, "l"]:
        return torch.stack([measure(spread) for spread in places]).to(outputs.dtype)

    return LayerCollapse(
        tuple(order),
        nc1_input=table(Spread.nc1, [spreads[name, "input"] for name in order]),
        nc1_right=table(Spread.nc1, [spreads[name, "right"] for name in order]),
        nc1_before=table(Spread.nc1, before),
        nc1_after=table(Spread.nc1, after),
        nc2_orthogonal_before=table(Spread.orthogonal, before),
        nc2_orthogonal_after=table(Spread.orthogonal, after),
        nc2_etf_before=table(Spread.etf, before),
        nc2_etf_after=table(Spread.etf, after),
    )


class Spread:
    """Counts, means and the trace of the scatter of classes, of features that come in batches; kept in float64."""

    def __init__(self, classes: int, like: Float[Tensor, "n p"]) -> None:
        self.moments = nothing(classes, like[:0].double())
        self.within = self.moments.within.trace()

    def add(self, rows: Float[Tensor, "n p"], labels: Int[Tensor, "n"]) -> None:
        """Takes in one batch."""
        counts, means, deviations = further(self.moments.counts, self.moments.means, rows, labels)
        self.moments = ClassMoments(counts, means, self.moments.within)
        self.within = self.within + deviations.square().sum()

    def nc1(self) -> Float[Tensor, ""]:
        """As `nc1_trace_ratio` has it."""
        return self.within / self.moments.n / self.moments.between_covariance.trace()

    def orthogonal(self) -> Float[Tensor, ""]:
        """`nc2_orthogonal` of the means."""
        return nc2_orthogonal(self.moments.means)

    def etf(self) -> Float[Tensor, ""]:
        """`nc2_etf` of the means."""
        return nc2_etf(self.moments.means)


@dataclass(frozen=True)
class Layer:
    r"""What a layer with a weight does with other weights, by which its parts are measured.

    Attributes:
        right: the layer without its bias, with $SV^\top$ for W.
        ones: the same with ones for W and one output, whose gradient tells in how many patches each entry of the input
            stands.
    """

    right: Callable[[Tensor], Tensor]
    ones: Callable[[Tensor], Tensor]

    def patches(self, features: Float[Tensor, "n *p"]) -> Float[Tensor, "n *p"]:
        """The input, each entry times the root of the number of patches in which it stands."""
        one = torch.zeros_like(features[:1])
        outputs, back, *_ = torch.func.vjp(self.ones, one)
        return features * back(torch.ones_like(outputs))[0].sqrt()


def parts(module: nn.Module) -> Layer:
    """The parts of the layer as its weight is now."""
    weight = weight_of(module)
    grouped = at_least_single(weight.flatten(1)).reshape(getattr(module, "groups", 1), -1, weight[0].numel())
    _, values, rows = torch.linalg.svd(grouped, full_matrices=False)
    right = (values.unsqueeze(2) * rows).to(weight).reshape(-1, *weight.shape[1:])
    ones = torch.ones_like(weight[: len(values)])
    return Layer(with_weight(module, right), with_weight(module, ones))


def with_weight(module: nn.Module, weight: Tensor) -> Callable[[Tensor], Tensor]:
    """What the layer would do with another weight and without a bias."""
    if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return lambda features: module._conv_forward(features, weight, None)
    return lambda features: functional.linear(features, weight)


class Walk:
    """The latest passes through a network, and the classes' moments at its layers."""

    def __init__(self, where: str, layers: dict[str, nn.Module]) -> None:
        self.where = where
        self.layers = layers
        self.parts: dict[str, Layer] = {}
        self.passed: list[tuple[str, Tensor, GradientEdge | None]] = []
        self.spreads: dict[tuple[str, str], Spread] = {}

    @contextmanager
    def watching(self, see: Callable[[str, Tensor, Tensor], None]) -> Iterator[None]:
        """Shows each layer's name, input and output in every forward pass inside."""

        def hook(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
            return lambda module, inputs, output: see(name, inputs[0], output)

        # Before other hooks, which may replace the output.
        handles = [layer.register_forward_hook(hook(name), prepend=True) for name, layer in self.layers.items()]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def record(self, name: str, features: Tensor, output: Tensor) -> None:
        """Keeps in which order layers are called, and where in the graph."""
        self.passed.append((name, features, get_gradient_edge(output) if output.requires_grad else None))

    def path(self, outputs: Tensor) -> list[str]:
        """The names in the order of the recorded pass.

        Raises:
            UnsupportedModuleError: if a layer is not called once, or does not lead to the next.
        """
        order = [name for name, _, _ in self.passed]
        for name in self.layers:
            if order.count(name) != 1:
                raise UnsupportedModuleError(
                    "layers",
                    "layers that are called once",
                    f"{name!r}, called {order.count(name)} times",
                    "Name others.",
                    where=self.where,
                )
        given = [*(features for _, features, _ in self.passed[1:]), outputs]
        following = [*map(repr, order[1:]), "the outputs"]
        for (name, _, output), features, called_next in zip(self.passed, given, following, strict=True):
            if not leads(output, features):
                raise UnsupportedModuleError(
                    "layers",
                    "layers one after the other",
                    f"{name!r}, which does not lead to {called_next}, called next",
                    "Name the layers of one path.",
                    where=self.where,
                )
        self.passed.clear()
        return order

    @contextmanager
    def comparing(self, classes: int, labels: Int[Tensor, "n"]) -> Iterator[Callable[[str, str, Tensor], None]]:
        """Adds to the moments at each layer what passes inside, of samples of these classes; gives how to add more."""

        def add(name: str, place: str, features: Tensor) -> None:
            # A lone sample has run beside itself.
            rows = at_least_single(features[: len(labels)].flatten(1))
            if (name, place) not in self.spreads:
                self.spreads[name, place] = Spread(classes, rows)
            self.spreads[name, place].add(rows, labels)

        def see(name: str, features: Tensor, output: Tensor) -> None:
            if name not in self.parts:
                # Not before its first pass, in which a hook may make the weight.
                self.parts[name] = parts(self.layers[name])
            add(name, "given", features)
            add(name, "input", self.parts[name].patches(features))
            add(name, "right", self.parts[name].right(features))
            add(name, "before", output)

        with self.watching(see):
            yield add


def leads(place: GradientEdge | None, features: Tensor) -> bool:
    """Whether the features depend on what is at the place."""
    if place is None or not features.requires_grad:
        return False
    ones = torch.ones_like(features)
    return torch.autograd.grad(features, [place], ones, retain_graph=True, allow_unused=True)[0] is not None
