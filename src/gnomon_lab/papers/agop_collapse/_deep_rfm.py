"""Data, kernels and features of a Deep RFM on images, which kernel-linearisation compares with the linear one."""

import itertools
from typing import Annotated

import torch
from jaxtyping import Int
from torch import Tensor

from gnomon import LinearDeepRFM
from gnomon.data import Samples
from gnomon.kernels import FeatureMap, FourierFeatures, GaussianKernel, Kernel, LaplaceKernel, ReLUFeatures
from gnomon_lab.runs import Run
from gnomon_lab.runs.data import load_images
from gnomon_lab.settings import among

NEAR = 0.1
"""What counts as approximately equal: the root mean square distance of the entries."""
SOURCE = "Beaglehole, Súkeník, Mondelli, Belkin, arXiv:2402.13728, "
DATA, FEATURES = ("mnist", "cifar10", "svhn"), ("relu", "cosine")
KERNELS: dict[str, Kernel] = {"laplace": LaplaceKernel(2.0), "gaussian": GaussianKernel(2.0)}
"""With the paper's bandwidth."""
Arm = Annotated[str, among(*map(" ".join, itertools.product(DATA, KERNELS, FEATURES)))]


def described(arm: str) -> str:
    """An arm in words."""
    data, kernel, features = arm.split()
    names = {"mnist": "MNIST", "cifar10": "CIFAR-10", "svhn": "SVHN", "relu": "ReLU", "cosine": "cosine"}
    return f"{names[data]}, {kernel.title()} kernel, {names[features]} features"


def rows(run: Run, data: str, split: str, limit: int) -> Samples:
    """Images as rows of pixels in float64; the model standardises them."""
    images = load_images(data, split, data_dir=run.data_dir, limit=limit)
    return Samples(images.x.flatten(1).double(), images.labels)


def feature_map(name: str, relu_width: int, cosine_width: int) -> FeatureMap:
    """The features of the paper's appendix C: its bandwidth of 0.05 is one over that of the 1-norm's kernel."""
    return ReLUFeatures(relu_width) if name == "relu" else FourierFeatures(cosine_width, 20.0, "l1")


def by_class(labels: Int[Tensor, "n"], each: int) -> Int[Tensor, "m"]:
    """The indices of the first few samples of each class, class by class."""
    return torch.cat([(labels == label).nonzero()[:each, 0] for label in range(10)])


def share(rfm: LinearDeepRFM) -> float:
    """λ_k over the theorem's bound with C = 1 and ε = 0: the theorem's 1 - ε, where that is at most 1."""
    ridge = rfm.feature_ridge
    return rfm.kernel_ridge * 2 * (1 + 1 / ridge) * rfm.samples / ridge
