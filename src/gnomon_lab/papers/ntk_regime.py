"""ntk-regime: a sample's inner product with its centroid, and the neural tangent kernel that moves it (figure 3)."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from gnomon import (
    FeatureLearningInterval,
    Probe,
    _checks,
    centroid_alignment,
    centroid_inner_product,
    centroid_rate,
    feature_learning_interval,
    log_spaced,
    ntk,
    ntk_to_point,
)
from gnomon.data import Samples
from gnomon.models import mlp
from gnomon.plot import Curves, Figure, Line, Mark, Panel
from gnomon_lab.papers.mnist import mnist_rows
from gnomon_lab.runs import Claim, Record, Run, over_seeds, series

NETWORK, CONSTANT = "network", "constant kernel"
SOURCE = "Walker et al., arXiv:2506.12284"
PREDICTED = 0.05
"""Theorem 9 is of a derivative and a step is finite; the paper prints no number, and sees no difference in a plot."""
REST = 0.1
"""What counts as rest: feature_learning_interval's own tolerance."""
INTRODUCTION = """
A network with one output learns to tell zeros from ones. One training digit x is followed: the mean of its neural
tangent kernel to the other digits, its inner product with the centroid of its linear region, and its alignment with it.

Theorem 9 says how fast the inner product moves: by the kernel, weighted with what is still wrong at each digit. The
paper reads a moving inner product as a moving kernel, that is, as feature learning. That does not follow, since the
inner product moves under a constant kernel too; so the same start is also trained with its kernel held constant, and
what the network does beyond that is what feature learning adds.
"""


@dataclass(frozen=True)
class Config:
    """The setting of figure 3."""

    digits: int = 1024
    """The zeros and ones among the first so many of MNIST's training digits; the paper names no number."""
    width: int = 64
    """Of each hidden layer; the figure names none, the authors' code has 64."""
    hidden: int = 1
    """Hidden layers: the paper says two-layer, which is 1; the authors' code has 2."""
    learning_rate: float = 0.01
    """Of full-batch gradient descent."""
    steps: int = 4000
    """Of gradient descent."""
    readings: int = 24
    """Readings in each factor of ten of the steps."""
    threads: int = 1
    """Processor threads."""

    def __post_init__(self) -> None:
        _checks.settings(
            "ntk-regime",
            ("digits", self.digits, "from 10 to 60000", 10 <= self.digits <= 60_000),
            ("width", self.width, "at least 1", self.width >= 1),
            ("hidden", self.hidden, "at least 1", self.hidden >= 1),
            ("learning_rate", self.learning_rate, "finite and above 0", 0 < self.learning_rate < math.inf),
            ("steps", self.steps, "at least 1", self.steps >= 1),
            ("readings", self.readings, "at least 1", self.readings >= 1),
            ("threads", self.threads, "at least 1", self.threads >= 1),
        )


SMALL = Config()
PAPER = Config()
SETTINGS = (SMALL, PAPER)


def zeros_and_ones(run: Run, digits: int, dtype: torch.dtype) -> Samples:
    """The zeros and ones among the first training digits of MNIST, their labels in `dtype` as the loss takes them."""
    x, labels = mnist_rows(run, "train", digits, dtype)
    return Samples(x[labels <= 1], labels[labels <= 1].to(dtype))


def first_one(train: Samples) -> int:
    """The place of the digit that is followed. A one, since the paper's inner product rises, and a zero's falls."""
    return int(train.labels.argmax())


