"""rank: the Jacobians at the training digits tend to rank one (figure 2), and the weights to low rank (section 2)."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import torch

from gnomon import GrokAlign, Probe, accuracy, explained_variance_ratio, jacobian_norm, layer_spectra, log_spaced
from gnomon.data import Samples
from gnomon_lab.experiment import Experiment
from gnomon_lab.figures import Curves, Figure, Panel
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers._shared import (
    LOSSES,
    NORM,
    PC1,
    SEEN,
    UNSEEN,
    Loss,
    Precision,
    accuracy_panel,
    firsts,
    lines,
    loss_in,
    marked,
    mnist_network,
    mnist_splits,
)
from gnomon_lab.papers.grokalign._optimum import NEAR_ONE
from gnomon_lab.runs import Cells, Claim, Record, Run, Seeds, by_arm, last, over_seeds, settled_at
from gnomon_lab.settings import Count, NonNegative, Positive, Settings, between
from gnomon_lab.training import fit, in_order

ARMS = ("weight decay", "GrokAlign")
SOURCE, SECTION = (f"Walker et al., arXiv:2506.12284, {place}" for place in ("figure 2", "section 2"))
WEIGHTS = "train/layer_spectra.stable_rank"
"""1 over the share of a weight's squared norm that its first direction carries, mean over the layers."""
HALF = 0.5
"""Which is sooner is judged at this part of PC1's way to 1, which is also reached by runs that do not come near one."""
INTRODUCTION = """
The Jacobian of a classifier has a row for each of its ten outputs. PC1 is the share of the Jacobian's squared norm that
one direction of the input carries: 1 for a matrix of rank one. With each loss two networks start from the same weights,
one with weight decay alone and one also with GrokAlign. The paper says that PC1 tends to 1 in all of them.
"""


@dataclass(frozen=True)
class Config(Settings):
    """The setting of figure 2, for which the paper prints the data, the optimizer and the losses."""

    losses: tuple[Loss, ...] = tuple(LOSSES)
    """Losses, among cross-entropy and mse."""
    coefficient: NonNegative | None = None
    """Coefficient of the GrokAlign penalty; default: table 1's, 1e-3 for cross-entropy and 1e-4 for mse."""
    weight_decay: NonNegative = 0.01
    """Weight decay of AdamW, in both arms."""
    init_scale: Positive = 8.0
    """Multiplies PyTorch's default initialisation."""
    samples: Annotated[int, between(10, 10_000)] = 1024
    """Training digits, and as many for testing."""
    width: Count = 196
    """Width of the three hidden layers."""
    steps: Count = 100_000
    """Number of steps; a step is a pass over all batches of 256."""
    dtype: Precision = "float64"
    """Training precision: float32, float64, or mixed: float32 except for the loss, in 0.6 of the time of float64."""


SMALL = Config(
    losses=("mse",),
    coefficient=1e-3,
    weight_decay=0.1,
    init_scale=2.0,
    samples=512,
    width=64,
    steps=12_000,
    dtype="float32",
)
PAPER = Config()
HALVES = tuple(replace(PAPER, losses=(loss,)) for loss in PAPER.losses)
MIXED = replace(HALVES[0], dtype="mixed")
"""Cross-entropy in mixed precision; with mse weight decay alone agreed with float64 on no seed."""


def run(config: Config, run: Run) -> None:
    """Trains both arms with each loss, from the same start."""
    train, test = mnist_splits(run, config.samples, config.dtype)
    for loss, arm in itertools.product(config.losses, ARMS):
        train_arm(config, run, loss, arm, train, test)


def train_arm(config: Config, run: Run, loss: str, arm: str, train: Samples, test: Samples) -> None:
    """Trains one network and records PC1 at its training digits."""
    generator = torch.Generator().manual_seed(run.seed)
    model = mnist_network(train, config.width, config.init_scale, generator)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=config.weight_decay)
    of_table_1 = {"cross-entropy": 1e-3, "mse": 1e-4}[loss]
    coefficient = of_table_1 if config.coefficient is None else config.coefficient
    penalty = GrokAlign(coefficient, generator=generator) if arm == "GrokAlign" else None
    splits = {"train": train, "test": test}
    probe = Probe(
        model, splits, {"accuracy": accuracy, "train": [explained_variance_ratio, jacobian_norm, layer_spectra]}
    )
    for step in fit(
        run, f"{loss} {arm}", config.steps, model, optimizer, in_order(train, 256),
        loss_in(config.dtype, loss), due=log_spaced(12), penalty=penalty, generator=generator,
    ):  # fmt: skip
        run.record(step, probe.read(step))


def half_way_at(records: Sequence[Record], loss: str, arm: str) -> int | None:
    """The step from which on PC1 has gone half its way to one; None if it does not end there."""
    start = next(record for record in records if record["arm"] == f"{loss} {arm}")[PC1]
    return settled_at(records, f"{loss} {arm}", PC1, start + HALF * (1 - start))


