"""anatomy: one training run watched by every quantity that fits it, on one time axis, and the order of the changes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from gnomon import (
    GrokAlign,
    Probe,
    _checks,
    accuracy,
    centroid_alignment,
    effective_rank,
    equiangularity,
    equinorm,
    explained_variance_ratio,
    jacobian_alignment,
    jacobian_norm,
    log_spaced,
    nc1,
    nearest_mean_disagreement,
    nfa_table,
    ntk,
    robust_radius,
    self_duality,
    truncation_sectors,
)
from gnomon.data import Samples
from gnomon.linalg import cosine
from gnomon.models import mlp
from gnomon.regions import boundary_distance, local_complexity
from gnomon_lab.figures import Curves, Figure, Line, Panel
from gnomon_lab.papers._shared import LOSSES, lines, mnist_rows
from gnomon_lab.papers.own.anatomy.order import (
    ARMS,
    QUANTITIES,
    WAY,
    Quantity,
    change,
    claims,
    done,
    memorised,
    order,
    words,
)
from gnomon_lab.runs import Record, Run, last

__all__ = ["PAPER", "SETTINGS", "SMALL", "Config", "claims", "figures", "figures_over_seeds", "run", "summary", "table"]
INTRODUCTION = f"""
Two networks start from the same large random weights and learn the same MNIST digits, one with weight decay alone and
one with GrokAlign beside it. Everything that gnomon can say of such a network is read on the way: what it knows, where
its Jacobians look, how many directions they have, how its kernel turns, how its features collapse, what its ReLUs cut
off, how its linear regions lie. A quantity is done when it has gone {WAY:.0%} of its way from its first to its last
value, and the order in which they are done is what the papers tell stories about.
"""


@dataclass(frozen=True)
class Config:
    """The setting of accelerate with cross-entropy, without its goal: both arms are as long."""

    samples: int = 1024
    """Training digits, and as many for testing."""
    jacobians: int = 128
    """Training digits at which Jacobians are taken."""
    kernel: int = 32
    """Training digits of the neural tangent kernel."""
    near: int = 8
    """Training digits around which linear regions are looked at."""
    radius: float = 0.5
    """Of the discs in which regions are counted; a digit is about 28 long."""
    width: int = 196
    """Of the three hidden layers."""
    init_scale: float = 8.0
    """Multiplies PyTorch's default initialisation."""
    coefficient: float = 0.1
    """Of the GrokAlign penalty; weight decay acts on both networks."""
    learning_rate: float = 3e-3
    """Of AdamW."""
    weight_decay: float = 0.1
    """Of AdamW."""
    steps: int = 1500
    """A step is a pass over all batches of 256."""
    readings: int = 10
    """Readings in each factor of ten of the steps."""
    dtype: str = "float32"
    """float32 or float64."""
    threads: int = 1
    """Processor threads."""

    def __post_init__(self) -> None:
        _checks.settings(
            "anatomy",
            ("samples", self.samples, "from 50 to 10000", 50 <= self.samples <= 10_000),
            ("jacobians", self.jacobians, "from 1 to samples", 1 <= self.jacobians <= self.samples),
            ("kernel", self.kernel, "from 2 to samples", 2 <= self.kernel <= self.samples),
            ("near", self.near, "from 1 to samples", 1 <= self.near <= self.samples),
            ("radius", self.radius, "finite and above 0", 0 < self.radius < math.inf),
            ("width", self.width, "at least 1", self.width >= 1),
            ("init_scale", self.init_scale, "finite and above 0", 0 < self.init_scale < math.inf),
            ("coefficient", self.coefficient, "finite and at least 0", 0 <= self.coefficient < math.inf),
            ("learning_rate", self.learning_rate, "finite and above 0", 0 < self.learning_rate < math.inf),
            ("weight_decay", self.weight_decay, "finite and at least 0", 0 <= self.weight_decay < math.inf),
            ("steps", self.steps, "at least 1", self.steps >= 1),
            ("readings", self.readings, "at least 1", self.readings >= 1),
            ("dtype", self.dtype, "float32 or float64", self.dtype in ("float32", "float64")),
            ("threads", self.threads, "at least 1", self.threads >= 1),
        )  # fmt: skip


SMALL = Config()
PAPER = Config(
    jacobians=1024,
    kernel=128,
    near=32,
    coefficient=1e-3,
    learning_rate=1e-3,
    weight_decay=0.01,
    steps=40_000,
    readings=12,
    dtype="float64",
)
SETTINGS = (SMALL, PAPER)


def run(config: Config, run: Run) -> None:
    """Trains both networks, the same start and the same digits."""
    torch.set_num_threads(config.threads)
    train, test = (mnist_rows(run, split, config.samples, getattr(torch, config.dtype)) for split in ("train", "test"))
    for arm in ARMS:
        train_arm(config, run, arm, train, test)


def train_arm(config: Config, run: Run, arm: str, train: Samples, test: Samples) -> None:
    """Trains one network and reads everything off it."""
    generator = torch.Generator().manual_seed(run.seed)
    widths = (train.x.shape[1], config.width, config.width, config.width, 10)
    model = mlp(widths, scale=config.init_scale, generator=generator).to(train.x.dtype)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, config.learning_rate, weight_decay=config.weight_decay)
    grokalign = GrokAlign(config.coefficient, generator=generator) if arm == "GrokAlign" else None
    batches = list(zip(torch.split(train.x, 256), torch.split(train.labels, 256), strict=True))
    looks, due = probes(config, run.seed, model, train, test), log_spaced(config.readings)
    for step in run.steps(arm, config.steps, model=model, optimizer=optimizer, generator=generator):
        for x, labels in batches if step > 0 else ():
            batch = x.detach().requires_grad_(grokalign is not None)
            logits = model(batch)
            objective = LOSSES["cross-entropy"](logits, labels)
            if grokalign is not None:
                objective = objective + grokalign(model, batch, logits)
            run.require_finite(objective=objective)
            optimizer.zero_grad()
            torch.autograd.backward(objective, inputs=parameters)
            optimizer.step()
        if due(step) or step == config.steps:
            run.record(step, *(look.read(step) for look in looks))