def binary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean over the samples; for networks with one output."""
    return functional.binary_cross_entropy_with_logits(logits[:, 0], labels)


def run(config: Config, run: Run) -> None:
    """Trains the network, and then the same start with its kernel held constant."""
    torch.set_num_threads(config.threads)
    train = zeros_and_ones(run, config.digits, torch.float64)
    train_network(config, run, train)
    hold_kernel(config, run, train)


def network(config: Config, run: Run, train: Samples) -> nn.Sequential:
    """The network at its start."""
    widths = (train.x.shape[1], *[config.width] * config.hidden, 1)
    return mlp(widths, generator=torch.Generator().manual_seed(run.seed)).to(train.x.dtype)


def train_network(config: Config, run: Run, train: Samples) -> None:
    """Gradient descent; a reading holds the state after a step, and what theorem 9 said of the step before it."""
    model, place = network(config, run, train), first_one(train)
    optimizer = torch.optim.SGD(model.parameters(), config.learning_rate)
    others = torch.cat([train.x[:place], train.x[place + 1 :]])

    def kernel(model: nn.Module, x: Tensor) -> Tensor:
        return ntk_to_point(model, others, x[0]).mean()

    def norm(centroid: Tensor) -> Tensor:
        return torch.linalg.vector_norm(centroid, dim=1)

    def predicted(model: nn.Module, x: Tensor) -> Tensor:
        return config.learning_rate * centroid_rate(model, x, train.x, train.labels, binary_cross_entropy)

    point, inner = train.x[place : place + 1], centroid_inner_product
    after = Probe(model, point, {"kernel": kernel, "inner": inner, "alignment": centroid_alignment, "norm": norm})
    before, due = Probe(model, point, {"inner_before": inner, "predicted": predicted}), log_spaced(config.readings)
    for step in run.steps(NETWORK, config.steps, model=model, optimizer=optimizer):
        if step == 0:
            run.record(step, after.read(step))
            continue
        reads = due(step) or step == config.steps
        readings = [before.read(step)] if reads else []
        loss = binary_cross_entropy(model(train.x), train.labels)
        run.require_finite(loss=loss)
        optimizer.zero_grad()
        torch.autograd.backward(loss, inputs=list(model.parameters()))
        optimizer.step()
        if reads:
            run.record(step, *readings, after.read(step), loss=loss.item())


def hold_kernel(config: Config, run: Run, train: Samples) -> None:
    """Gradient descent in the linear regime: the kernel of the start moves the outputs, as in theorem 9, and stays.

    Without biases the inner product of a sample with its centroid is the output.
    """
    model, place, due = network(config, run, train), first_one(train), log_spaced(config.readings)
    with torch.no_grad():
        kernel, start = ntk(model, train.x), model(train.x)[:, 0]
    weights = nn.Linear(len(start), 1, bias=False, dtype=start.dtype).requires_grad_(requires_grad=False)
    weights.weight.zero_()
    for step in run.steps(CONSTANT, config.steps, weights=weights):
        if step > 0:
            outputs = start + weights(kernel)[:, 0]
            run.require_finite(outputs=outputs)
            weights.weight += config.learning_rate / len(start) * (train.labels - outputs.sigmoid())
        if due(step) or step == config.steps:
            run.record(step, inner=(start + weights(kernel)[:, 0])[place].item())


def beyond(records: Sequence[Record]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """How far the network's inner product is from that under the constant kernel, at each reading."""
    steps, ours = series(records, NETWORK, "inner")
    return steps, tuple(a - b for a, b in zip(ours, series(records, CONSTANT, "inner")[1], strict=True))


def interval(records: Sequence[Record], name: str) -> FeatureLearningInterval:
    """Where the network's `name` moves."""
    return feature_learning_interval(*series(records, NETWORK, name), REST)


