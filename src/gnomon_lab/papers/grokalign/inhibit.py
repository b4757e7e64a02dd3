"""inhibit: holding the Jacobian norm at a level keeps a network from the generalisation that minimising it brings."""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch

from gnomon import (
    GrokAlign,
    Probe,
    accuracy,
    centroid_alignment,
    explained_variance_ratio,
    jacobian_norm,
    log_spaced,
)
from gnomon.data import Samples
from gnomon_lab.experiment import Experiment
from gnomon_lab.figures import Curves, Figure
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers._shared import (
    ALIGNMENT,
    NORM,
    PC1,
    SEEN,
    UNSEEN,
    accuracy_panel,
    centroid_norm,
    geometry,
    lines,
    marked,
    mnist_network,
    mnist_splits,
    norms,
    squared_error,
)
from gnomon_lab.runs import Cells, Claim, Record, Run, Seeds, last, over_seeds, settled_at
from gnomon_lab.settings import Count, NonNegative, Positive, Settings, between
from gnomon_lab.training import fit, shuffled

ARMS = ("minimise", "hold")
SOURCE = "Walker et al., arXiv:2506.12284, figure 7"
GOAL = 0.85
"""The test accuracy from which on table 1 calls a network grokked; figure 7 prints no number."""
HELD = (5.0 * 0.9, 5.0 / 0.818 * 1.1)
"""Where a norm held at 5 may end: one projection reads it low by up to the factor 0.818; plus a tenth either way."""
INTRODUCTION = """
Two networks start from the same large weights and learn the same MNIST digits, with the same penalty coefficient. For
the first the penalty is the mean Frobenius norm of the Jacobians, so that training makes it small. For the second it is
the distance of that mean from 5, so that training holds it there. The paper predicts that the first comes to recognise
unseen digits, and that the second does not.
"""


@dataclass(frozen=True)
class Config(Settings):
    """The setting of figure 7."""

    coefficient: Positive = 1e-3
    """Coefficient of the penalty, in both arms."""
    weight_decay: NonNegative = 0.01
    """Weight decay of AdamW."""
    init_scale: Positive = 8.0
    """Multiplies PyTorch's default initialisation."""
    samples: Annotated[int, between(10, 10_000)] = 1024
    """Training digits, and as many for testing."""
    width: Count = 196
    """Width of the three hidden layers."""
    steps: Count = 32_000
    """Number of steps; a step is a pass over all batches of 196, in a new order."""


SMALL = Config(coefficient=0.01, weight_decay=0.1, init_scale=3.0, width=64, steps=1200)
PAPER = Config()


def run(config: Config, run: Run) -> None:
    """Trains both networks, from the same start."""
    train, test = mnist_splits(run, config.samples)
    for arm in ARMS:
        train_arm(config, run, arm, train, test)


def train_arm(config: Config, run: Run, arm: str, train: Samples, test: Samples) -> None:
    """Trains one network and records its accuracies and its geometry."""
    generator = torch.Generator().manual_seed(run.seed)
    model = mnist_network(train, config.width, config.init_scale, generator)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=config.weight_decay)
    penalty = GrokAlign(config.coefficient, level=5.0 if arm == "hold" else None, generator=generator)
    probe = Probe(
        model,
        {"train": train, "test": test},
        {"accuracy": accuracy, "train": [centroid_norm, centroid_alignment, jacobian_norm, explained_variance_ratio]},
    )
    for step in fit(
        run, arm, config.steps, model, optimizer, shuffled(train, 196, generator), squared_error,
        due=log_spaced(12), penalty=penalty, generator=generator,
        filter_gradients=lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0),
    ):  # fmt: skip
        run.record(step, probe.read(step))


def table(records: Sequence[Record]) -> Cells:
    """Both networks at the end."""
    columns = ("", "train", "test", "Jacobian norm", "centroid norm", "centroid alignment", "PC1", "seconds")
    formats = {SEEN: ".1%", UNSEEN: ".1%", NORM: ".3g", "train/centroid_norm": ".3g"}
    formats |= {ALIGNMENT: ".3f", PC1: ".3f"}
    rows: list[tuple[str, ...]] = []
    for arm in ARMS:
        end = last(records, arm)
        numbers = (format(end[name], how) for name, how in formats.items())
        rows.append((arm, *numbers, f"{end['seconds']['trained']:.0f}"))
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in two sentences."""
    say = "Where the Jacobian norm is {} it ends at {:.2g}, and {:.0%} of unseen digits are recognised."
    ends = ((how, last(records, arm)) for arm, how in zip(ARMS, ("minimised", "held"), strict=True))
    return " ".join(say.format(how, end[NORM], end[UNSEEN]) for how, end in ends)


def figures(records: Sequence[Record]) -> list[Figure]:
    """Figure 7, accuracies, centroid norms and alignment against steps; and the Jacobian's norm and PC1."""
    arms = {arm: arm for arm in ARMS}
    marks = marked({f"{arm} generalised": settled_at(records, arm, UNSEEN, GOAL) for arm in ARMS})
    panels = (
        accuracy_panel(records, arms, "digits", marks),
        norms("Centroid norm", lines(records, arms, "train/centroid_norm"), marks),
        *geometry(records, arms, marks),
    )
    caption = "Training digits dashed, unseen digits solid. Geometry: means over the training digits."
    return [Curves("inhibit", "Minimised or held", caption, "step (a pass over all batches)", panels)]


def claims(seeds: Seeds) -> list[Claim]:
    """Figure 7 and its text, at the end of all finished seeds."""
    ends = {arm: [last(records, arm) for records in seeds] for arm in ARMS}

    def within(message: str, arm: str, name: str, expected: str, least: float, most: float, how: str) -> Claim:
        values = [end[name] for end in ends[arm]]
        return Claim(message, SOURCE, expected, over_seeds(values, how), all(least <= value < most for value in values))

    def ordered(message: str, name: str, smaller: str, larger: str) -> Claim:
        low, high = ([end[name] for end in ends[arm]] for arm in (smaller, larger))
        measured = f"{over_seeds(low)} against {over_seeds(high)}"
        return Claim(message, SOURCE, f"{smaller} below {larger}", measured, all(map(operator.lt, low, high)))

    return [
        within("held, the norm ends at 5", "hold", NORM, "{:.2f} to {:.2f}".format(*HELD), *HELD, ".2f"),
        within(
            "held, the network memorises: train accuracy at the end",
            "hold",
            SEEN,
            "at least 99%",
            0.99,
            math.inf,
            ".1%",
        ),
        within(
            "minimised, it generalises: test accuracy at the end",
            "minimise",
            UNSEEN,
            f"from {GOAL:.0%} on",
            GOAL,
            math.inf,
            ".1%",
        ),
        within("held, it does not: test accuracy at the end", "hold", UNSEEN, f"below {GOAL:.0%}", 0.0, GOAL, ".1%"),
        ordered("held, the norms of the centroids end high", "train/centroid_norm", "minimise", "hold"),
        ordered("held, the centroids do not end aligned", ALIGNMENT, "hold", "minimise"),
    ]


EXPERIMENT = Experiment(EXPERIMENTS["inhibit"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims)
