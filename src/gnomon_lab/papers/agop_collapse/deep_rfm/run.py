"""deep-rfm: an untrained network collapses layer by layer, by the AGOP of kernel machines (figures 1, 3 to 6)."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon import DeepRFM
from gnomon.dynamics import DeepRFMReading
from gnomon.linalg import unit
from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.agop_collapse._deep_rfm import KERNELS, Arm, by_class, feature_map, rows
from gnomon_lab.papers.agop_collapse.deep_rfm.page import STAGES, claims, figures, summary, table
from gnomon_lab.runs import Run
from gnomon_lab.settings import Count, Device, Settings, at_least, between

INTRODUCTION = """
A Deep RFM is a network without backpropagation. In each layer a kernel machine learns the classes; the average outer
product of its gradients, the AGOP M, says which directions of the inputs it is sensitive to; the inputs are mapped by
the root of M and then by random features, which are not trained. The paper says that layer by layer the points of a
class draw together (NC1) and the class means form a simplex (NC2), which is neural collapse, and that the root of M
causes it. The effects of the root and of the random features are shown separately.
"""


@dataclass(frozen=True)
class Config(Settings):
    """The setting of figures 1 and 3 to 6."""

    arms: tuple[Arm, ...] = ("mnist gaussian relu", "cifar10 laplace relu", "mnist laplace cosine")
    """Each on mnist, cifar10 or svhn, with a laplace or gaussian kernel, and relu or cosine features."""
    samples: Annotated[int, between(100, 50_000)] = 2000
    """Number of training images; the first ones are used."""
    test: Annotated[int, between(1, 10_000)] = 1000
    """Number of test images; the first ones are used."""
    depth: Annotated[int, at_least(3)] = 10
    """Number of layers."""
    relu_width: Count = 1024
    """ReLU features per layer."""
    cosine_width: Count = 1024
    """Random Fourier features per layer, of exp(-‖x - z‖₁ / 20)."""
    shown: Annotated[int, between(1, 50)] = 6
    """Images per class in the figure of the Gram matrices."""
    device: Device = "cpu"
    """Where to compute."""


SMALL = Config()
PAPER = Config(
    arms=(
        "cifar10 laplace cosine", "mnist gaussian relu", "cifar10 laplace relu", "mnist laplace cosine",
        "svhn laplace relu", "svhn laplace cosine",
    ),
    samples=50_000,
    test=10_000,
    depth=19,
    cosine_width=4096,
    device="cuda",
)  # fmt: skip
OTHERS = (replace(PAPER, device="cpu"),)


class Layers:
    """The layers fitted so far, as a run keeps them."""

    def __init__(self) -> None:
        self.fitted: Mapping[str, Tensor] | None = None

    def state_dict(self) -> dict[str, Tensor]:
        """The layers, as in `DeepRFM.state_dict`."""
        return dict(self.fitted or {})

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """Continues from there."""
        self.fitted = state_dict


def run(config: Config, run: Run) -> None:
    """Fits all arms."""
    for arm in config.arms:
        fit_arm(config, run, arm)


def fit_arm(config: Config, run: Run, arm: str) -> None:
    """One layer per step; the last kernel machine, whose accuracy is read, is fitted again after each."""
    data, kernel, features = arm.split()
    (x, labels), (unseen, wanted) = (
        rows(run, data, split, limit) for split, limit in (("train", config.samples), ("test", config.test))
    )
    chosen, layers = by_class(labels, config.shown), Layers()
    for depth in run.steps(arm, config.depth, layers=layers):
        model = DeepRFM(
            KERNELS[kernel], feature_map(features, config.relu_width, config.cosine_width), depth,
            random_state=run.seed, device=config.device,
        )  # fmt: skip
        model.fit(x.numpy(), labels.numpy(), state=layers.fitted)
        # A finished arm needs only its records, and the layers are large.
        layers.fitted = model.state_dict() if depth < config.depth else {}
        readings = measured(run, model.readings_[-1]) if depth > 0 else {}
        known = {"train": model.score(x.numpy(), labels.numpy()), "test": model.score(unseen.numpy(), wanted.numpy())}
        run.record(depth, **readings, **known, last_jitter=model.jitter_, gram=gram(model, x, chosen))


def measured(run: Run, reading: DeepRFMReading) -> dict[str, float]:
    """The collapse at the last layer's three stages, and how well its kernel machine could be solved for."""
    stages = {stage: vars(getattr(reading, stage)) for stage in STAGES}
    values = {f"{stage}.{name}": value for stage, collapse in stages.items() for name, value in collapse.items()}
    run.require_finite(**values, misfit=torch.tensor(reading.misfit))
    numbers = {name: float(value) for name, value in values.items()}
    return numbers | {"jitter": reading.jitter, "misfit": reading.misfit}


def gram(model: DeepRFM, x: Float[Tensor, "n d"], chosen: Int[Tensor, "m"]) -> list[list[float]]:
    """Figure 1: inner products after the last layer's M^½ (of the inputs if there is none), centred, of unit length."""
    if model.depth == 0:
        mapped = torch.from_numpy(model.transform(x.numpy()))
    else:
        mapped = deque(model.stages(x.numpy()), maxlen=1).pop().mapped
    points = unit(mapped - mapped.mean(0))[chosen.to(mapped.device)]
    return [[round(value, 2) for value in row] for row in (points @ points.mT).tolist()]


EXPERIMENT = Experiment(
    EXPERIMENTS["deep-rfm"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims, OTHERS
)
