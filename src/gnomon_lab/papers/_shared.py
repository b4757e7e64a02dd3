"""What experiments of several wings share: the papers' losses, MNIST as they use it, arms side by side."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from gnomon.data import Samples, digits, normalise
from gnomon.models import mlp
from gnomon_lab.figures import Curves, ImageFrame, ImageRow, Line, Mark, Panel
from gnomon_lab.runs import Record, Run, by_arm, series
from gnomon_lab.runs.data import load_images
from gnomon_lab.settings import among

MEAN, DEVIATION = 0.1307, 0.3081
"""Mean and standard deviation of all training pixels of MNIST."""
SEEN, UNSEEN = "train/accuracy", "test/accuracy"
ALIGNMENT, NORM, PC1 = "train/centroid_alignment", "train/jacobian_norm", "train/explained_variance_ratio"
"""Names in the records for the accuracies, and for the geometry at the training samples."""

SPREAD = 0.82 / 7.56
"""The relative spread of an acceleration over seeds that table 1 of Walker et al., arXiv:2506.12284, prints."""


def squared_error(logits: Tensor, labels: Tensor) -> Tensor:
    """The squared error against one-hot labels, the mean over samples and outputs, as in PyTorch."""
    return functional.mse_loss(logits, functional.one_hot(labels, logits.shape[1]).to(logits.dtype))


def centroid_norm(centroid: Float[Tensor, "n *d"]) -> Float[Tensor, "n"]:
    """The norm of each sample's centroid, in outputs per input; with one output it is the Jacobian's."""
    return torch.linalg.vector_norm(centroid.flatten(1), dim=1)


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cross-entropy": functional.cross_entropy,
    "mse": squared_error,
}
"""The papers' two losses, by the names that configurations use."""
Loss = Annotated[str, among(*LOSSES)]
Precision = Annotated[str, among("float32", "mixed", "float64")]
"""Training precision. Mixed is float32 except for the loss, which for memorised samples rounds to zero in float32."""


def loss_in(precision: str, loss: str) -> Callable[[Tensor, Tensor], Tensor]:
    """The loss with this name, in float64 if the precision is mixed."""
    if precision == "mixed":
        return lambda logits, labels: LOSSES[loss](logits.double(), labels)
    return LOSSES[loss]


def mnist_rows(run: Run, split: str, samples: int, dtype: torch.dtype) -> Samples:
    """The first digits of a split, "train" or "test", as rows of 784 normalised pixels."""
    images = normalise(load_images("mnist", split, data_dir=run.data_dir, limit=samples), MEAN, DEVIATION)
    return Samples(images.x.flatten(1).to(dtype), images.labels)


def mnist_splits(run: Run, samples: int, dtype: str = "float32") -> tuple[Samples, Samples]:
    """As many training digits as test digits; in float32 if the precision is mixed."""
    of_x = torch.float64 if dtype == "float64" else torch.float32
    train, test = (mnist_rows(run, split, samples, of_x) for split in ("train", "test"))
    return train, test


def mnist_network(train: Samples, width: int, scale: float, generator: torch.Generator) -> nn.Sequential:
    """The network of the authors' code for table 1: three hidden layers, PyTorch's initialisation times a scale."""
    return mlp((train.x.shape[1], width, width, width, 10), scale=scale, generator=generator).to(train.x.dtype)


def principal(x: Float[Tensor, "n d"], components: int) -> Float[Tensor, "n q"]:
    """The samples' leading principal components."""
    centred = x - x.mean(0)
    return centred @ torch.linalg.svd(centred, full_matrices=False).Vh[:components].mT


def principal_digits(
    size: int, classes: int, components: int, generator: torch.Generator
) -> tuple[Float[Tensor, "n q"], Int[Tensor, "n"]]:
    """Principal components of so many images of each of the first digits, scaled to mean square 1, and the labels."""
    images = digits(1796, generator=generator, dtype=torch.float64)[0]
    chosen = torch.cat([(images.labels == k).nonzero()[:size, 0] for k in range(classes)])
    points = principal(images.x[chosen], components)
    return points / points.square().mean().sqrt(), images.labels[chosen]


def plane_rotation(angle: Float[Tensor, ""]) -> Float[Tensor, "2 2"]:
    """The rotation of the plane by an angle."""
    return torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).view(2, 2)


