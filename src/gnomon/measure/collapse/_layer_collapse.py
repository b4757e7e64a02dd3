"""Which part of each layer collapses the classes: its weight, or the nonlinearity after it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gnomon import _checks
from gnomon._precision import full_precision, in_single
from gnomon.autodiff import by_patches, show_layers, weight_of, weight_path, with_weight
from gnomon.measure._by_class import check_classes, check_samples, further, warn_without_spread
from gnomon.measure._moments import ClassMoments
from gnomon.measure.collapse._nc2_etf import nc2_etf
from gnomon.measure.collapse._nc2_orthogonal import nc2_orthogonal


@dataclass(frozen=True)
class LayerCollapse:
    r"""Neural collapse before and after the nonlinearity of each layer, and what its weight has to do with it.

    NC1 is `nc1_trace_ratio` here, as in the source, and not `nc1`.

    Attributes:
        layers: the layers' names, in the order in which they are called.
        nc1_input: $\operatorname{tr}\Sigma_W/\operatorname{tr}\Sigma_B$ of $\Phi$, the rows or patches that the weight
            $W = USV^\top$ is multiplied with.
        nc1_right: the same for $SV^\top\Phi$.
        nc1_before: the same for $W\Phi + b$, before the nonlinearity; equal to the previous one, since U preserves
            lengths.
        nc1_after: the same for the input of the next of these layers, or of the network's outputs after the last: after
            the nonlinearity, and after normalisation, pooling or a residual sum where these come in between.
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
    layers: str | Sequence[str] | None = None,
    memory: int | None = None,
) -> LayerCollapse:
    r"""NC1 and NC2 before and after the nonlinearity of each layer, and NC1 between the parts of its weight.

    Reading:
        Low, high: Low after a layer: the classes are points there. The contributions of the weight and of the
            nonlinearity are listed separately.
        Generalising: On digits every layer contributes in a network that generalises, with 0.16 after the third; 4.4
            there in one that memorised, where the last layer does all of it.
        Misleads: At the outputs: collapse is complete there in both.

    $\Phi \to SV^\top\Phi \to \sigma(USV^\top\Phi)$, NC1 = $\operatorname{tr}\Sigma_W/\operatorname{tr}\Sigma_B$

    Since U has orthonormal columns, $W\Phi$ has the same NC1 as $SV^\top\Phi$: a weight can only collapse classes by
    its small singular values, in whose directions samples differ within classes. A convolution multiplies patches: its
    input counts each pixel once per patch, so that a unitary one leaves NC1 unchanged; patches are not formed.

    Source:
        Beaglehole et al., arXiv:2402.13728, section 5 and definition 3.1. Departs from it in the weights $n_c/n$ for
        unequal classes.
    Args:
        model: a network to (n k), one output per class, whose samples do not mix.
        x: the samples.
        labels: their classes, 0 to k - 1; classes without samples are left out, with a warning, as
            there is where none has two.
        layers: the name, or names, as in `model.named_modules()`, of linear layers or convolutions, each called once,
            one after the other; all of the network's if None, which requires a network without branches. Transposed
            convolutions are not among them: they are part of what comes between two.
        memory: bytes to use; default: 512 MiB. Samples are processed in chunks that fit.
    Returns:
        One number per layer, at least 0, in the dtype of the features; NC1 is infinite where class means coincide, and
        not a number where all samples do, as behind a dead layer, or where float64 does not hold the squares of the
        features. No graph is kept.
    Raises:
        UnsupportedModuleError: if a layer is not one of these, is not called exactly once, or does not follow the
            previous one, or if in training mode BatchNorm mixes the samples or Dropout draws random numbers.
        ShapeError: if labels are not (n), the outputs not (n, k), or a layer's input does not have one row per sample.
        EmptyError: if there are no samples, or all are of one class.
        RangeError: at NaN or infinity, at a label that is not a class, at a name that is not a layer's, or at a single
            output.
    Cost: two forward passes, and a singular value decomposition per weight; O(k p) memory per layer of p outputs.
    Example:
        >>> import torch, gnomon
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.ReLU(), torch.nn.Linear(2, 2))
        >>> model[0].weight.data = torch.diag(torch.tensor([1.0, 0.5]))
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 2.0], [3.0, 0.0], [3.0, 2.0]])
        >>> gnomon.layer_collapse(model, x, torch.tensor([0, 0, 1, 1])).by_weight[0]
        tensor(0.2500)
    """
    _checks.samples(x=x)
    _checks.finite(x=x)
    path, outputs = weight_path(model, x, layers)
    check_samples(x, labels, outputs.shape[1])
    spreads: dict[tuple[str | None, str], _Spread] = {}
    rights: dict[str, Tensor] = {}

    def add(name: str | None, place: str, rows: slice, features: Tensor) -> None:
        # A single sample was run together with a copy of itself.
        classes = labels[rows].long()
        features = in_single(features[: len(classes)].flatten(1))
        _checks.finite(features=features)
        if (name, place) not in spreads:
            spreads[name, place] = _Spread(outputs.shape[1], features)
        spreads[name, place].add(features, classes)

    def see(rows: slice, name: str | None, given: Tensor, output: Tensor) -> None:
        add(name, "given", rows, given)
        if name is not None:
            layer = path[name]
            if name not in rights:
                # Not before its first pass, in which a hook may create the weight.
                rights[name] = _right(layer)
            add(name, "input", rows, by_patches(layer, given))
            add(name, "right", rows, with_weight(layer, rights[name], given))
            add(name, "before", rows, output)

    show_layers(model, x, path, see, memory=memory)
    counts = spreads[None, "given"].moments.counts
    check_classes(counts)
    warn_without_spread("NC1 in layer_collapse", counts)
    before = [spreads[name, "before"] for name in path]
    after = [spreads[name, "given"] for name in [*list(path)[1:], None]]

    def table(measure: Callable[[_Spread], Tensor], places: list[_Spread]) -> Float[Tensor, "l"]:
        return torch.stack([measure(spread) for spread in places]).to(outputs.dtype)

    return LayerCollapse(
        tuple(path),
        nc1_input=table(_Spread.nc1, [spreads[name, "input"] for name in path]),
        nc1_right=table(_Spread.nc1, [spreads[name, "right"] for name in path]),
        nc1_before=table(_Spread.nc1, before),
        nc1_after=table(_Spread.nc1, after),
        nc2_orthogonal_before=table(_Spread.orthogonal, before),
        nc2_orthogonal_after=table(_Spread.orthogonal, after),
        nc2_etf_before=table(_Spread.etf, before),
        nc2_etf_after=table(_Spread.etf, after),
    )


