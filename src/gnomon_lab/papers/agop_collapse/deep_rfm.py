"""deep-rfm: a network without training collapses layer by layer, by the AGOP of kernel machines (figures 1, 3 to 6)."""

import itertools
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import correlation, mean
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon import DeepRFM
from gnomon.data import Samples, load_images
from gnomon.dynamics import DeepRFMReading
from gnomon.kernels import FeatureMap, FourierFeatures, GaussianKernel, Kernel, LaplaceKernel, ReLUFeatures
from gnomon.linalg import unit
from gnomon_lab.experiment import Experiment
from gnomon_lab.figures import Curves, Figure, ImageFrame, ImageRow, ImageSlider, Line, Panel
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.runs import Claim, Record, Run, by_arm, last, over_seeds, series
from gnomon_lab.settings import Count, Device, Settings, among, at_least, between

DATA, FEATURES = ("mnist", "cifar10"), ("relu", "cosine")
KERNELS: dict[str, Kernel] = {"laplace": LaplaceKernel(2.0), "gaussian": GaussianKernel(2.0)}
"""With the paper's bandwidth."""
Arm = Annotated[str, among(*map(" ".join, itertools.product(DATA, KERNELS, FEATURES)))]
STAGES = {"inputs": "X", "mapped": "M^½ X", "features": "Φ(M^½ X)"}
"""What a layer's inputs go through, by the names of the readings."""
EXPONENTIAL = -(0.9**0.5)
"""The correlation of a logarithm with the layer number at which the line explains nine tenths of its variance."""
MARGINAL = 2.0
"""The most by which Φ may raise NC1 on average where the paper says that it does so only marginally."""
NEAR = 0.1
"""Approximately equal: the root mean square of an entry's distance."""
SOURCE = "Beaglehole, Súkeník, Mondelli, Belkin, arXiv:2402.13728, "
INTRODUCTION = """
A Deep RFM is a network without backpropagation. In each layer a kernel machine learns the classes; the average outer
product of its gradients, the AGOP M, says to which directions of the inputs it is sensitive; the inputs are mapped by
the root of M and then by random features, which nobody trains. The paper says that layer by layer the points of a class
draw together (NC1) and the class means form a simplex (NC2), which is neural collapse, and that it is the root of M
that does it. What the root does and what the random features do is shown apart.
"""


@dataclass(frozen=True)
class Config(Settings):
    """The setting of figures 1 and 3 to 6."""

    arms: tuple[Arm, ...] = ("mnist gaussian relu", "cifar10 laplace relu", "mnist laplace cosine")
    """Of mnist or cifar10, with a laplace or gaussian kernel, and relu or cosine features."""
    samples: Annotated[int, between(100, 50_000)] = 2000
    """The first so many training images."""
    test: Annotated[int, between(1, 10_000)] = 1000
    """The first so many test images."""
    depth: Annotated[int, at_least(3)] = 10
    """Layers."""
    relu_width: Count = 1024
    """ReLU features of a layer."""
    cosine_width: Count = 1024
    """Random Fourier features of a layer, of exp(-‖x - z‖₁ / 20)."""
    shown: Annotated[int, between(1, 50)] = 6
    """Images of each class in the drawings of the Gram matrix."""
    device: Device = "cpu"
    """Where to compute."""


SMALL = Config()
PAPER = Config(
    arms=("cifar10 laplace cosine", "mnist gaussian relu", "cifar10 laplace relu", "mnist laplace cosine"),
    samples=50_000,
    test=10_000,
    depth=19,
    cosine_width=4096,
    device="cuda",
)
OTHERS = (replace(PAPER, device="cpu"),)


class Layers:
    """The layers fitted so far, as a run keeps them."""

    def __init__(self) -> None:
        self.fitted: Mapping[str, Tensor] | None = None

    def state_dict(self) -> dict[str, Tensor]:
        """Those of `DeepRFM.state_dict`."""
        return dict(self.fitted or {})

    def load_state_dict(self, state_dict: dict[str, Tensor]) -> None:
        """Goes on from there."""
        self.fitted = state_dict