def significant(values: Tensor, digits: int = 3) -> list[Any]:
    """The numbers to a few significant digits: enough to see, and records stay small."""
    if values.ndim > 1:
        return [significant(part, digits) for part in values]
    return [float(f"{value:.{digits}g}") for value in values.tolist()]


def arms(records: Sequence[Record]) -> list[tuple[str, str]]:
    """The first word of each arm's name and the rest, such as loss and method, in the order in which they ran."""
    return [(arm.partition(" ")[0], arm.partition(" ")[2]) for arm in by_arm(records)]


def firsts(records: Sequence[Record]) -> list[str]:
    """The first words of the arms' names, in the order in which they ran."""
    return list(dict.fromkeys(first for first, _ in arms(records)))


def arms_of(records: Sequence[Record], *kinds: str) -> list[list[Record]]:
    """The records of each arm whose name has one of these kinds as its second word."""
    return [part for arm, part in by_arm(records).items() if arm.split()[1] in kinds]


def lines(records: Sequence[Record], arms: Mapping[str, str], name: str, *, dashed: bool = False) -> tuple[Line, ...]:
    """A curve of `name` for each arm, with the label that `arms` gives it; an arm's place decides its colour."""
    return tuple(
        Line(label, *series(records, arm, name), dashed, place) for place, (arm, label) in enumerate(arms.items())
    )


def marked(moments: Mapping[str, int | None]) -> tuple[Mark, ...]:
    """A mark at each step that came, by what happened then; a moment's place decides its colour."""
    return tuple(
        Mark(f"{what}, step {step:,}", step, place)
        for place, (what, step) in enumerate(moments.items())
        if step is not None
    )


def accuracy_panel(records: Sequence[Record], arms: Mapping[str, str], data: str, marks: tuple[Mark, ...]) -> Panel:
    """The accuracies on training data, digits for instance, dashed, and on unseen data."""
    seen = lines(records, {arm: f"{label}, training {data}" for arm, label in arms.items()}, SEEN, dashed=True)
    return Panel("Accuracy", "share correct", seen + lines(records, arms, UNSEEN), marks, (0.0, 1.05))


def accuracy_curves(records: Sequence[Record], caption: str) -> Curves:
    """The accuracies of every arm on training data and on unseen data, as far as they were read."""
    arms = {arm: arm for arm in by_arm(records)}
    panels = tuple(
        Panel(title, "share correct", lines([each for each in records if each.get(name) is not None], arms, name),
              y_range=(0.0, 1.05))
        for title, name in (("Training data", SEEN), ("Unseen data", UNSEEN))
    )  # fmt: skip
    return Curves("accuracies", "What the networks know", caption, "step", panels)


def geometry(
    records: Sequence[Record], arms: Mapping[str, str], marks: tuple[Mark, ...], jacobians: str = "train"
) -> tuple[Panel, ...]:
    """A panel for each of alignment, norm and PC1, the latter two on the split on which Jacobians were computed."""
    alignment, norm, pc1 = (
        lines(records, arms, name)
        for name in (ALIGNMENT, f"{jacobians}/jacobian_norm", f"{jacobians}/explained_variance_ratio")
    )
    return (
        Panel("Centroid alignment", "cosine", alignment, marks),
        norms("Jacobian norm", norm, marks),
        Panel("PC1", "share of first direction", pc1, marks),
    )


def norms(title: str, of: tuple[Line, ...], marks: tuple[Mark, ...]) -> Panel:
    """A panel of norms, which training changes by factors: on a logarithmic axis, unless one is 0."""
    return Panel(title, "outputs per input", of, marks, log_y=all(min(line.y) > 0 for line in of))


def image_frames(records: Sequence[Record], given: Mapping[str, object]) -> tuple[ImageFrame, ...]:
    """Rows of square images, and below them the centroids of each arm, at every step at which all arms have them."""
    of_arms = {
        f"{arm}: centroids": {each["step"]: each["centroids"] for each in own if "centroids" in each}
        for arm, own in by_arm(records).items()
    }
    side = math.isqrt(np.asarray(next(iter(given.values())))[0].size)
    frames = []
    for step in sorted(set.intersection(*map(set, of_arms.values()))):
        rows = {**given, **{label: centroids[step] for label, centroids in of_arms.items()}}
        images = (ImageRow(label, np.asarray(row).reshape(-1, side, side)) for label, row in rows.items())
        frames.append(ImageFrame(f"step {step:,}", tuple(images)))
    return tuple(frames)
