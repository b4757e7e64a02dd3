"""regions: the linear regions around training digits when they are memorised and when they are grokked (figure 1)."""

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from torch import Tensor

from gnomon import (
    GrokAlign,
    Probe,
    accuracy,
    centroid_alignment,
    jacobian_alignment,
    jacobian_norm,
    log_spaced,
)
from gnomon.regions import boundary_distance
from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers._shared import LOSSES, SEEN, UNSEEN, Loss, mnist_network, mnist_splits, significant
from gnomon_lab.papers.grokalign.regions.page import ARM, NEAR, claims, figures, summary, table
from gnomon_lab.papers.grokalign.regions.slices import cut, reach
from gnomon_lab.runs import Run
from gnomon_lab.settings import Count, Dtype, NonNegative, Positive, Settings, Share, between
from gnomon_lab.training import fit, in_order

INTRODUCTION = """
A ReLU network is affine on each of the many pieces, the linear regions, into which it cuts its input space. Three
training digits of one class span a plane; shown here are the regions into which the network cuts it, exactly, when it
fits all training digits, and later, when it recognises unseen digits, if it comes to that. The paper predicts that by
then the regions around the digits have become flat, A ≈ c xᵀ, and that each region's centroid, the sum of the rows of
A, has turned towards its digit.
"""


@dataclass(frozen=True)
class Config(Settings):
    """The setting of figure 1."""

    loss: Loss = "mse"
    """The training loss; cross-entropy does not determine the centroids."""
    coefficient: NonNegative = 1e-4
    """Coefficient of the GrokAlign penalty."""
    init_scale: Positive = 8.0
    """Multiplies PyTorch's default initialisation."""
    dtype: Dtype = "float64"
    """Training precision, float32 or float64; slices are always exact, in float64."""
    samples: Annotated[int, between(100, 10_000)] = 1024
    """Training digits, and as many for testing."""
    width: Count = 196
    """Width of the three hidden layers."""
    goal: Share = 0.85
    """Training ends when the test accuracy is above this."""
    steps: Count = 40_000
    """Maximum number of steps; a step is a pass over all batches of 256."""
    classes: tuple[Annotated[int, between(0, 9)], ...] = (0, 1, 2, 3, 4, 5, 6)
    """A plane through three training digits of each class; the first is followed, the others are shown at the end."""
    slices: Count = 1
    """Slices in each factor of ten of the steps, in addition to those at memorisation and at the end."""


SMALL = Config(coefficient=0.03, init_scale=3.0, dtype="float32", samples=512, width=96, steps=4000,
               classes=(0, 1, 2, 3), slices=2)  # fmt: skip
PAPER = Config()


def bend(jacobian_alignment: Tensor) -> Tensor:
    """How far each Jacobian A is from flat: ‖A - c xᵀ‖ / ‖A‖ with the best c, which is A x / ‖x‖²."""
    return (1 - jacobian_alignment**2).clamp_min(0).sqrt()


def run(config: Config, run: Run) -> None:
    """Trains the network and cuts the planes."""
    train, test = mnist_splits(run, config.samples, config.dtype)
    generator = torch.Generator().manual_seed(run.seed)
    model = mnist_network(train, config.width, config.init_scale, generator)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=0.01)
    penalty = GrokAlign(config.coefficient, generator=generator)
    triples = {label: train.x[train.labels == label][:3].double() for label in config.classes}
    farthest = max(map(reach, triples.values()))
    seen = Probe(
        model,
        {"train": train, "triples": torch.cat([*triples.values()]).to(train.x)},
        {"centroid_alignment": centroid_alignment, "train": [accuracy, jacobian_alignment, bend, jacobian_norm]},
    )
    near = Probe(model, {"near": train.x[:NEAR]}, [boundary_distance])
    unseen = Probe(model, {"test": test}, [accuracy])
    due, sliced = log_spaced(12), log_spaced(config.slices)
    for step in fit(
        run, ARM, config.steps, model, optimizer, in_order(train, 256), LOSSES[config.loss],
        due=lambda step: due(step) or sliced(step) or step % 10 == 0, penalty=penalty, generator=generator,
    ):  # fmt: skip
        fresh = unseen.read(step)
        reached = step % 10 == 0 and float(fresh.values[UNSEEN].mean()) > config.goal
        end = reached or step == config.steps
        if end or due(step) or sliced(step):
            known = seen.read(step)
            first = known.scalars()[SEEN] == 1 and all(record[SEEN] < 1 for record in run.records())
            values: dict[str, Any] = {"bend.median": float(known.values["train/bend"].median()), "reached": reached}
            values["turned"] = significant(known.values["triples/centroid_alignment"], 4)
            readings = [known, fresh]
            if end or first or sliced(step):
                readings.append(near.read(step))
                labels = config.classes if end else config.classes[:1]
                values["slices"] = [{"label": label, **cut(model, triples[label], farthest)} for label in labels]
            run.record(step, *readings, **values)
        if reached:
            run.stop()


EXPERIMENT = Experiment(EXPERIMENTS["regions"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims)