def moved(records: Sequence[Record]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The changes of the inner product over single steps, at each reading but the first."""
    steps, before = series(records, NETWORK, "inner_before")
    after = series(records, NETWORK, "inner")[1][1:]
    return steps, tuple(b - a for a, b in zip(before, after, strict=True))


def miss(records: Sequence[Record]) -> float:
    """How far theorem 9 is from the changes over single steps: the sum of the distances over that of the changes."""
    pairs = list(zip(moved(records)[1], series(records, NETWORK, "predicted")[1], strict=True))
    return sum(abs(m - p) for m, p in pairs) / sum(abs(m) for m, _ in pairs)


def share_inside(records: Sequence[Record]) -> float:
    """The share of the inner product's way, up and down, that it goes while the kernel moves."""
    kernel = interval(records, "kernel")
    if kernel.start is None or kernel.end is None:
        return 0.0
    readings = list(zip(*series(records, NETWORK, "inner"), strict=True))
    ways = [(a, b, abs(after - before)) for (a, before), (b, after) in itertools.pairwise(readings)]
    return sum(way for a, b, way in ways if kernel.start <= a and b <= kernel.end) / sum(way for *_, way in ways)


def beyond_interval(records: Sequence[Record]) -> FeatureLearningInterval:
    """Where the inner product leaves that under the constant kernel."""
    return feature_learning_interval(*beyond(records), REST)


def begins(found: FeatureLearningInterval) -> float:
    """The step from which it moves; infinity if it rests."""
    return math.inf if found.start is None else found.start


def words(found: FeatureLearningInterval) -> tuple[str, str]:
    """Start and end, for a table."""
    return ("rests", "rests") if found.start is None or found.end is None else (f"{found.start:,g}", f"{found.end:,g}")


def table(records: Sequence[Record]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Each quantity at both ends, and where it moves."""
    columns = ("", "step 0", "last step", "largest", "moves from step", "to step")
    shown = {
        "mean kernel to the other digits": (series(records, NETWORK, "kernel")[1], interval(records, "kernel")),
        "inner product": (series(records, NETWORK, "inner")[1], interval(records, "inner")),
        "beyond a constant kernel": (beyond(records)[1], beyond_interval(records)),
        "alignment": (series(records, NETWORK, "alignment")[1], interval(records, "alignment")),
        "centroid norm": (series(records, NETWORK, "norm")[1], interval(records, "norm")),
    }
    return columns, [
        (name, *(f"{value:z.2f}" for value in (values[0], values[-1], max(values))), *words(found))
        for name, (values, found) in shown.items()
    ]


def summary(records: Sequence[Record]) -> str:
    """The result in two sentences."""
    start, end = words(interval(records, "kernel"))
    return (
        f"Theorem 9 predicts the changes of the inner product over single steps to {miss(records):.2%}. "
        f"The kernel moves from step {start} to step {end}, and {share_inside(records):.0%} of the inner product's way "
        f"lies there."
    )


def figures(records: Sequence[Record]) -> list[Figure]:
    """Figure 3, with the rate that theorem 9 predicts, and what a constant kernel would do."""
    kernel = interval(records, "kernel")
    ends = (("kernel begins to move", kernel.start), ("kernel near its last value", kernel.end))
    marks = tuple(Mark(f"{name}, step {step:,g}", step, 2) for name, step in ends if step is not None)

    def line(name: str, arm: str = NETWORK, *, dashed: bool = False) -> Line:
        return Line(arm, *series(records, arm, name), dashed, int(arm == CONSTANT))

    change = (Line(NETWORK, *moved(records)), Line("theorem 9", *series(records, NETWORK, "predicted"), True, 4))
    return [
        Curves(
            "regime",
            "The inner product moves with the kernel, and without it too",
            "One training digit x, the first one. The regime of feature learning lies between the two marks: before "
            "them the mean kernel to the other digits is within a tenth of its largest value of its first value, after "
            "them of its last. Dashed: the inner product if the kernel of the start were held constant, and the "
            "change over each step that theorem 9 says.",
            "step of gradient descent",
            (
                Panel("Mean neural tangent kernel", "outputs² per parameter²", (line("kernel"),), marks),
                Panel(
                    "Inner product with the centroid",
                    "outputs",
                    (line("inner"), line("inner", CONSTANT, dashed=True)),
                    marks,
                ),
                Panel("Its change over one step", "outputs per step", change, marks),
                Panel("Centroid alignment", "cosine", (line("alignment"),), marks),
                Panel("Centroid norm", "outputs per input", (line("norm"),), marks),
            ),
        )
    ]


def claims(seeds: Sequence[Sequence[Record]]) -> list[Claim]:
    """What figure 3 and the text around it say, over all finished seeds."""
    theorem = [miss(records) for records in seeds]
    kernels = [interval(records, "kernel") for records in seeds]
    inside = [share_inside(records) for records in seeds]
    beyonds = [beyond_interval(records) for records in seeds]
    norms = [series(records, NETWORK, "norm")[1] for records in seeds]
    rests = [(interval(records, "alignment").end or 0, interval(records, "inner").end or 0) for records in seeds]
    return [
        Claim(
            "theorem 9's rate times the learning rate is the change of the inner product over a step: how far off",
            f"{SOURCE}, theorem 9 and figure 3",
            f"at most {PREDICTED:.0%}",
            over_seeds(theorem, ".2%"),
            max(theorem) <= PREDICTED,
        ),
        Claim(
            "there is a feature learning regime: by how much the mean kernel moves, as a share of its largest value",
            f"{SOURCE}, figure 3",
            f"more than {REST:.0%}",
            over_seeds([kernel.excursion for kernel in kernels], ".0%"),
            all(kernel.moves for kernel in kernels),
        ),
        Claim(
            "a changing inner product corresponds to feature learning: the share of its way that it goes there",
            f"{SOURCE}, figure 3 and section 4.1",
            f"at least {1 - 2 * REST:.0%}, what two equal regions would have",
            over_seeds(inside, ".0%"),
            min(inside) >= 1 - 2 * REST,
        ),
        Claim(
            "the inner product leaves what a constant kernel gives no sooner than the kernel moves: the two steps",
            "docs/errata.md, in place of “a changing inner product implies a dynamic kernel”",
            "the kernel's first",
            "; ".join(
                f"kernel {words(k)[0]}, inner product {words(b)[0]}" for k, b in zip(kernels, beyonds, strict=True)
            ),
            all(k.moves and begins(k) <= begins(b) for k, b in zip(kernels, beyonds, strict=True)),
        ),
        Claim(
            "the norm of the centroid increases during training: by which factor",
            f"{SOURCE}, section 4.1",
            "above 1",
            over_seeds([norm[-1] / norm[0] for norm in norms], ".2f"),
            all(norm[-1] > norm[0] for norm in norms),
        ),
        Claim(
            "eventually the inner product no longer turns into alignment: the steps from which each rests",
            f"{SOURCE}, section 4.1",
            "the alignment's first",
            "; ".join(f"alignment {a:,g}, inner product {b:,g}" for a, b in rests),
            all(a < b for a, b in rests),
        ),
    ]
