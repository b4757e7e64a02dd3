"""Squared distances between all pairs of two sets of points, exact where points coincide."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.errors import ShapeError

CLOSE = 1e4
"""Epsilons of the points' own squared lengths below which a squared distance is computed from the difference."""

BLOCK = 2**24
"""Entries of the differences that are held at once."""


@half_as_single
def squared_distances(
    x: Float[Tensor, "n d"], z: Float[Tensor, "m d"], metric: Float[Tensor, "d d"] | None = None
) -> Float[Tensor, "n m"]:
    r"""The squared distances $\|x_i - z_j\|_M^2 = (x_i - z_j)^\top M (x_i - z_j)$.

    Computed by one matrix product, about the mean of z, and recomputed from the difference where that would lose
    digits, because points are close compared with their lengths.

    Args:
        x: points in rows.
        z: points in rows.
        metric: M, symmetric and positive semi-definite; the identity if left out.
    Returns:
        At least 0, and exactly 0 for equal points. Differentiable.
    Raises:
        ShapeError: if x and z are not (n d) and (m d), or the metric not (d d).
        EmptyError: if there are no points.
        RangeError: if they are not of floating point or hold NaN or infinity.
    Cost: O(n m d) time, O(n m) memory; close pairs cost O(d) each, O(d²) with a metric. Precision: relative errors of
        at most 1e-3, reached by pairs at the limit of what counts as close: a distance of 3 % of the lengths in
        float32, 1e-6 in float64.
    Example:
        >>> import torch
        >>> from gnomon.kernels import squared_distances
        >>> squared_distances(torch.tensor([[0.0, 0.0], [3.0, 4.0]]), torch.tensor([[3.0, 4.0]]))
        tensor([[25.],
                [ 0.]])
    """
    _checks.rows(x=x)
    _checks.rows(z=z)
    if z.shape[1] != x.shape[1]:
        raise ShapeError(
            "z",
            f"{x.shape[1]} numbers per point as in x",
            f"shape {_checks.shape_of(z)}",
            "Pass points of one space.",
        )
    _checks.finite(x=x, z=z)
    check_metric(metric, x.shape[1])
    centre = z.mean(0)
    x, z = x - centre, z - centre
    mapped = x if metric is None else x @ metric
    other = z if metric is None else z @ metric
    return _expanded(x, z, mapped, (mapped * x).sum(1), (other * z).sum(1), metric)


def check_metric(metric: Tensor | None, width: int) -> None:
    """Raises unless the metric, if there is one, is a finite square matrix of this size."""
    if metric is None:
        return
    if metric.shape != (width, width):
        raise ShapeError("metric", f"shape {(width, width)}", _checks.shape_of(metric), "Pass one row per input.")
    _checks.finite(metric=metric)


def over_pairs(
    function: Callable[[Tensor], Tensor], x: Float[Tensor, "n d"], metric: Float[Tensor, "d d"] | None, block: int
) -> Float[Tensor, "n n"]:
    """A function of the squared distances between all points, half of them computed, a block of rows at a time."""
    n = len(x)
    x = x - x.mean(0)
    mapped = x if metric is None else x @ metric
    lengths = (mapped * x).sum(1)
    values = x.new_empty(n, n)
    for start in range(0, n, block):
        rows, rest = slice(start, start + block), slice(start, None)
        part = function(_expanded(x[rows], x[rest], mapped[rows], lengths[rows], lengths[rest], metric))
        values[rows, rest] = part
        values[rest, rows] = part.mT
    return values


def _expanded(
    x: Float[Tensor, "n d"],
    z: Float[Tensor, "m d"],
    mapped: Float[Tensor, "n d"],
    own: Float[Tensor, "n"],
    other: Float[Tensor, "m"],
    metric: Float[Tensor, "d d"] | None,
) -> Float[Tensor, "n m"]:
    r"""$\|x\|_M^2 - 2\langle Mx, z\rangle + \|z\|_M^2$, or from the difference where that is small in comparison."""
    lengths = own.unsqueeze(1) + other
    squares = torch.addmm(lengths, mapped, z.mT, alpha=-2)
    rows, columns = (squares.detach() <= CLOSE * torch.finfo(x.dtype).eps * lengths.detach()).nonzero(as_tuple=True)
    step = max(1, BLOCK // x.shape[1])
    exact = [
        _between(x[i], z[j], metric) for i, j in zip(torch.split(rows, step), torch.split(columns, step), strict=True)
    ]
    return squares.index_put((rows, columns), torch.cat(exact))


def _between(
    x: Float[Tensor, "q d"], z: Float[Tensor, "q d"], metric: Float[Tensor, "d d"] | None
) -> Float[Tensor, "q"]:
    """The squared distance of each pair, from its difference."""
    apart = x - z
    return ((apart if metric is None else apart @ metric) * apart).sum(1).clamp(min=0)
