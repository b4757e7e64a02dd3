"""init-scaling: how the size of the weights or of the output at the start decides the alignment reached (figure 10)."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from scipy.stats import spearmanr
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from gnomon import centroid_alignment, centroid_rate, log_spaced
from gnomon.data import Samples
from gnomon.models import mlp
from gnomon_lab.experiment import Experiment
from gnomon_lab.figures import Figure, Points, Scatter, ScatterPanel
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.grokalign import _zeros_and_ones
from gnomon_lab.papers.grokalign._zeros_and_ones import binary_cross_entropy, first_one, zeros_and_ones
from gnomon_lab.runs import Cells, Claim, Record, Run, Seeds, over_seeds
from gnomon_lab.settings import Range
from gnomon_lab.training import fit

MECHANISMS = ("output", "weights")
SOURCE = "Walker et al., arXiv:2506.12284, figure 10"
STRONG = 0.5
"""The least |Spearman correlation| that counts as a correlation; the paper shows a scatter plot and no number."""
INTRODUCTION = """
The setting of ntk-regime, repeated many times from one start: either all initial weights are multiplied by a scale, or
the output is, before and during training. Both make the neural tangent kernel larger, so that the inner product of a
digit with its centroid moves faster, and both make the centroid longer, so that less of this inner product becomes
alignment.

The paper says that the second matters more: the shorter the initial centroids, the better the alignment that is
reached, and scaling the output achieves this better than scaling the weights. But with ReLUs and no biases the two are
one: with L layers the output times S at a learning rate is the weights times S^(1/L) at S^(2/L) times this rate.
"""

SCALES = Range(
    "two or more, finite and above 0",
    lambda scales, _: len(scales) > 1 and all(0 < scale < math.inf for scale in scales),
)


@dataclass(frozen=True)
class Config(_zeros_and_ones.Config):
    """The setting of figure 10, with networks as in ntk-regime."""

    scales: Annotated[tuple[float, ...], SCALES] = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
    """Scales of each mechanism; the paper does not print its own."""


SMALL = Config()
PAPER = Config(scales=tuple(2 ** (power / 2) for power in range(-8, 5)))


class Scaled(nn.Module):
    """A network whose output is multiplied by a constant.

    Args:
        network: the network.
        scale: the constant; a buffer, so that it can be stacked like the weights.
    """

    scale: Tensor

    def __init__(self, network: nn.Module, scale: float) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("scale", torch.tensor(scale))

    def forward(self, x: Tensor) -> Tensor:
        """The outputs, (n, c) as the network's."""
        return self.scale * self.network(x)


def stack(networks: Sequence[nn.Module]) -> nn.Module:
    """One module with the parameters and buffers of k networks of one shape, stacked along a new first axis."""
    whole, (weights, constants) = copy.deepcopy(networks[0]), stack_module_state(list(networks))
    for name, own in (*whole.named_parameters(), *whole.named_buffers()):
        own.data = (weights | constants)[name].detach()
    return whole


def outputs(stacked: nn.Module, x: Tensor) -> Tensor:
    """The outputs of all k networks (k n c): on the samples x (n d), or each on its own samples, x (k n d)."""

    def one(state: dict[str, Tensor], x: Tensor) -> Tensor:
        found: Tensor = functional_call(stacked, state, (x,))
        return found

    state = dict(stacked.named_parameters()) | dict(stacked.named_buffers())
    return torch.vmap(one, in_dims=(0, 0 if x.ndim == 3 else None))(state, x)


def centroids(stacked: nn.Module, x: Tensor) -> Tensor:
    """The centroids (k n d) of all k networks at the samples x (n d)."""
    count = len(next(stacked.parameters()))
    leaf = x.expand(count, *x.shape).detach().requires_grad_()
    (found,) = torch.autograd.grad(outputs(stacked, leaf).sum(), leaf)
    return found


