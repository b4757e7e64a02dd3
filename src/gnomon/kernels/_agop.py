"""The average gradient outer product of a fitted kernel machine, in sample space."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._budget import budget_of
from gnomon._precision import half_as_single
from gnomon.errors import ShapeError
from gnomon.kernels._distances import check_metric, over_pairs
from gnomon.kernels._radial import Kernel


@half_as_single
def kernel_agop(
    kernel: Kernel,
    x: Float[Tensor, "n d"],
    coefficients: Float[Tensor, "n c"],
    metric: Float[Tensor, "d d"] | None = None,
    *,
    centred: bool = False,
    memory: int | None = None,
) -> Float[Tensor, "d d"]:
    r"""The AGOP of $f(x) = \sum_j\alpha_j k_M(x, x_j)$ over its own points.

    $\frac1n\sum_{i,c}\nabla f_c(x_i)\nabla f_c(x_i)^\top = M X^\top B X M$

    With the slopes $w_{ij}$ of the kernel, $\nabla f_c(x_i) = -\sum_j\alpha_{jc}w_{ij}M(x_i - x_j)$ is a combination of
    the points, and all classes share one matrix of the products of its coefficients:
    $nB = W^2\circ\alpha\alpha^\top - W\circ(\alpha p^\top + p\alpha^\top) + \operatorname{diag}\|p_j\|^2$ with
    $p = W\alpha$. It is symmetric, so only half of it is computed, a block of rows at a time. With many more points
    than classes times dimensions, the gradients themselves, n c x d, cost less, and their product is computed instead.
    It is computed, too, where the sample form would cost digits: for coefficients as large as those of nearly singular
    Gram matrices, and where the mean makes up nearly all of what is centred.

    Source:
        Beaglehole, Súkeník, Mondelli, Belkin, arXiv:2402.13728, algorithm 1. Departs from it in the factor 1/n, that of
        its section 3.3; the form in sample space is gnomon's.
    Args:
        kernel: the kernel.
        x: the points in rows.
        coefficients: $\alpha$, one row per point.
        metric: M, symmetric and positive semi-definite; the identity if left out.
        centred: whether the mean over the points is first subtracted from each class's gradients, as in the code of
            Mallinar et al., arXiv:2407.20199, whose machines otherwise learn half of modular addition (rfm-addition).
        memory: bytes for blocks beyond the n x n slopes, of which one class takes n d numbers; default: 512 MiB.
    Returns:
        Symmetric and positive semi-definite up to rounding; unit: squares of outputs per input. Invariant under shifts
        of x, under permutations of the points and under rotations of the outputs.
    Raises:
        ShapeError: if x is not (n d), coefficients not (n c) or the metric not (d d).
        EmptyError: if there are no points.
        RangeError: if they are not of floating point or hold NaN or infinity, if squared distances or the AGOP are
            beyond the dtype's range, if the metric is not symmetric or has an eigenvalue below 0 by more than 1 % of
            its trace, or if memory is not above 0.
    Cost: the smaller of $n^3 + n^2d + 2nd^2$ and $2n^2dc + 2ncd^2$ operations, after $n^2d$ for the slopes; n² numbers.
        Precision: about half the digits. Products of slopes lose more where the Laplace kernel's points are close: use
        float64 where squared distances fall below 1e-3 of the squared lengths.
    Example:
        >>> import torch
        >>> from gnomon.kernels import GaussianKernel, kernel_agop
        >>> x = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
        >>> kernel_agop(GaussianKernel(1.0), x, torch.tensor([[1.0], [0.0]]))  # f = exp(-|x|²/2): slope e^-½ at (1, 0)
        tensor([[0.1839, 0.0000],
                [0.0000, 0.0000]])
    """
    budget = budget_of(memory)
    _checks.settings(_checks.instance("kernel", kernel, Kernel, "with value and slope, such as LaplaceKernel(2.0)"))
    if coefficients.ndim == 1:
        got = f"shape {_checks.shape_of(coefficients)}"
        raise ShapeError("coefficients", "shape (n, c)", got, "For one output, pass coefficients[:, None].")
    _checks.rows(x=x, coefficients=coefficients)
    _checks.finite(x=x, coefficients=coefficients)
    (n, d), c = x.shape, coefficients.shape[1]
    check_metric(metric, d)
    block = max(1, min(-(-n // 16), budget // (4 * n * x.element_size())))
    # Slopes at coincident points do not matter, since their difference is 0, but would cost digits.
    weights = over_pairs(lambda squares: torch.where(squares != 0, kernel.slope(squares), 0), x, metric, block)
    x = x - x.mean(0)
    mapped = x if metric is None else x @ metric
    # In units of the largest entries, so that products of slopes, far smaller than the AGOP, do not underflow.
    units = [_largest(part) for part in (weights, mapped, coefficients)]
    weights, mapped, coefficients = weights.div_(units[0]), mapped / units[1], coefficients / units[2]
    mean = _mean_gradients(weights, mapped, coefficients) if centred else mapped.new_zeros(c, d)
    if 2 * n * c * d * (n + d) < n * (n * n + n * d + 2 * d * d):
        total = _by_gradients(weights, mapped, coefficients, mean, block, budget)
    else:
        total = _by_samples(weights, mapped, coefficients, block)
        lost, left = _rounding(weights, mapped, coefficients, total), total.trace() - n * mean.square().sum()
        if lost > torch.finfo(x.dtype).eps ** 0.5 * left:
            total = _by_gradients(weights, mapped, coefficients, mean, block, budget)
        else:
            total -= n * mean.mT @ mean
    total = total / n
    unit = math.prod(units[1:], start=units[0])
    total = total * unit * unit
    _checks.held("coefficients", "an AGOP", total)
    return total


def _largest(part: Float[Tensor, "_ _"]) -> Float[Tensor, ""]:
    """The largest entry by absolute value; 1 for zeros."""
    largest = torch.linalg.vector_norm(part.detach(), math.inf)
    return torch.where(largest > 0, largest, 1)


def _rounding(
    weights: Float[Tensor, "n n"],
    x: Float[Tensor, "n d"],
    coefficients: Float[Tensor, "n c"],
    total: Float[Tensor, "d d"],
) -> Float[Tensor, ""]:
    r"""What `_by_samples` may lose: rounding of $W^2\circ\alpha\alpha^\top$, of independent signs, and the result's."""
    pulled = (coefficients.square().sum(1) * x.square().sum(1)).sum()
    terms = torch.linalg.vector_norm(weights, dim=1).amax().square() * pulled
    return torch.finfo(x.dtype).eps * (terms + total.trace())