def run(config: Config, run: Run) -> None:
    """Fits all arms."""
    for arm in config.arms:
        fit_arm(config, run, arm)


def fit_arm(config: Config, run: Run, arm: str) -> None:
    """A layer a step; the last kernel machine, whose accuracy is read, is fitted again after each."""
    data, kernel, features = arm.split()
    (x, labels), (unseen, wanted) = (
        rows(run, data, split, limit) for split, limit in (("train", config.samples), ("test", config.test))
    )
    chosen, layers = by_class(labels, config.shown), Layers()
    for depth in run.steps(arm, config.depth, layers=layers):
        model = DeepRFM(
            KERNELS[kernel], feature_map(config, features), depth, random_state=run.seed, device=config.device
        )
        model.fit(x.numpy(), labels.numpy(), state=layers.fitted)
        # A finished arm needs its records only, and the layers are large.
        layers.fitted = model.state_dict() if depth < config.depth else {}
        readings = measured(run, model.readings_[-1]) if depth > 0 else {}
        known = {"train": model.score(x.numpy(), labels.numpy()), "test": model.score(unseen.numpy(), wanted.numpy())}
        run.record(depth, **readings, **known, last_jitter=model.jitter_, gram=gram(model, x, chosen))


def rows(run: Run, data: str, split: str, limit: int) -> Samples:
    """Images as rows of pixels in float64; the model standardises them."""
    images = load_images(data, split, data_dir=run.data_dir, limit=limit)
    return Samples(images.x.flatten(1).double(), images.labels)


def feature_map(config: Config, name: str) -> FeatureMap:
    """Those of the paper's appendix C: its bandwidth of 0.05 is one over that of the 1-norm's kernel."""
    return ReLUFeatures(config.relu_width) if name == "relu" else FourierFeatures(config.cosine_width, 20.0, "l1")


def by_class(labels: Int[Tensor, "n"], each: int) -> Int[Tensor, "m"]:
    """The places of the first few samples of each class, class by class."""
    return torch.cat([(labels == label).nonzero()[:each, 0] for label in range(10)])


def measured(run: Run, reading: DeepRFMReading) -> dict[str, float]:
    """The collapse of the last layer's three stages, and how well its kernel machine could be solved for."""
    stages = {stage: vars(getattr(reading, stage)) for stage in STAGES}
    values = {f"{stage}.{name}": value for stage, collapse in stages.items() for name, value in collapse.items()}
    run.require_finite(**values, misfit=torch.tensor(reading.misfit))
    numbers = {name: float(value) for name, value in values.items()}
    return numbers | {"jitter": reading.jitter, "misfit": reading.misfit}


def gram(model: DeepRFM, x: Float[Tensor, "n d"], chosen: Int[Tensor, "m"]) -> list[list[float]]:
    """Figure 1: inner products after the last layer's M^½ (of the inputs, without one), centred and of unit length."""
    if model.depth == 0:
        mapped = torch.from_numpy(model.transform(x.numpy()))
    else:
        mapped = deque(model.stages(x.numpy()), maxlen=1).pop().mapped
    points = unit(mapped - mapped.mean(0))[chosen.to(mapped.device)]
    return [[round(value, 2) for value in row] for row in (points @ points.mT).tolist()]


def logs(records: Sequence[Record], arm: str, stage: str, name: str = "nc1") -> list[float]:
    """Base-10 logarithms of a measure of collapse by layer."""
    return [math.log10(value) for value in series(records, arm, f"{stage}.{name}")[1]]


def across(records: Sequence[Record], arm: str, before: str, after: str) -> list[float]:
    """By how many decades NC1 changes between two stages of each layer."""
    return [b - a for a, b in zip(logs(records, arm, before), logs(records, arm, after), strict=True)]


