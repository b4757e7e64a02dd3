"""kernel-linearisation: whether the kernels of a Deep RFM are the linear ones of theorem 4.3, apart from a ridge."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor

from gnomon import DeepRFM, LinearDeepRFM, class_moments, nc1_trace_ratio
from gnomon.dynamics import DeepRFMStage
from gnomon.errors import DataError
from gnomon.kernels import Kernel, kernel_gram
from gnomon.linalg import unit
from gnomon_lab.experiment import Experiment
from gnomon_lab.papers import EXPERIMENTS
from gnomon_lab.papers.agop_collapse._deep_rfm import KERNELS, Arm, by_class, feature_map, rows, share
from gnomon_lab.papers.agop_collapse.kernel_linearisation.linearised import Linearised, linearised
from gnomon_lab.papers.agop_collapse.kernel_linearisation.page import claims, figures, summary, table
from gnomon_lab.runs import Run
from gnomon_lab.settings import Count, Device, Settings, at_least, between

CLASSES = 10
ROUNDING = 1e-10
"""NC1 of a layer's inputs at which it is no longer read: the points of a class soon differ by rounding alone."""
INTRODUCTION = """
Deep neural collapse is proved for a Deep RFM with linear kernels. The step from the real ones is an approximation: the
kernel matrix of a layer's inputs is taken to be, up to scale, a constant, plus their Gram matrix, plus a ridge λ_k, and
that of the random features the same with a ridge λ_Φ, which is assumed to be far larger. Here both are fitted to the
layers of a Deep RFM on images: how large the two ridges are, what the fit leaves, and whether the recursion of theorem
4.3 with these ridges predicts how the classes collapse.
"""


@dataclass(frozen=True)
class Config(Settings):
    """The layers of deep-rfm, of as many images of each class."""

    arms: tuple[Arm, ...] = (
        "mnist laplace relu", "mnist gaussian relu", "cifar10 laplace relu", "cifar10 gaussian relu",
        "mnist laplace cosine",
    )  # fmt: skip
    """Each on mnist, cifar10 or svhn, with a laplace or gaussian kernel, and relu or cosine features."""
    samples: Annotated[int, between(2, 4000)] = 100
    """Training images per class; the first ones are used."""
    depth: Annotated[int, at_least(3)] = 6
    """Number of layers."""
    relu_width: Count = 1024
    """ReLU features per layer."""
    cosine_width: Count = 1024
    """Random Fourier features per layer, of exp(-‖x - z‖₁ / 20)."""
    device: Device = "cpu"
    """Where to compute."""


SMALL = Config()
PAPER = replace(SMALL, depth=19, cosine_width=4096)


def run(config: Config, run: Run) -> None:
    """Fits all arms; one that is stopped starts over."""
    for arm in config.arms:
        data, kernel, features = arm.split()
        x, labels = balanced(run, data, config.samples)
        for _ in run.steps(arm, 0):
            model = DeepRFM(
                KERNELS[kernel], feature_map(features, config.relu_width, config.cosine_width), config.depth,
                random_state=run.seed, device=config.device,
            )  # fmt: skip
            model.fit(x.numpy(), labels.numpy())
            measured = [
                {"inputs": float(each.inputs.nc1), "mapped": float(each.mapped.nc1)} for each in model.readings_
            ]
            resolved = itertools.takewhile(lambda each: each["inputs"] > ROUNDING, measured)
            found = layers(KERNELS[kernel], model.stages(x.numpy()), labels.to(config.device))
            for layer, (collapse, values) in enumerate(zip(resolved, found, strict=False), 1):
                run.require_finite(**{name: torch.tensor(value) for name, value in values.items()})
                run.record(layer, **collapse, **values)


def balanced(run: Run, data: str, each: int) -> tuple[Float[Tensor, "n d"], Int[Tensor, "n"]]:
    """The first images of each class, equally many: the rarest has six hundredths of SVHN's, nine of MNIST's."""
    x, labels = rows(run, data, "train", 17 * each + 200)
    least, label = torch.bincount(labels, minlength=CLASSES).min(0)
    if least < each:
        got = f"{least} of class {label} among {len(labels):,}"
        raise DataError("samples", f"at least {each} images of each class of {data}", got, "Take fewer samples.")
    chosen = by_class(labels, each)
    return x[chosen], labels[chosen]


def layers(kernel: Kernel, stages: Iterator[DeepRFMStage], labels: Int[Tensor, "n"]) -> Iterator[dict[str, float]]:
    r"""The linear forms of each layer's kernel and of the features before it, and what they say of NC1.

    Both Gram matrices are of rows of unit length, as the layers see them and as $yy^\top$ has them. With
    $X_l^\top X_l = b\,(\tilde X_l^\top\tilde X_l + \lambda_\Phi I)$ the kernel's ridge is $\lambda_k/b$ in the units of
    $\tilde X_l$, which are the theorem's.
    """
    before, factor = None, None
    for stage in stages:
        gram = stage.inputs @ stage.inputs.mT
        own = linearised(kernel_gram(kernel, stage.inputs, stage.inputs), gram)
        values = named("kernel", own) | {"least": float(torch.linalg.eigvalsh(gram)[0])}
        alone = LinearDeepRFM(gram, labels, kernel_ridge=own.ridge, feature_ridge=0.0).first()
        if before is None:
            factor = alone
        else:
            features = linearised(gram, before @ before.mT)
            values |= named("features", features) | {"ratio": own.ridge / (features.slope * features.ridge)}
            if factor is not None and features.ridge > 0:
                ridge = own.ridge / features.slope
                linear = LinearDeepRFM(gram, labels, kernel_ridge=ridge, feature_ridge=features.ridge)
                factor = linear.next(factor)
                values |= {"share": share(linear)}
            else:
                factor = None  # the theorem has no step without a ridge, nor one after it
        values |= {"alone": nc1(alone, labels)}
        yield values if factor is None else values | {"recursion": nc1(factor, labels)}
        before = unit(stage.mapped)


def named(part: str, found: Linearised) -> dict[str, float]:
    """Its numbers, for a record."""
    return {f"{part}.{name}": value for name, value in vars(found).items()}


def nc1(factor: Float[Tensor, "n k"], labels: Int[Tensor, "n"]) -> float:
    """That of the points whose Gram matrix has this factor."""
    return float(nc1_trace_ratio(class_moments(factor, labels, CLASSES)))


EXPERIMENT = Experiment(
    EXPERIMENTS["kernel-linearisation"], INTRODUCTION, SMALL, PAPER, run, table, summary, figures, claims
)
