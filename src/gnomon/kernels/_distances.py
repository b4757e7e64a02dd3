"""Squared distances between all pairs of two sets of points, exact where points coincide."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import half_as_single
from gnomon.errors import RangeError, ShapeError
from gnomon.linalg import identity

CLOSE = 1e4
"""Epsilons of what the squared lengths add up, below which a squared distance is computed from the difference."""

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
        RangeError: if they are not of floating point or hold NaN or infinity, if their squares are beyond the dtype's
            range, or if the metric is not symmetric or has an eigenvalue below 0 by more than 1 % of its trace.
    Cost: O(n m d) time, O(n m) memory; close pairs cost O(d) each, O(d²) with a metric, whose check costs O(d³).
        Precision: without a metric, relative errors of at most 1e-3, reached by pairs at the limit of what counts as
        close: a distance of 3 % of the lengths in float32, 1e-6 in float64. With one, errors of at most 1e-3 of the
        distance or some epsilons of what adds up to it: of little of the points' difference, if M is of low rank.
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
    sides = _Points.of(x, centre, metric), _Points.of(z, centre, metric)
    _require_squares(*sides)
    return _expanded(*sides, metric)


def check_metric(metric: Tensor | None, width: int) -> None:
    """Raises unless the metric, if there is one, is finite, of this size, symmetric and positive semi-definite."""
    if metric is None:
        return
    if metric.shape != (width, width):
        raise ShapeError("metric", f"shape {(width, width)}", _checks.shape_of(metric), "Pass one row per input.")
    _checks.finite(metric=metric)
    found = metric.detach()
    limits = torch.finfo(metric.dtype)
    # As much as that of half precision, in which it may have been held.
    rounding = _checks.ROUNDED * found.trace() + limits.tiny
    if (found - found.mT).abs().max() > limits.eps**0.5 * found.abs().max():
        got = "one that is not symmetric"
    elif torch.linalg.cholesky_ex(found + rounding * identity(found)).info != 0:
        got = "a negative eigenvalue"
    else:
        return
    raise RangeError("metric", "a symmetric positive semi-definite matrix", got, "Pass an AGOP, for instance.")


def over_pairs(
    function: Callable[[Tensor], Tensor], x: Float[Tensor, "n d"], metric: Float[Tensor, "d d"] | None, block: int
) -> Float[Tensor, "n n"]:
    """A function of the squared distances between all points, half of them computed, a block of rows at a time."""
    n = len(x)
    points = _Points.of(x, x.mean(0), metric)
    _require_squares(points)
    values = x.new_empty(n, n)
    for start in range(0, n, block):
        rows, rest = slice(start, start + block), slice(start, None)
        part = function(_expanded(points[rows], points[rest], metric))
        own = part[:, : len(part)]  # symmetric up to rounding with a metric
        part = torch.cat([(own + own.mT) / 2, part[:, len(part) :]], 1)
        values[rows, rest] = part
        values[rest, rows] = part.mT
    return values


@dataclass(frozen=True)
class _Points:
    r"""Points, and what the metric makes of them.

    Attributes:
        x: the points as they are, for their differences: moving them would round them.
        centred: the points about the centre.
        mapped: M times these.
        lengths: their $\|x\|_M^2$.
        sizes: what is added up for that, by absolute value: it can be far more where M is of low rank.
    """

    x: Float[Tensor, "n d"]
    centred: Float[Tensor, "n d"]
    mapped: Float[Tensor, "n d"]
    lengths: Float[Tensor, "n"]
    sizes: Float[Tensor, "n"]

    @classmethod
    def of(cls, x: Float[Tensor, "n d"], centre: Float[Tensor, "d"], metric: Float[Tensor, "d d"] | None) -> "_Points":
        """All of it."""
        centred = x - centre
        mapped = centred if metric is None else centred @ metric
        terms, plain = mapped * centred, centred.detach().abs()
        sizes = terms.detach() if metric is None else plain @ metric.detach().abs() * plain
        return cls(x, centred, mapped, terms.sum(1), sizes.sum(1))

    def __getitem__(self, rows: slice) -> "_Points":
        return _Points(self.x[rows], self.centred[rows], self.mapped[rows], self.lengths[rows], self.sizes[rows])


def _require_squares(*sides: _Points) -> None:
    """Raises RangeError if the dtype does not hold the largest of the squared lengths, or loses its digits."""
    dtype, largest = sides[0].x.dtype, max(float(side.sizes.max()) for side in sides)
    limits = torch.finfo(dtype)
    least = limits.tiny / limits.eps
    together = largest == 0 and not any(side.mapped.any() for side in sides)
    if not (together or least <= largest <= limits.max / 8):
        bound, got = ("above", "less") if largest < 1 else ("below", "more")
        length = math.sqrt(least if largest < 1 else limits.max)
        advice = "Scale the points, or use float64." if dtype == torch.float32 else "Scale the points."
        raise RangeError("x", f"lengths well {bound} {length:.0e}, whose squares {dtype} holds", got, advice)


def _expanded(x: _Points, z: _Points, metric: Float[Tensor, "d d"] | None) -> Float[Tensor, "n m"]:
    r"""$\|x\|_M^2 - 2\langle Mx, z\rangle + \|z\|_M^2$, or from the difference where that is small in comparison."""
    squares = torch.addmm(x.lengths.unsqueeze(1) + z.lengths, x.mapped, z.centred.mT, alpha=-2)
    lost = CLOSE * torch.finfo(squares.dtype).eps * (x.sizes.unsqueeze(1) + z.sizes)
    rows, columns = (squares.detach() <= lost).nonzero(as_tuple=True)
    step = max(1, BLOCK // x.x.shape[1])
    exact = [
        _between(x.x[i], z.x[j], metric)
        for i, j in zip(torch.split(rows, step), torch.split(columns, step), strict=True)
    ]
    return squares.index_put((rows, columns), torch.cat(exact))


def _between(
    x: Float[Tensor, "q d"], z: Float[Tensor, "q d"], metric: Float[Tensor, "d d"] | None
) -> Float[Tensor, "q"]:
    """The squared distance of each pair, from its difference."""
    apart = x - z
    return ((apart if metric is None else apart @ metric) * apart).sum(1).clamp(min=0)