def sweep(config: Config, run: Run, train: Samples) -> list[Scaled]:
    """The initial networks: all scales of the output, then all of the weights, from one draw of the weights."""
    widths = (train.x.shape[1], *[config.width] * config.hidden, 1)

    def start(weights: float) -> nn.Module:
        return mlp(widths, scale=weights, generator=torch.Generator().manual_seed(run.seed)).to(train.x.dtype)

    return [Scaled(start(1.0), scale) for scale in config.scales] + [Scaled(start(s), 1.0) for s in config.scales]


def run(config: Config, run: Run) -> None:
    """Trains the networks of all scales at once: a batch of networks, one update per step."""
    train = zeros_and_ones(run, config.digits, torch.float32)
    networks, place = sweep(config, run, train), first_one(train)
    stacked, point = stack(networks), train.x[place : place + 1]
    optimizer = torch.optim.SGD(stacked.parameters(), config.learning_rate)
    labels = train.labels.repeat(len(networks))

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        # The sum over the networks of their losses, so that each has the gradient it would have alone.
        return len(networks) * binary_cross_entropy(logits, labels)

    for step in fit(
        run, "sweep", config.steps, stacked, optimizer, lambda step: [(train.x, labels)], loss,
        due=log_spaced(config.readings), forward=lambda x: outputs(stacked, x).flatten(0, 1),
    ):  # fmt: skip
        found = centroid_alignment(centroids(stacked, point)[:, 0], point.expand(len(networks), -1))
        at_start = starts(networks, stacked, train, point, config) if step == 0 else {}
        run.record(step, alignment=found.tolist(), **at_start)


def starts(
    networks: Sequence[nn.Module], stacked: nn.Module, train: Samples, point: Tensor, config: Config
) -> dict[str, object]:
    """For each network: mechanism and scale, the mean reciprocal centroid norm, theorem 9's rate at the point."""
    reciprocal = 1 / torch.linalg.vector_norm(centroids(stacked, train.x), dim=2)
    with torch.no_grad():
        rates = [centroid_rate(n, point, train.x, train.labels, binary_cross_entropy).item() for n in networks]
    mechanisms = [mechanism for mechanism in MECHANISMS for _ in config.scales]
    scales = [*config.scales] * len(MECHANISMS)
    return {"mechanism": mechanisms, "scale": scales, "reciprocal": reciprocal.mean(1).tolist(), "rate": rates}


@dataclass(frozen=True)
class Trained:
    """One network of the sweep: its start, and the best alignment that it reached.

    Attributes:
        mechanism: what was scaled, of `MECHANISMS`.
        scale: by how much.
        reciprocal: 1 / the norm of the initial centroid, averaged over the training digits.
        speed: of the followed digit's initial inner product: |rate| by theorem 9, per unit of learning rate.
        best: the largest alignment of the followed digit over all readings.
        step: at which it was read.
    """

    mechanism: str
    scale: float
    reciprocal: float
    speed: float
    best: float
    step: int


def trained(records: Sequence[Record]) -> list[Trained]:
    """All networks of the sweep."""
    start = records[0]
    found = []
    for k, (mechanism, scale) in enumerate(zip(start["mechanism"], start["scale"], strict=True)):
        best, step = max((record["alignment"][k], -record["step"]) for record in records)
        found.append(Trained(mechanism, scale, start["reciprocal"][k], abs(start["rate"][k]), best, -step))
    return found


def of(records: Sequence[Record], mechanism: str) -> list[Trained]:
    """The networks of one mechanism, from the smallest scale to the largest."""
    return sorted((n for n in trained(records) if n.mechanism == mechanism), key=lambda n: n.scale)


def correlation(records: Sequence[Record]) -> float:
    """Spearman's correlation of reciprocal norm and best alignment over all networks of the sweep."""
    networks = trained(records)
    return float(spearmanr([n.reciprocal for n in networks], [n.best for n in networks]).statistic)


