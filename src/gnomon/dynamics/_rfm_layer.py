"""One layer of Deep RFM: a kernel machine, the root of its AGOP, random features, and what is read from them."""

from dataclasses import dataclass
from itertools import islice

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon.errors import ConvergenceError, RangeError
from gnomon.kernels import FeatureMap, Kernel, kernel_agop, over_pairs
from gnomon.linalg import psd_root, unit
from gnomon.measure import class_moments, nc1_trace_ratio, nc2_etf, nc2_orthogonal

JITTERS = 7
"""How often the jitter may grow by a factor of ten, from n epsilons."""


@dataclass(frozen=True)
class Collapse:
    """How far features have collapsed.

    Attributes:
        nc1: `nc1_trace_ratio`.
        nc2_orthogonal: `nc2_orthogonal` of the class means.
        nc2_etf: `nc2_etf` of the class means.
    """

    nc1: Float[Tensor, ""]
    nc2_orthogonal: Float[Tensor, ""]
    nc2_etf: Float[Tensor, ""]


@dataclass(frozen=True)
class DeepRFMStage:
    r"""Samples on their way through one layer.

    Attributes:
        layer: the layer's number l, from 0.
        inputs: $X_l$, rows of unit length.
        mapped: $X_l M_l^{1/2}$.
        features: $\Phi_l(X_l M_l^{1/2})$.
    """

    layer: int
    inputs: Float[Tensor, "n d"]
    mapped: Float[Tensor, "n d"]
    features: Float[Tensor, "n p"]


@dataclass(frozen=True)
class DeepRFMReading:
    """What was measured while a layer was fitted.

    Attributes:
        layer: the layer's number, from 0.
        inputs: the collapse of the layer's inputs.
        mapped: after the root of the AGOP.
        features: after the random features.
        jitter: what was added to the Gram matrix's diagonal of ones in addition to the ridge; 0 unless it was needed.
        misfit: the largest distance of the layer's kernel machine from the targets; above rounding with a ridge or
            jitter.
    """

    layer: int
    inputs: Collapse
    mapped: Collapse
    features: Collapse
    jitter: float
    misfit: float


@dataclass(frozen=True)
class RFMLayer:
    """A fitted layer: the root of the AGOP, the feature map's random numbers, and two figures of its fit."""

    root: Float[Tensor, "d d"]
    drawn: dict[str, Tensor]
    jitter: Float[Tensor, ""]
    misfit: Float[Tensor, ""]

    def run(self, layer: int, x: Float[Tensor, "n d"], feature_map: FeatureMap) -> DeepRFMStage:
        """Passes samples through the layer."""
        inputs = unit(x)
        mapped = inputs @ self.root
        return DeepRFMStage(layer, inputs, mapped, feature_map.apply(mapped, self.drawn))

    def read(self, stage: DeepRFMStage, labels: Int[Tensor, "n"], classes: int) -> DeepRFMReading:
        """The collapse of the samples on their way through the layer."""
        on_the_way = (stage.inputs, stage.mapped, stage.features)
        inputs, mapped, features = (_collapse(seen, labels, classes) for seen in on_the_way)
        return DeepRFMReading(stage.layer, inputs, mapped, features, float(self.jitter), float(self.misfit))


def fit_layer(
    layer: int,
    kernel: Kernel,
    x: Float[Tensor, "n d"],
    targets: Float[Tensor, "n k"],
    *,
    ridge: float | int,
    iterations: int,
    drawn: dict[str, Tensor],
    block: int,
) -> RFMLayer:
    r"""The layer for these inputs.

    Each iteration fits a kernel machine and uses the AGOP M, scaled to the identity's trace so that the bandwidth keeps
    its meaning, as the next one's metric. The last AGOP is used as it is.
    """
    inputs, metric = unit(x), None
    if ridge == 0:
        require_distinct(inputs, f"layer {layer}")
    for iteration in range(iterations):
        coefficients, jitter, misfit = interpolate(kernel, inputs, targets, ridge, metric, block)
        agop = kernel_agop(kernel, inputs, coefficients, metric)
        trace = agop.diagonal().sum()
        if not trace > 0:
            raise RangeError(
                "kernel",
                "a kernel machine that changes at its points",
                f"an AGOP of trace {float(trace)} at iteration {iteration}",
                "Take a larger bandwidth.",
            )
        metric = agop * (len(agop) / trace)
    return RFMLayer(psd_root(agop), drawn, jitter, misfit)


def interpolate(
    kernel: Kernel,
    x: Float[Tensor, "n d"],
    targets: Float[Tensor, "n k"],
    ridge: float | int,
    metric: Float[Tensor, "d d"] | None,
    block: int,
) -> tuple[Float[Tensor, "n k"], Float[Tensor, ""], Float[Tensor, ""]]:
    r"""The coefficients $\alpha = (K + \mu I)^{-1}Y$ by Cholesky, the jitter that it needed, and the largest misfit."""
    n = len(x)
    gram = over_pairs(kernel.value, x, metric, block)
    least = n * torch.finfo(x.dtype).eps
    for jitter in (0.0, *(least * 10**power for power in range(JITTERS))):
        gram.diagonal().fill_(1 + ridge + jitter)
        factor, failed = torch.linalg.cholesky_ex(gram)
        if not failed:
            break
    else:
        raise ConvergenceError(
            "ridge",
            "a positive definite Gram matrix",
            f"one that is not even with {jitter:.0e} on its diagonal",
            "Take a ridge or a smaller bandwidth.",
        )
    coefficients = torch.cholesky_solve(targets, factor)
    misfit = (gram.fill_diagonal_(1) @ coefficients - targets).abs().max()
    return coefficients, x.new_tensor(jitter), misfit


def require_distinct(x: Float[Tensor, "n d"], where: str) -> None:
    """Raises a RangeError that names equal inputs of unit length, for which there is no ridgeless solution."""
    # Not by the kernel, which is 1 for points that are close enough: all pairs, once features have collapsed.
    kinds, kind, counts = torch.unique(x, dim=0, return_inverse=True, return_counts=True)
    if len(kinds) == len(x):
        return
    repeated = (counts[kind] > 1).nonzero()[:, 0].tolist()
    pairs = ((i, i + 1 + j) for i in repeated for j in (kind[i + 1 :] == kind[i]).nonzero()[:, 0].tolist())
    named = ", ".join(f"{i} and {j}" for i, j in islice(pairs, 3))
    others = int((counts * (counts - 1)).sum()) // 2 - 3
    more = f" and {others} more pairs" if others > 0 else ""
    several = int(x.any(0).sum()) > 1
    raise RangeError(
        "X",
        f"inputs of {where} that differ when scaled to unit length, since without a ridge the Gram matrix of equal "
        "ones is singular",
        f"equal ones at points {named}{more}",
        "Take a ridge above 0, or "
        + ("leave one of each out." if several else "more features that vary: one alone has two directions."),
    )


def _collapse(features: Float[Tensor, "n p"], labels: Int[Tensor, "n"], classes: int) -> Collapse:
    """NC1 and both forms of NC2."""
    moments = class_moments(features, labels, classes)
    there = moments.present()
    return Collapse(nc1_trace_ratio(moments), nc2_orthogonal(there.means), nc2_etf(there.centred_means))
