"""Networks trained with every method and every loss, which accelerate reads for table 1, row-alignment for table 2."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from gnomon import (
    GrokAlign,
    GrokfastEMA,
    InputNoise,
    Probe,
    accuracy,
    centroid_alignment,
    explained_variance_ratio,
    jacobian_norm,
    log_spaced,
    row_alignment,
)
from gnomon.data import Samples
from gnomon_lab.papers._shared import UNSEEN, Loss, Precision, loss_in, mnist_network, mnist_splits
from gnomon_lab.papers.grokalign._optimum import to_optimum
from gnomon_lab.runs import Run
from gnomon_lab.settings import Count, Positive, Range, Settings, Share, between
from gnomon_lab.training import Batch, fit, in_order

METHODS = ("baseline", "GrokAlign", "Grokfast", "input noise")
START = 0.2
"""The test accuracy above which the grokking phase has begun."""
BASELINE_FIRST = Range(
    f"among {METHODS}, the baseline first",
    lambda methods, _: methods[:1] == ("baseline",) and {*methods} <= {*METHODS},
)


@dataclass(frozen=True)
class Config(Settings):
    """The setting of table 1."""

    losses: tuple[Loss, ...] = ("cross-entropy",)
    """Losses, among cross-entropy and mse."""
    methods: Annotated[tuple[str, ...], BASELINE_FIRST] = ("baseline", "GrokAlign")
    """Methods, among baseline, GrokAlign, Grokfast and input noise; the baseline first."""
    dtype: Precision = "float64"
    """Precision. In float32 the baseline's cross-entropy underflows to zero and the ratios differ; not so in mixed."""
    samples: Annotated[int, between(10, 10_000)] = 1024
    """Training digits, and as many for testing."""
    width: Count = 196
    """Width of the three hidden layers."""
    init_scale: Positive = 8.0
    """Multiplies PyTorch's default initialisation."""
    goal: Share = 0.85
    """Training ends when the test accuracy is above this."""
    steps: Count = 40_000
    """Maximum number of steps; a step is a pass over all batches of 256."""


def run(config: Config, run: Run) -> None:
    """Trains with every method and every loss, from the same initial weights."""
    train, test = mnist_splits(run, config.samples, config.dtype)
    for loss, method in itertools.product(config.losses, config.methods):
        train_arm(config, run, loss, method, train, test)


def train_arm(config: Config, run: Run, loss: str, method: str, train: Samples, test: Samples) -> None:
    """Trains one network until it reaches the goal."""
    generator = torch.Generator().manual_seed(run.seed)
    model = mnist_network(train, config.width, config.init_scale, generator)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.01)
    grokalign = GrokAlign(1e-3 if loss == "cross-entropy" else 1e-4, generator=generator)
    grokfast, noise = GrokfastEMA(model.named_parameters(), 0.8, 0.1), InputNoise(generator=generator)
    seen = Probe(
        model,
        {"train": train},
        [accuracy, centroid_alignment, row_alignment, jacobian_norm, explained_variance_ratio, to_optimum(loss)],
    )
    unseen, due = Probe(model, {"test": test}, [accuracy]), log_spaced(12)
    right, ordered, of_logits, begun = 0, in_order(train, 256), loss_in(config.dtype, loss), False

    def batches(step: int) -> Iterator[Batch]:
        nonlocal right
        right = 0
        for x, labels in ordered(step):
            yield noise(x) if method == "input noise" else x, labels
        noise.train_accuracy = right / len(train.x)

    def counted(logits: Tensor, labels: Tensor) -> Tensor:
        nonlocal right
        right += int((logits.argmax(1) == labels).sum())
        return of_logits(logits, labels)

    for step in fit(
        run, f"{loss} {method}", config.steps, model, optimizer, batches, counted,
        due=lambda step: due(step) or step % 10 == 0, penalty=grokalign if method == "GrokAlign" else None,
        filter_gradients=grokfast if method == "Grokfast" else None,
        generator=generator, grokfast=grokfast, noise=noise,
    ):  # fmt: skip
        fresh = unseen.read(step)
        known = float(fresh.values[UNSEEN].mean()) if step % 10 == 0 else 0.0
        reached, begins = known > config.goal, known > START and not begun
        if begins:
            begun = True
            # Not again in a run that was resumed.
            begins = not any(r[UNSEEN] > START for r in run.records() if r["arm"] == f"{loss} {method}")
        if reached or begins or step == config.steps or due(step):
            run.record(step, seen.read(step), fresh, reached=reached)
        if reached:
            run.stop()
