"""central-path: free features flow into neural collapse, each of two flows along its closed form (proposition 2)."""

import itertools
from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import (
    CentralPath,
    CentralPathRun,
    class_moments,
    least_squares_classifier,
    nc1,
    nearest_mean_disagreement,
    self_duality,
    snr_growth,
)
from gnomon.dynamics import Projection
from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.mse_collapse.central_path.page import FLOWS, SIMPLEX, claims, figures, summary, table
from gnomon_lab.runs import Run
from gnomon_lab.settings import Count, Range, Settings, between

INTRODUCTION = """
On the central path features move freely, under a classifier that is the least-squares one at every moment. The paper
renormalises them continuously, so that the within-class covariance stays the identity, and solves the flow: the
singular values ω of the class means, which are the signal-to-noise ratio, grow without bound and become equal, and the
class means become a simplex. This is neural collapse.

Two flows start here from the same random features. They differ in how the gradient is projected onto features with
identity within-class covariance. Proposition 2 is the law of the orthogonal projection. The projection that the paper
defines, a gradient step followed by renormalisation, is a different one, with a law of its own: its ω grow much faster.
By their closed forms both flows end in neural collapse, NC1 to NC4.
"""

SIZE = Range(
    "C and N of at least 2 and from C - 1 to C (N - 1) dimensions",
    lambda size, _: min(size[:2]) >= 2 and size[0] - 1 <= size[2] <= size[0] * (size[1] - 1),
)
"""In fewer dimensions C class means are no simplex; in more Σ_W, of rank C (N - 1) at most, is not invertible."""


@dataclass(frozen=True)
class Config(Settings):
    """The setting of the central path."""

    sizes: tuple[Annotated[tuple[int, int, int], SIZE], ...] = ((3, 10, 4), (5, 20, 16), (10, 100, 64))
    """Classes C, samples N per class, and dimensions of the features, from C - 1 to C (N - 1)."""
    decades: Annotated[int, between(1, 12)] = 10
    """The flows end at time 10 to this power."""
    readings: Count = 4
    """Readings in each factor of ten of the time."""


SMALL = Config()
PAPER = Config(sizes=((3, 10, 4), (5, 20, 16), (10, 100, 64), (10, 500, 64), (100, 20, 128)), decades=12)


def run(config: Config, run: Run) -> None:
    """Integrates both flows of every size, from the same features."""
    powers = range(config.decades * config.readings + 1)
    times = sorted({0, *(round(10 ** (power / config.readings)) for power in powers)})
    for size, projection in itertools.product(config.sizes, FLOWS):
        integrate(run, size, projection, torch.tensor(times, dtype=torch.float64))


def integrate(run: Run, size: tuple[int, int, int], projection: Projection, times: Float[Tensor, "t"]) -> None:
    """One flow, with its closed form and proposition 2 next to it; if it is stopped, it starts over."""
    generator = torch.Generator().manual_seed(run.seed)
    path = CentralPath(torch.randn(*size, dtype=torch.float64, generator=generator), projection=projection)
    for _ in run.steps(f"{'x'.join(map(str, size))} {projection}", 0, generator=generator):
        flow = path.flow(times)
        run.require_finite(loss=flow.loss)
        series = {
            "omega": flow.singular_values,
            "closed_form": path.closed_form(times),
            "proposition_2": snr_growth(flow.singular_values[0], times, *size[:2]),
            "power_law": path.asymptote(times)[:, None].expand_as(flow.singular_values),
            "turned": turned(flow.snr),
            "from_limit": from_limit(flow, path.limit()),
            "loss": flow.loss,
            "drift": flow.drift,
        }
        for at, time in enumerate(times.tolist()):
            collapse = {measure.__name__: float(measure(flow.snr[at].mT)) for measure in SIMPLEX}
            collapse |= with_classifier(flow.features[at])
            run.record(int(time), **{name: values[at].tolist() for name, values in series.items()}, **collapse)


def with_classifier(features: Float[Tensor, "k n p"]) -> dict[str, float]:
    """NC1 of the features, and with their least-squares classifier NC3 and NC4."""
    classes, samples, _ = features.shape
    rows, labels = features.flatten(0, 1), torch.arange(classes).repeat_interleave(samples)
    moments = class_moments(rows, labels, classes)
    best = least_squares_classifier(moments)
    disagreement = nearest_mean_disagreement(rows, rows @ best.weight.mT + best.bias, moments).double().mean()
    numbers = {"nc1": nc1(moments), "self_duality": self_duality(best.weight, moments), "disagreement": disagreement}
    return {name: float(value) for name, value in numbers.items()}


def turned(snr: Float[Tensor, "t p k"]) -> Float[Tensor, "t"]:
    """The largest sine between the image of a right singular vector of the first ratio and its left counterpart.

    Zero exactly where both are still singular vectors, since the columns sum to zero. The singular vectors of later
    ratios cannot be compared with the first ones, since all singular values become equal.
    """
    left, _, right = torch.linalg.svd(snr[0], full_matrices=False)
    rank = snr.shape[2] - 1
    partners, images = left[:, :rank], snr @ right[:rank].mT
    across = images - partners * (partners * images).sum(1, keepdim=True)
    return (across.norm(dim=1) / images.norm(dim=1)).amax(1)


def from_limit(flow: CentralPathRun, limit: Float[Tensor, "p k"]) -> Float[Tensor, "t"]:
    """Equation 10: the spectral distance of the ratios, over their largest singular values, from the limit."""
    return torch.linalg.matrix_norm(flow.snr / flow.singular_values[:, :1, None] - limit, 2)


EXPERIMENT = Experiment(EXPERIMENTS["central-path"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims)
