"""Where arguments come from: sizes and random numbers, all in float64."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

import gnomon
from gnomon import regions
from gnomon.models import mlp


@dataclass(frozen=True)
class Sizes:
    """How many samples, classes or outputs, inputs, and features there are."""

    n: int = 12
    k: int = 3
    d: int = 4
    p: int = 5


@dataclass(frozen=True)
class Source:
    """Sizes, and a generator from which each call draws on."""

    sizes: Sizes
    generator: torch.Generator

    def normal(self, *axes: int | str) -> Tensor:
        shape = [getattr(self.sizes, axis) if isinstance(axis, str) else axis for axis in axes]
        return torch.randn(shape, generator=self.generator, dtype=torch.float64)

    def orthogonal(self, axis: str) -> Tensor:
        return torch.linalg.qr(self.normal(axis, axis))[0]

    def labels(self) -> Tensor:
        return torch.arange(self.sizes.n) % self.sizes.k

    def features(self) -> Tensor:
        """Around class means of their own."""
        shift = self.normal("k", "p")[self.labels()]
        return self.normal("n", "p") + shift

    def moments(self) -> gnomon.ClassMoments:
        return gnomon.class_moments(self.features(), self.labels(), self.sizes.k)

    def network(self, *, bias: bool = True) -> nn.Sequential:
        """Piecewise affine, of widths that do not increase, so that every quantity can be had."""
        widths = (self.sizes.d, self.sizes.d, self.sizes.k)
        return mlp(widths, bias=bias, generator=self.generator).double().eval()

    def square(self, axis: str = "d") -> Tensor:
        rows = self.normal("n", axis)
        return rows.mT @ rows / len(rows)

    def cumulative(self) -> gnomon.CumulativeParameters:
        with torch.no_grad():
            return gnomon.cumulative_parameters(self.network())

    def slice(self) -> regions.Regions:
        plane = regions.plane_through(self.normal("d"), self.normal("d"), self.normal("d"))
        return regions.slice_regions(self.network(), plane, (-1, 1, -1, 1))

    def times(self) -> Tensor:
        return torch.tensor([0.1, 0.5, 1.0], dtype=torch.float64)