def straight(records: Sequence[Record], arm: str, name: str) -> float:
    """The correlation of the logarithm of a measure after M^½ with the layer: -1 for a fall that is exponential."""
    values = logs(records, arm, "mapped", name)
    return correlation(range(len(values)), values)


def slowest(records: Sequence[Record], arm: str) -> float:
    """The largest factor from one layer's NC1 after M^½ to the next one's."""
    return 10 ** max(b - a for a, b in itertools.pairwise(logs(records, arm, "mapped")))


def others(records: Sequence[Record], arm: str) -> float:
    """By how many decades all that is not M^½ changes NC1, from the first layer's inputs to the last one's features."""
    whole = logs(records, arm, "features")[-1] - logs(records, arm, "inputs")[0]
    return whole - sum(across(records, arm, "inputs", "mapped"))


def raised(records: Sequence[Record], arm: str) -> float:
    """The factor by which Φ changes NC1, a geometric mean over layers."""
    return 10 ** mean(across(records, arm, "mapped", "features"))


def from_collapsed(records: Sequence[Record], arm: str) -> float:
    """The root mean square distance of the last Gram matrix from the collapsed one: 1 within, -1/(K - 1) across."""
    products = np.array(last(records, arm)["gram"])
    classes = np.arange(len(products)) // (len(products) // 10)
    collapsed = np.where(classes[:, None] == classes, 1.0, -1 / 9)
    return float(np.sqrt(np.mean((products - collapsed) ** 2)))


