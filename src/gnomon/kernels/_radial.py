"""Kernels of the distance: their values, and the slopes that determine their gradients."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.errors import RangeError, public
from gnomon.kernels._distances import squared_distances
from gnomon.linalg import root


@runtime_checkable
class Kernel(Protocol):
    r"""A kernel $k(x, z) = \varphi(\|x - z\|_M^2)$ with $\varphi(0) = 1$, given by two functions of the square."""

    def value(self, squares: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
        r"""$\varphi(s)$."""
        ...

    def slope(self, squares: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
        r"""$-2\varphi'(s)$, so that $\nabla_x k(x, z) = -\mathrm{slope}\cdot M(x - z)$; 0 at 0 if that has no limit."""
        ...


@dataclass(frozen=True)
class LaplaceKernel:
    r"""The Laplace kernel.

    $k(x, z) = \exp(-\|x - z\|_M / L)$, $\quad\nabla_x k = -\frac{k}{L\,\|x - z\|_M}M(x - z)$

    Where the points coincide the kernel has a peak and no gradient; the gradient is taken to be 0 there, the mean over
    all directions. Strictly positive definite: Gram matrices of different points are invertible.

    Source:
        Beaglehole, Súkeník, Mondelli, Belkin, arXiv:2402.13728, appendix C; with M as in its section 4.3.
    Args:
        bandwidth: L, above 0; unit: of distance.
    Raises:
        RangeError: if the bandwidth is not finite and above 0.
    Example:
        >>> import torch
        >>> from gnomon.kernels import LaplaceKernel
        >>> squares = torch.tensor([0.0, 4.0])
        >>> LaplaceKernel(2.0).value(squares), LaplaceKernel(2.0).slope(squares)
        (tensor([1.0000, 0.3679]), tensor([0.0000, 0.0920]))
    """

    bandwidth: float | int

    @public
    def __post_init__(self) -> None:
        check_bandwidth(self.bandwidth)

    @half_as_single
    def value(self, squares: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
        r"""$\exp(-\sqrt s / L)$."""
        require_held(self, squares)
        return (root(squares) / -self.bandwidth).exp()

    @half_as_single
    def slope(self, squares: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
        r"""$\exp(-\sqrt s / L) / (L\sqrt s)$, and 0 at 0."""
        require_held(self, squares)
        distance = root(squares)
        apart = distance != 0
        # One after the other: their product may round to 0 where the exponential does.
        slopes = (distance / -self.bandwidth).exp() / self.bandwidth / torch.where(apart, distance, 1)
        return torch.where(apart, slopes, 0)


@dataclass(frozen=True)
class GaussianKernel:
    r"""The Gaussian kernel.

    $k(x, z) = \exp(-\|x - z\|_M^2 / 2L^2)$, $\quad\nabla_x k = -\frac{k}{L^2}M(x - z)$

    Gram matrices of different points are invertible, but only just for points that are close compared with L.

    Source:
        Beaglehole, Súkeník, Mondelli, Belkin, arXiv:2402.13728, appendix C, where no formula is given; the factor 2 is
        as in the literature on recursive feature machines.
    Args:
        bandwidth: L, above 0; unit: of distance.
    Raises:
        RangeError: if the bandwidth is not finite and above 0.
    Example:
        >>> import torch
        >>> from gnomon.kernels import GaussianKernel
        >>> GaussianKernel(1.0).value(torch.tensor([0.0, 2.0])), GaussianKernel(2.0).slope(torch.zeros(1))
        (tensor([1.0000, 0.3679]), tensor([0.2500]))
    """

    bandwidth: float | int

    @public
    def __post_init__(self) -> None:
        check_bandwidth(self.bandwidth)

    @half_as_single
    def value(self, squares: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
        r"""$\exp(-s / 2L^2)$."""
        require_held(self, squares)
        return (squares / self.bandwidth / self.bandwidth / -2).exp()  # the bandwidth's square may not be representable

    @half_as_single
    def slope(self, squares: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
        r"""$\exp(-s / 2L^2) / L^2$."""
        return self.value(squares) / self.bandwidth / self.bandwidth


@half_as_single
def kernel_gram(
    kernel: Kernel,
    x: Float[Tensor, "n d"],
    z: Float[Tensor, "m d"],
    metric: Float[Tensor, "d d"] | None = None,
) -> Float[Tensor, "n m"]:
    r"""The Gram matrix $k_M(x_i, z_j)$; its diagonal is exactly 1 where z is x.

    Args:
        kernel: a function of the squared distance, with value and slope.
        x: points in rows.
        z: points in rows.
        metric: M, symmetric and positive semi-definite; the identity if left out.
    Returns:
        Of the kernels here in [0, 1]. Differentiable where the kernel is.
    Raises:
        RangeError: if the kernel is none, or as `squared_distances`, or if their dtype rounds the bandwidth to 0.
        ShapeError: as `squared_distances`.
        EmptyError: if there are no points.
    Example:
        >>> import torch
        >>> from gnomon.kernels import LaplaceKernel, kernel_gram
        >>> kernel_gram(LaplaceKernel(2.0), torch.tensor([[0.0], [1.0]]), torch.tensor([[0.0]]))
        tensor([[1.0000],
                [0.6065]])
    """
    _checks.settings(_checks.instance("kernel", kernel, Kernel, "with value and slope, such as LaplaceKernel(2.0)"))
    return kernel.value(squared_distances(x, z, metric))


def check_bandwidth(bandwidth: float | int) -> None:
    """Raises unless it is finite and above 0."""
    _checks.settings(_checks.above_0("bandwidth", bandwidth))


def require_held(kernel: LaplaceKernel | GaussianKernel, squares: Tensor) -> None:
    """Raises unless the dtype of the squares holds the bandwidth, also where subnormals are 0: 0 / 0 is no number."""
    smallest = torch.finfo(squares.dtype).smallest_normal
    if kernel.bandwidth < smallest:
        raise RangeError(
            "bandwidth",
            f"at least {smallest:.1e}, the smallest normal number of {squares.dtype}",
            kernel.bandwidth,
            "Convert the points to float64, or rescale both.",
        )
