"""linear-rfm: the recursion in which deep neural collapse can be proved, and the constants of its theorem (4.3)."""

import itertools
from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon import LinearDeepRFM
from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.agop_collapse._deep_rfm import share
from gnomon_lab.papers.agop_collapse.linear_rfm.page import SCALINGS, Scaling, claims, figures, printed, summary, table
from gnomon_lab.runs import Run
from gnomon_lab.settings import Count, Range, Settings, at_least

INTRODUCTION = """
A Deep RFM whose kernel and random features are linear except for a ridge can be solved. Each layer maps the Gram matrix
of the data to another one, and this recursion ends at the Gram matrix of the labels, which is deep neural collapse. The
kernel's ridge delays it, the features' ridge speeds it up; without a ridge in the kernel one layer is enough.

Theorem 4.3 says how fast, and how close. Its factor κ, which rescales every layer, comes from an error in the proof:
with it the recursion collapses as fast, but to a multiple of the labels' Gram matrix, whose distance from that matrix
is of the order of the ridge, not of its square. With the exact factor no distance is left at all.
"""


def rising(ridges: tuple[float, ...]) -> bool:
    """Whether each is above the one before, in the six digits by which arms are named."""
    return all(float(f"{a:g}") < float(f"{b:g}") for a, b in itertools.pairwise(ridges))


FROM_ZERO = Range(
    "0 and three more or further, rising in six digits",
    lambda ridges, _: ridges[:1] == (0.0,) and len(ridges) >= 4 and rising(ridges),
)
RISING = Range("above 0, rising in six digits", lambda ridges, _: bool(ridges) and ridges[0] > 0 and rising(ridges))


@dataclass(frozen=True)
class Config(Settings):
    """The setting of theorem 4.3."""

    classes: Annotated[int, at_least(2)] = 10
    """Number of classes of the one-hot labels."""
    samples: Count = 50
    """Samples per class: the eigenvalue of the labels' Gram matrix."""
    kernel_ridges: Annotated[tuple[float, ...], FROM_ZERO] = (0.0, 0.0005, 0.001, 0.002, 0.004, 0.05, 0.5, 5.0)
    """λ_k, what the kernel adds to the diagonal: 0 first, then rising."""
    feature_ridges: Annotated[tuple[float, ...], RISING] = (1.0, 3.0, 10.0)
    """λ_Φ, what the random features add, rising."""
    depth: Annotated[int, at_least(3)] = 150
    """Number of layers."""


SMALL = Config()
PAPER = Config(samples=500, kernel_ridges=(0.0, 0.00005, 0.0001, 0.0002, 0.0004, 0.05, 0.5, 5.0))


def run(config: Config, run: Run) -> None:
    """Runs the recursion for all ridges, from the same data."""
    n = config.classes * config.samples
    x = torch.randn(n, 2 * n, generator=torch.Generator().manual_seed(run.seed), dtype=torch.float64)
    gram, labels = x @ x.mT / x.shape[1], torch.arange(n) % config.classes
    for scaling, features, kernel in itertools.product(SCALINGS, config.feature_ridges, config.kernel_ridges):
        if scaling == "exact" or printed(kernel, features) > 0.5:
            recur(run, gram, labels, kernel, features, scaling, config.depth)


def recur(
    run: Run,
    gram: Float[Tensor, "n n"],
    labels: Int[Tensor, "n"],
    kernel_ridge: float,
    feature_ridge: float,
    scaling: Scaling,
    depth: int,
) -> None:
    """One recursion; if it is stopped, it starts over."""
    # As after a feature map, so that the least eigenvalue is at least its ridge: assumption 4.2.
    start = gram + feature_ridge * torch.eye(len(gram), dtype=gram.dtype)
    ridges = {"kernel_ridge": kernel_ridge, "feature_ridge": feature_ridge}
    rfm = LinearDeepRFM(start, labels, scaling=scaling, **ridges)
    for _ in run.steps(f"{scaling} {feature_ridge:g} {kernel_ridge:g}", 0):
        found = rfm.run(depth)
        run.require_finite(distance=found.distance)
        solved = {"rate": rfm.rate(), "limit": rfm.fixed_point(), "share": share(rfm)}
        size = {"scaling": scaling, "samples": rfm.samples, **ridges}
        factors = found.factors.flatten(1).square().sum(1) / len(labels)
        for layer, (distance, to_limit, factor) in enumerate(
            zip(found.distance.tolist(), found.to_limit.tolist(), factors.tolist(), strict=True), 2
        ):
            run.record(layer, distance=distance, to_limit=to_limit, factor=factor, **solved, **size)


EXPERIMENT = Experiment(EXPERIMENTS["linear-rfm"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims)