def table(records: Sequence[Record]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Every arm from its first to its last layer."""
    columns = ("", "NC1 of X", "of M^½X", "by M^½", "by Φ", "NC2", "jitter", "test", "seconds")
    rows: list[tuple[str, ...]] = []
    for arm in by_arm(records):
        end = last(records, arm)
        decades = (sum(across(records, arm, *stages)) for stages in itertools.pairwise(STAGES))
        jitter = max(series(records, arm, "jitter")[1])
        rows.append(
            (arm, f"{series(records, arm, 'inputs.nc1')[1][0]:.3g}", f"{end['mapped.nc1']:.1e}",
             *(f"10^{value:+.1f}" for value in decades), f"{end['mapped.nc2_etf']:.3f}", f"{jitter:.0e}",
             f"{end['test']:.1%}", f"{end['seconds']['trained']:.0f}")
        )  # fmt: skip
    return columns, rows


def summary(records: Sequence[Record]) -> str:
    """The result in a sentence for each arm."""
    say = "{}: NC1 falls from {:.2g} to {:.1e} after M^½ of layer {}; each Φ multiplies it by {:.2g} on average."
    ends = {arm: last(records, arm) for arm in by_arm(records)}
    return " ".join(
        say.format(said(arm), first, end["mapped.nc1"], end["step"], raised(records, arm))
        for arm, end in ends.items() for first in series(records, arm, "inputs.nc1")[1][:1]
    )  # fmt: skip


def said(arm: str) -> str:
    """An arm in words."""
    data, kernel, features = arm.split()
    names = {"mnist": "MNIST", "cifar10": "CIFAR-10", "relu": "ReLU", "cosine": "cosine"}
    return f"{names[data]}, {kernel.title()} kernel, {names[features]} features"


def figures(records: Sequence[Record]) -> list[Figure]:
    """Collapse against depth for each arm, and the Gram matrices of all."""
    return [*(curves(records, arm) for arm in by_arm(records)), matrices(records)]


def curves(records: Sequence[Record], arm: str) -> Curves:
    """Figures 3 and 4."""

    def stages(name: str) -> tuple[Line, ...]:
        return tuple(
            Line(label, *series(records, arm, f"{stage}.{name}"), colour=colour)
            for colour, (stage, label) in enumerate(STAGES.items())
        )

    known = tuple(
        Line(f"{name} accuracy", *series(records, arm, name), dashed=name == "train", colour=3)
        for name in ("train", "test")
    )
    return Curves(
        arm.replace(" ", "-"),
        f"What the root of the AGOP and the features do: {said(arm)}",
        "Variability within classes over that between them (NC1), and how far the class means are from a simplex "
        "(NC2), of each layer's inputs, after the root of its AGOP, and after its random features. Accuracy: of a "
        "kernel machine on top of so many layers.",
        "layer",
        (
            Panel("NC1: the root lowers it, the random features raise it", "tr Σ_W / tr Σ_B", stages("nc1"),
                  log_y=True),
            Panel("NC2: distance of the class means from a simplex", "Frobenius norm", stages("nc2_etf"), log_y=True),
            Panel("Accuracy", "share correct", known, (), (0.0, 1.05)),
        ),
        log_x=False,
    )  # fmt: skip


def matrices(records: Sequence[Record]) -> ImageSlider:
    """Figures 1, 5 and 6."""
    label = "from left to right: " + "; ".join(by_arm(records))
    frames = []
    for depth in sorted({record["step"] for record in records}):
        images = [record["gram"] for arm in by_arm(records) for record in records
                  if (record["arm"], record["step"]) == (arm, depth)]  # fmt: skip
        moment = f"layer {depth}" if depth else "the data"
        frames.append(ImageFrame(moment, (ImageRow(label, np.array(images)),)))
    return ImageSlider(
        "gram",
        "How alike images are, layer by layer",
        "Inner products of images after the root of each layer's AGOP, centred and of unit length, in the order of "
        "their classes. Collapsed: red blocks of ones on the diagonal, and -1/9 everywhere else.",
        tuple(frames),
    )


def claims(seeds: Sequence[Sequence[Record]]) -> list[Claim]:
    """The statements, for every arm and all finished seeds."""

    def claim(
        message: str, where: str, measure: Callable[[Sequence[Record], str], float], least: float, most: float,
        features: str = "",
    ) -> Claim:  # fmt: skip
        found = {arm: [measure(records, arm) for records in seeds] for arm in by_arm(seeds[0]) if features in arm}
        expected = f"at most {most:.3g}" if most < math.inf else f"at least {least:g}"
        words = "; ".join(f"{arm} {over_seeds(values)}" for arm, values in found.items())
        holds = all(least <= value <= most for values in found.values() for value in values)
        return Claim(message, SOURCE + where, expected, words, holds)

    found = [
        claim("NC1 after M^½ falls exponentially with depth: correlation of its logarithm with the layer",
              "section 4.2, figures 3, 4", lambda r, arm: straight(r, arm, "nc1"), -math.inf, EXPONENTIAL),
        claim("and in all layers: the largest factor from one layer to the next", "section 4.2, figures 3, 4",
              slowest, 0, 1),
        claim("NC2 after M^½ falls exponentially with depth: correlation of its logarithm with the layer",
              "section 4.2, figures 3, 4", lambda r, arm: straight(r, arm, "nc2_etf"), -math.inf, EXPONENTIAL),
        claim("the fall of NC1 is entirely due to M^½: decades by which all else changes it", "section 4.1",
              others, 0, math.inf),
        claim("Φ worsens NC1: geometric mean of the factor", "section 4.1", raised, 1, math.inf),
        claim("the last Gram matrix is approximately that of collapsed data: root mean square distance",
              "section 4.1, figures 1, 5, 6", from_collapsed, 0, NEAR),
    ]  # fmt: skip
    if any("relu" in arm for arm in by_arm(seeds[0])):
        found.append(claim("random ReLU features change NC1 only marginally: geometric mean of the factor",
                           "appendix A, proposition A.1", raised, 0, MARGINAL, "relu"))  # fmt: skip
    return found


EXPERIMENT = Experiment(
    EXPERIMENTS["deep-rfm"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims, OTHERS
)
