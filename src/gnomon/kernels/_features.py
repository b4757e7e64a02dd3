"""Random features: maps whose inner products have a kernel as their mean."""

import math
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision, in_single
from gnomon.errors import ShapeError, public
from gnomon.kernels._radial import check_bandwidth


@runtime_checkable
class FeatureMap(Protocol):
    """A random map from d inputs to D features: drawing its random numbers is separate from applying them."""

    def draw(self, inputs: int, generator: torch.Generator) -> dict[str, Tensor]:
        """The random numbers for this many inputs, by name, in float64 on the generator's device."""
        ...

    def apply(self, x: Float[Tensor, "n d"], drawn: dict[str, Tensor]) -> Float[Tensor, "n p"]:
        """The features at x, in its dtype and on its device."""
        ...


@dataclass(frozen=True)
class ReLUFeatures:
    r"""One layer of ReLU units with random weights.

    $\Phi(x) = \sigma(Wx)$, $\quad W_{ij}\sim\mathcal N(0, 2/D)$

    For unit vectors with $x^\top z = r$ the inner product $\Phi(x)^\top\Phi(z)$ has the mean
    $\frac1\pi\big(\sqrt{1 - r^2} + r(\pi - \arccos r)\big)$ and a variance of order 1/D; lengths are preserved in the
    mean. The mean is above r, so points come closer together, those already close the least (docs/errata.md).

    Source:
        Beaglehole, Súkeník, Mondelli, Belkin, arXiv:2402.13728, proposition A.1.
    Args:
        width: D, the number of features.
    Raises:
        RangeError: if the width is below 1.
    Example:
        >>> import torch
        >>> from gnomon.kernels import ReLUFeatures
        >>> features = ReLUFeatures(100_000)
        >>> drawn = features.draw(2, torch.Generator().manual_seed(0))
        >>> phi = features.apply(torch.eye(2, dtype=torch.float64), drawn)
        >>> torch.testing.assert_close(float(phi[0] @ phi[1]), 1 / torch.pi, rtol=0.02, atol=0)
    """

    width: int

    @public
    def __post_init__(self) -> None:
        _checks.settings(_checks.whole_number("width", self.width, 1))

    @full_precision
    def draw(self, inputs: int, generator: torch.Generator) -> dict[str, Tensor]:
        """The weight, (D d)."""
        return {"weight": _normal(self.width, inputs, generator) * math.sqrt(2 / self.width)}

    @full_precision
    def apply(self, x: Float[Tensor, "n d"], drawn: dict[str, Tensor]) -> Float[Tensor, "n p"]:
        r"""$\sigma(Wx)$."""
        _check_points(x, drawn["weight"])
        return (x @ drawn["weight"].to(x).mT).relu()


@dataclass(frozen=True)
class FourierFeatures:
    r"""Random Fourier features of the Laplace kernel: cosines of random frequencies and phases.

    $\Phi(x) = \sqrt{2/D}\,\cos(Wx + b)$, $\quad b_j\sim\mathcal U[0, 2\pi)$

    The inner product $\Phi(x)^\top\Phi(z)$ has the kernel as its mean. The frequencies, rows of W, follow the kernel's
    Fourier transform, a Cauchy distribution, of which there are two kinds:

    - "l2": $k = \exp(-\|x - z\|_2/L)$, the kernel of `LaplaceKernel`. Rows $g/(L|u|)$ with d + 1 standard normal
      numbers g, u: the multivariate Cauchy distribution, whose entries are not independent. For given u the mean of
      $\cos(w^\top\delta)$ is $e^{-\|\delta\|^2/2L^2u^2}$, and its mean over $u^{-2}$, a Lévy variable, is
      $e^{-\|\delta\|/L}$.
    - "l1": $k = \exp(-\|x - z\|_1/L)$, another kernel. Entries $g/(Lu)$, each with its own g and u: independent Cauchy
      numbers. This is what the paper's appendix C uses, its bandwidth of 0.05 being 1/L (docs/errata.md).

    For both "l2" and "l1", an inner product of D features has the standard error $\sqrt{(1 - k^2/2)/D}$.

    Source:
        Rahimi, Recht, Random Features for Large-Scale Kernel Machines (2007), figure 1 and theorem 1; arXiv:2402.13728,
        appendix C.
    Args:
        width: D, the number of features.
        bandwidth: L, above 0; unit: of distance.
        norm: "l2" or "l1".
    Raises:
        RangeError: if a setting is out of range.
    Example:
        >>> import torch
        >>> from gnomon.kernels import FourierFeatures
        >>> features = FourierFeatures(100_000, 2.0)
        >>> drawn = features.draw(2, torch.Generator().manual_seed(0))
        >>> phi = features.apply(torch.tensor([[0.0, 0.0], [0.6, 0.8]], dtype=torch.float64), drawn)
        >>> torch.testing.assert_close(phi[0] @ phi[1], torch.tensor(-1 / 2).double().exp(), rtol=0.02, atol=0)
    """

    width: int
    bandwidth: float | int
    norm: Literal["l2", "l1"] = "l2"

    @public
    def __post_init__(self) -> None:
        _checks.settings(
            _checks.whole_number("width", self.width, 1),
            ("norm", self.norm, "'l2' or 'l1'", self.norm in ("l2", "l1")),
        )
        check_bandwidth(self.bandwidth)

    @full_precision
    def draw(self, inputs: int, generator: torch.Generator) -> dict[str, Tensor]:
        """The weight, (D d), and the phase, (D)."""
        numerator = _normal(self.width, inputs, generator)
        denominator = _normal(self.width, 1 if self.norm == "l2" else inputs, generator)
        uniform = torch.rand(self.width, generator=generator, dtype=torch.float64, device=generator.device)
        return {"weight": numerator / (self.bandwidth * denominator), "phase": 2 * math.pi * uniform}

    @full_precision
    def apply(self, x: Float[Tensor, "n d"], drawn: dict[str, Tensor]) -> Float[Tensor, "n p"]:
        r"""$\sqrt{2/D}\,\cos(Wx + b)$."""
        _check_points(x, drawn["weight"])
        wide = in_single(x)  # half precision does not hold the largest frequencies
        angle = torch.addmm(drawn["phase"].to(wide), wide, drawn["weight"].to(wide).mT)
        return (angle.cos() * math.sqrt(2 / self.width)).to(x)


def _check_points(x: Tensor, weight: Tensor) -> None:
    """Raises unless x holds points of the space that the weight was drawn for."""
    _checks.rows(x=x)
    _checks.finite(x=x)
    if x.shape[1] != weight.shape[1]:
        raise ShapeError("x", f"shape (n, {weight.shape[1]})", _checks.shape_of(x), "Draw for this width.")


def _normal(rows: int, columns: int, generator: torch.Generator) -> Float[Tensor, "r c"]:
    """Standard normal numbers."""
    return torch.randn(rows, columns, generator=generator, dtype=torch.float64, device=generator.device)