class _Spread:
    """Counts, means and scatter trace of the classes, for features that come in batches; kept in float64."""

    def __init__(self, classes: int, like: Float[Tensor, "n p"]) -> None:
        self.moments = ClassMoments.none(classes, like[:0].double())
        self.within = self.moments.within.trace()

    def add(self, rows: Float[Tensor, "n p"], labels: Int[Tensor, "n"]) -> None:
        """Adds one batch."""
        counts, means, deviations = further(self.moments.counts, self.moments.means, rows, labels)
        self.moments = ClassMoments(counts, means, self.moments.within)
        self.within = self.within + torch.linalg.vector_norm(deviations, dtype=torch.float64).square()

    def nc1(self) -> Float[Tensor, ""]:
        """The ratio of traces, as in `nc1_trace_ratio`."""
        return self.within / self.moments.n / self.moments.between_covariance.trace()

    def orthogonal(self) -> Float[Tensor, ""]:
        """`nc2_orthogonal` of the means."""
        return nc2_orthogonal(self.moments.present().means)

    def etf(self) -> Float[Tensor, ""]:
        """`nc2_etf` of the means."""
        return nc2_etf(self.moments.present().means)


def _right(layer: nn.Module) -> Float[Tensor, "q *p"]:
    r"""$SV^\top$ of the layer's current weight, separately for each group of a convolution."""
    weight = weight_of(layer)
    _checks.finite(weight=weight)
    grouped = in_single(weight.flatten(1)).reshape(getattr(layer, "groups", 1), -1, weight[0].numel())
    _, values, rows = torch.linalg.svd(grouped, full_matrices=False)
    return (values.unsqueeze(2) * rows).to(weight).reshape(-1, *weight.shape[1:])