def probes(config: Config, seed: int, model: nn.Module, train: Samples, test: Samples) -> list[Probe]:
    """A probe for each number of samples that a quantity can afford. The network is at its start, which one keeps."""

    def first(samples: int) -> tuple[Tensor, Tensor]:
        return train.x[:samples], train.labels[:samples]

    def regions(model: nn.Module, x: Tensor) -> Tensor:
        # The same planes in every reading.
        generator = torch.Generator().manual_seed(seed)
        return local_complexity(model, x, config.radius, generator=generator)[:, -1]

    whole: dict[str, Callable[..., object]] = {
        "train": accuracy, "nc1": nc1, "means_equinorm": equinorm, "means_equiangularity": equiangularity,
        "self_duality": self_duality, "nearest_mean_disagreement": nearest_mean_disagreement, "truncated": truncated,
    }  # fmt: skip
    jacobians: list[Callable[..., object]] = [
        centroid_alignment, jacobian_alignment, jacobian_norm, explained_variance_ratio, robust_radius, effective_rank,
        feature_ansatz,
    ]  # fmt: skip
    return [
        Probe(model, train, whole),
        Probe(model, test, {"test": accuracy}),
        Probe(model, first(config.jacobians), jacobians),
        Probe(model, first(config.kernel), {"kernel_cosine": kernel_cosine(model, first(config.kernel)[0])}),
        Probe(model, first(config.near), {"boundary_distance": boundary_distance, "regions": regions}),
    ]


def truncated(model: nn.Sequential, x: Tensor, labels: Tensor) -> Tensor:
    """The share of each hidden layer's coordinates that its ReLU cuts off, the mean over the classes."""
    return truncation_sectors(model, x, labels).truncated_share.mean(1)


def feature_ansatz(model: nn.Module, x: Tensor, memory: int | None) -> Tensor:
    """How the first layer's Gram matrix correlates with the root of the AGOP at the input."""
    return nfa_table(model, x, layers=["0"], memory=memory).pearson_root


def kernel_cosine(model: nn.Module, x: Tensor) -> Callable[[nn.Module], Tensor]:
    """The quantity that says how far the neural tangent kernel has turned from what it is now: their cosine."""
    with torch.no_grad():
        start = ntk(model, x).flatten()
    return lambda model: cosine(ntk(model, x).flatten(), start)


def table(records: Sequence[Record]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """For each quantity where it starts, and in each arm where it ends and when it is done."""
    columns = ("", "start", *(word for arm in ARMS for word in (arm, "done at")))
    zero = [cell for arm in ARMS for cell in ("", words(memorised([records], arm)[0]))]
    rows = [("Zero training error", "", *zero)]
    for quantity in QUANTITIES:
        cells = [f"{records[0][quantity.name]:.3g}"]
        for arm in ARMS:
            (step,) = done([records], arm, quantity.name)
            cells += [f"{last(records, arm)[quantity.name]:.3g}", words(step, "no change")]
        rows.append((quantity.title, *cells))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The story of each arm in a sentence."""
    said = []
    for arm in ARMS:
        memory, aligned, known = (words(steps[0]) for steps in (
            memorised([records], arm), done([records], arm, "centroid_alignment"), done([records], arm, "test")
        ))  # fmt: skip
        said.append(
            f"With {arm}: zero training error at step {memory}, the centroids' alignment done at {aligned}, the test "
            f"accuracy done at {known}, {last(records, arm)['test']:.1%} of unseen digits at the end."
        )
    return " ".join(said)


def figures(records: Sequence[Record]) -> list[Figure]:
    """The order of the changes, and each quantity against steps."""
    return [order([records]), curves(records)]


def figures_over_seeds(seeds: Sequence[Sequence[Record]]) -> list[Figure]:
    """The order of the changes over all seeds."""
    return [replace(order(seeds), name="order-over-seeds")]


def curves(records: Sequence[Record]) -> Curves:
    """Small multiples over one time axis, a dot on each curve where its quantity is done."""
    return Curves(
        "anatomy",
        "One training run, watched by everything",
        f"Means over the training digits that each quantity is read at, but for the test accuracy. A dot: from here on "
        f"the quantity has gone {WAY:.0%} of its way from its first to its last value, on the axis as it is drawn; a "
        f"curve without one does not change.",
        "step (a pass over all batches)",
        tuple(panel(records, quantity) for quantity in QUANTITIES),
        panel_height=96,
    )


def panel(records: Sequence[Record], quantity: Quantity) -> Panel:
    """One quantity in both arms."""
    changes = ((place, arm, change(records, arm, quantity)) for place, arm in enumerate(ARMS))
    dots = tuple(Line(arm, (at.step,), (at.value,), colour=place) for place, arm, at in changes if at is not None)
    drawn = lines(records, {arm: arm for arm in ARMS}, quantity.name)
    return Panel(quantity.title, quantity.unit, drawn + dots, log_y=quantity.log)