def _by_samples(
    weights: Float[Tensor, "n n"], x: Float[Tensor, "n d"], coefficients: Float[Tensor, "n c"], block: int
) -> Float[Tensor, "d d"]:
    r"""$nX^\top BX$ as $Z + Z^\top$ with $Z = X^\top TX$, T the upper triangle of nB and half of its diagonal."""
    pulls = weights @ coefficients
    combined = []
    for start in range(0, len(x), block):
        rows, rest = slice(start, start + block), slice(start, None)
        part = weights[rows] @ weights[:, rest]
        part *= coefficients[rows] @ coefficients[rest].mT
        cross = torch.cat([coefficients, pulls], 1)[rows] @ torch.cat([pulls, coefficients], 1)[rest].mT
        part -= weights[rows, rest] * cross
        part = part.triu()
        part.diagonal().add_(pulls[rows].square().sum(1)).div_(2)
        combined.append(part @ x[rest])
    # One product, because summing d x d matrices would take as long.
    half = x.mT @ torch.cat(combined)
    return half + half.mT


def _by_gradients(
    weights: Float[Tensor, "n n"],
    x: Float[Tensor, "n d"],
    coefficients: Float[Tensor, "n c"],
    mean: Float[Tensor, "c d"],
    block: int,
    budget: int,
) -> Float[Tensor, "d d"]:
    """The same from the gradients of some classes at a block of points, less their means."""
    total = x.new_zeros(x.shape[1], x.shape[1])
    together = max(1, budget // (2 * x.numel() * x.element_size()))
    for some, centre in zip(torch.split(coefficients, together, 1), torch.split(mean, together), strict=True):
        points = (some.unsqueeze(2) * x.unsqueeze(1)).flatten(1)
        pulls = weights @ some
        for start in range(0, len(x), block):
            rows = slice(start, start + block)
            gradients = (weights[rows] @ points).view(-1, some.shape[1], x.shape[1])
            gradients -= pulls[rows].unsqueeze(2) * x[rows].unsqueeze(1)
            gradients = (gradients - centre).flatten(0, 1)
            total += gradients.mT @ gradients
    return total


def _mean_gradients(
    weights: Float[Tensor, "n n"], x: Float[Tensor, "n d"], coefficients: Float[Tensor, "n c"]
) -> Float[Tensor, "c d"]:
    """The mean gradient of each class over the points."""
    return (weights.sum(1, keepdim=True) * coefficients - weights @ coefficients).mT @ x / len(x)