def table(records: Sequence[Record]) -> Cells:
    """Every arm at the end, and when its PC1 had gone half its way to one."""
    columns = ("", "PC1 at the start", "PC1 at the end", "half way to 1", "norm", "train", "test", "seconds")
    rows: list[tuple[str, ...]] = []
    for loss, arm in itertools.product(firsts(records), ARMS):
        first = next(record for record in records if record["arm"] == f"{loss} {arm}")
        end, step = last(records, f"{loss} {arm}"), half_way_at(records, loss, arm)
        pc1 = (f"{first[PC1]:.3f}", f"{end[PC1]:.3f}")
        reached = "not reached" if step is None else f"step {step:,}"
        known = (f"{end[NORM]:.3g}", f"{end[SEEN]:.1%}", f"{end[UNSEEN]:.1%}")
        rows.append((f"{loss}, {arm}", *pc1, reached, *known, f"{end['seconds']['trained']:.0f}"))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in a sentence for each loss."""
    sentences = []
    for loss in firsts(records):
        ends = (last(records, f"{loss} {arm}")[PC1] for arm in ARMS)
        sentences.append(
            "With {} PC1 ends at {:.2f} under weight decay, and at {:.2f} with GrokAlign.".format(loss, *ends)
        )
    return " ".join(sentences)


def figures(records: Sequence[Record]) -> list[Figure]:
    """PC1, norm and accuracies against steps, a figure for each loss."""
    return [curves(records, loss) for loss in firsts(records)]


def curves(records: Sequence[Record], loss: str) -> Curves:
    """Both arms of one loss, with the step from which on PC1 has gone half its way to one."""
    arms = {f"{loss} {arm}": arm for arm in ARMS}
    marks = marked({f"{arm} half way": half_way_at(records, loss, arm) for arm in ARMS})
    panels = [
        Panel("PC1", "share of first direction", lines(records, arms, PC1), marks, (0.0, 1.05)),
        Panel("Jacobian norm", "outputs per input", lines(records, arms, NORM), marks),
        accuracy_panel(records, arms, "digits", marks),
    ]
    if has_weights(records):
        panels.append(Panel("Stable rank of the weights", "directions", lines(records, arms, WEIGHTS), marks))
    caption = "PC1 and norm: means over the training digits. Half way: PC1 has gone half of its way to one."
    title, x = f"How near the Jacobians come to rank one, {loss}", "step (a pass over all batches)"
    return Curves(loss, title, caption, x, tuple(panels))


def claims(seeds: Seeds) -> list[Claim]:
    """Over all finished seeds: PC1 tends to one in each arm (figure 2), sooner with GrokAlign (our question).

    The weights' rank is judged over the seeds in which it was read.
    """
    arms = [*itertools.product(firsts(seeds[0]), ARMS)]
    read = [records for records in seeds if has_weights(records)]
    tend = [tends(seeds, loss, arm) for loss, arm in arms] + [falls(read, loss, arm) for loss, arm in arms if read]
    return tend + [sooner(seeds, loss) for loss in firsts(seeds[0])]


def tends(seeds: Seeds, loss: str, arm: str) -> Claim:
    """PC1 is near one at the end of every seed."""
    ends = [last(records, f"{loss} {arm}")[PC1] for records in seeds]
    message = f"{loss}: the Jacobians tend to rank one under {arm}: PC1 at the end"
    return Claim(message, SOURCE, f"at least {NEAR_ONE}", over_seeds(ends, ".3f"), min(ends) >= NEAR_ONE)


def has_weights(records: Sequence[Record]) -> bool:
    """Whether the weights' rank was read, as it is since 2026-11-30."""
    return WEIGHTS in records[0]


def falls(seeds: Seeds, loss: str, arm: str) -> Claim:
    """The weights carry fewer directions at the end than at the start, in every seed."""
    arms = [by_arm(records)[f"{loss} {arm}"] for records in seeds]
    shares = [own[-1][WEIGHTS] / own[0][WEIGHTS] for own in arms]
    message = f"{loss}: the weights tend to low rank under {arm}: mean stable rank of the layers, end / start"
    return Claim(message, SECTION, "below 1", over_seeds(shares, ".2f"), max(shares) < 1)


def sooner(seeds: Seeds, loss: str) -> Claim:
    """With GrokAlign PC1 goes half its way in fewer steps, in every seed; never counts as infinitely many."""
    decay, align = (
        [math.inf if at is None else at for at in (half_way_at(records, loss, arm) for records in seeds)]
        for arm in ARMS
    )
    return Claim(
        f"{loss}: sooner with GrokAlign: step from which on PC1 has gone half its way to one, GrokAlign / weight decay",
        "question of this project",
        "the first below the second",
        f"{over_seeds(align, ',.0f')} / {over_seeds(decay, ',.0f')}".replace("inf", "never"),
        all(ours < base for ours, base in zip(align, decay, strict=True)),
    )


EXPERIMENT = Experiment(
    EXPERIMENTS["rank"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims, (*HALVES, MIXED)
)