def ahead(records: Sequence[Record]) -> list[float]:
    """How much better scaled outputs align than scaled weights whose centroids are as long at the start.

    At other lengths, which does better depends on how small the scales are that one tries. Where neither is scaled the
    two are one network; elsewhere one network at two learning rates, with two layers the output's scale times as large.
    """
    output, weights = ([n for n in of(records, mechanism) if n.scale != 1] for mechanism in MECHANISMS)
    return [
        one.best - other.best
        for one in output
        for other in weights
        if math.isclose(one.reciprocal, other.reciprocal, rel_tol=1e-3)
    ]


def table(records: Sequence[Record]) -> Cells:
    """A row for each network."""
    columns = ("", "1 / centroid norm", "initial speed", "best alignment", "at step")
    return columns, [
        (f"{n.mechanism} × {n.scale:.3g}", f"{n.reciprocal:.3g}", f"{n.speed:.3g}", f"{n.best:.3f}", f"{n.step:,}")
        for mechanism in MECHANISMS
        for n in of(records, mechanism)
    ]


def summary(records: Sequence[Record]) -> str:
    """The result in two sentences."""
    output, weights = (max(of(records, mechanism), key=lambda n: n.best) for mechanism in MECHANISMS)
    return (
        f"The best alignment is {output.best:.2f} with the output × {output.scale:.3g}, and {weights.best:.2f} with "
        f"the weights × {weights.scale:.3g}. Spearman's correlation of the best alignment with the reciprocal "
        f"centroid norm at the start is {correlation(records):.2f}."
    )


def figures(records: Sequence[Record]) -> list[Figure]:
    """Figure 10: its left half above, its right half below."""

    def points(mechanism: str, x: str, y: str, *, joined: bool) -> Points:
        networks = of(records, mechanism)
        xs, ys = (tuple(getattr(n, name) for n in networks) for name in (x, y))
        values = None if joined else tuple(n.best for n in networks)
        return Points(f"{mechanism} scaled", xs, ys, values, joined, MECHANISMS.index(mechanism))

    speed = tuple(points(mechanism, "reciprocal", "speed", joined=False) for mechanism in MECHANISMS)
    reached = tuple(points(mechanism, "scale", "best", joined=True) for mechanism in MECHANISMS)
    above = ScatterPanel(
        "Speed against shortness at the start",
        "mean 1 / centroid norm (inputs per output)",
        "|rate| by theorem 9",
        speed,
        log_x=True,
        log_y=True,
    )
    below = ScatterPanel("Best alignment", "scale", "cosine", reached, log_x=True)
    return [
        Scatter(
            "scaling",
            "Short centroids at the start, or fast inner products",
            "Above, at the start: how fast theorem 9 says that the inner product of the followed digit moves, in "
            "outputs per step and unit of learning rate, against how short the centroids are; the colour is the best "
            "alignment reached in training. Below: that alignment against the scale of each mechanism.",
            (above, below),
            "best alignment",
        )
    ]


def claims(seeds: Seeds) -> list[Claim]:
    """What figure 10 and its text say of training, over all finished seeds.

    That fast inner products and short centroids exclude each other at the start is no claim: on random labels they do
    too, since a scale multiplies the centroid by itself and the kernel by its square.
    """
    aligned = [correlation(records) for records in seeds]
    leads = [min(ahead(records), default=math.nan) for records in seeds]
    return [
        Claim(
            "the reciprocal centroid norm at the start correlates with the best alignment: Spearman's correlation",
            SOURCE,
            f"at least {STRONG}",
            over_seeds(aligned, ".2f"),
            min(aligned) >= STRONG,
        ),
        Claim(
            "scaling the output reaches a higher alignment than scaling the weights to the same centroid norm, at one "
            "learning rate: the least difference",
            SOURCE,
            "above 0",
            over_seeds(leads, "+.4f"),
            all(lead > 0 for lead in leads),
        ),
    ]


EXPERIMENT = Experiment(EXPERIMENTS["init-scaling"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims)
