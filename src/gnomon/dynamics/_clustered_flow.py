"""Gradient flow of the output layer where nothing is truncated: least squares, solved for all times at once."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon._precision import full_precision, single
from gnomon.dynamics._integration import require_times
from gnomon.errors import RangeError, ShapeError


class ClusteredFlow:
    r"""Gradient flow of the standard loss where every point lies in the positive sector of every truncation map.

    $\dot W = -\frac1N(WX - Y)\,X^\top$ with the solution

    $W(s) = W_0\,e^{-sS} + YX^+\,(1 - e^{-sS})$, $\quad S = \frac1NXX^\top$

    The network is then the linear map $x\mapsto Wx$, with W the product of all its weights and no cumulative bias at
    the output, and this is the gradient flow of $\frac1{2N}\|WX - Y\|_F^2$, where X and Y have the samples and their
    labels as columns. In the eigenbasis of S each direction moves from its starting point to the least-squares solution
    at its own rate, the eigenvalue. Directions in which there is no data stay where they are: $X^+$ is the
    pseudo-inverse, and S may be singular. Singular values of X below $\sqrt{Nq}$ epsilons times the largest count as
    zero.

    The loss averages over samples. For the sum over classes of each class's average, as in equation 2.22, multiply each
    point and its target by $\sqrt{N / N_l}$, with $N_l$ the size of the class.

    Source:
        Chen, arXiv:2501.07400, equations 9.3 to 9.12 and theorem 9.1, which assume S to be invertible. Departs from it
        in which weight W is and in writing Y for the labels of all samples (docs/errata.md).
    Args:
        points: the samples, in rows.
        targets: their labels $y_l$, in rows, c numbers each.
        weight: W at time 0, (c q).
    Attributes:
        rates: (k), the eigenvalues of S that are not 0, the largest first; unit: the square of the points'. Empty if
            all points are at 0.
        directions: (q k), their eigenvectors as columns: the directions in which there is data.
        limit: (c q), the limit of W as time grows.
        least_loss: the loss at the limit.
    Raises:
        ShapeError: if points are not (n q), targets not (n c) or weight not (c q).
        EmptyError: if there are no points.
        RangeError: at NaN or infinity, at mixed dtypes, or where the dtype does not hold the rates or the loss.
    Cost: O(n q min(n, q)) once, then O(c q k) per time. Differentiable in targets and weight, and in points where their
        singular values are distinct and above 0. Precision: computed from the singular values of X, not from S, whose
        condition number is the square of theirs. All results are in the dtype of points, those of half precision in
        float32.
    Example:
        >>> import math, torch, gnomon
        >>> points, targets = torch.tensor([[2.0, 0.0], [0.0, 0.0]]), torch.tensor([[1.0], [5.0]])
        >>> flow = gnomon.ClusteredFlow(points, targets, torch.tensor([[0.0, 3.0]]))
        >>> flow.limit, flow.least_loss  # no data tells the second weight, and none the second target
        (tensor([[0.5000, 3.0000]]), tensor(6.2500))
        >>> flow.weight(torch.tensor([0.0, math.log(2) / 2])).tolist()  # a rate of 2² / 2: half-way
        [[[0.0, 3.0]], [[0.25, 3.0]]]
    """

    @full_precision
    def __init__(
        self, points: Float[Tensor, "n q"], targets: Float[Tensor, "n c"], weight: Float[Tensor, "c q"]
    ) -> None:
        _checks.samples(points=points, targets=targets)
        if not points.ndim == targets.ndim == 2 or weight.shape != (targets.shape[1], points.shape[1]):
            raise ShapeError(
                "weight",
                "(c, q) with points (n, q) and targets (n, c)",
                ", ".join(map(_checks.shape_of, (weight, points, targets))),
                "Pass a row for each target's entry.",
            )
        if not points.dtype == targets.dtype == weight.dtype:
            raise RangeError(
                None,
                "one dtype",
                f"points {points.dtype}, targets {targets.dtype} and weight {weight.dtype}",
                "Convert them.",
            )
        _checks.finite(points=points, targets=targets, weight=weight)
        dtype = single(points.dtype)
        points, targets, weight = points.to(dtype), targets.to(dtype), weight.to(dtype)
        left, values, right = torch.linalg.svd(points, full_matrices=False)
        has_data = values > math.sqrt(points.numel()) * torch.finfo(values.dtype).eps * values[0]
        left, values, self.directions = left[:, has_data], values[has_data], right[has_data].mT
        self.rates: Float[Tensor, "k"] = values**2 / len(points)
        if not ((self.rates >= torch.finfo(dtype).tiny) & self.rates.isfinite()).all():
            raise RangeError(
                "points",
                f"singular values whose squares {dtype} holds",
                f"{float(values[0]):.1e} to {float(values[-1]):.1e}",
                "Rescale them, or convert them to float64.",
            )
        self._start = weight.clone()  # the caller's may be trained
        # In the eigenbasis, how far W is from its limit at time 0.
        self.missing = weight @ self.directions - targets.mT @ (left / values)
        self.limit: Float[Tensor, "c q"] = weight - self.missing @ self.directions.mT
        # Not at the limit, which may be far away: what no weight fits.
        unfitted = targets - left @ (left.mT @ targets)
        self.least_loss: Float[Tensor, ""] = unfitted.square().sum() / (2 * len(points))
        _checks.held("points, targets, weight", "a loss", self.least_loss + self._excess(self.missing))

    @full_precision
    def weight(self, times: Float[Tensor, "t"]) -> Float[Tensor, "t c q"]:
        """W at all times, from 0 on, in any order; unit: of gradient flow on the loss."""
        # From its start: far limits, of directions with little data, would cancel.
        return self._start + (torch.expm1(-self._decays(times)) * self.missing) @ self.directions.mT

    @full_precision
    def loss(self, times: Float[Tensor, "t"]) -> Float[Tensor, "t"]:
        r"""$\frac1{2N}\|WX - Y\|_F^2$ at all times: what is left in each direction decays at twice its rate."""
        return self.least_loss + self._excess(torch.exp(-self._decays(times)) * self.missing)

    def _excess(self, missing: Float[Tensor, "*t c k"]) -> Float[Tensor, "*t"]:
        """How far the loss is above the least one."""
        return (self.rates.sqrt() * missing).square().sum((-2, -1)) / 2

    def _decays(self, times: Tensor) -> Float[Tensor, "t 1 k"]:
        """By how many factors of e the way that each direction still has to go is shorter than at time 0."""
        require_times(times)
        return times.to(self.rates)[:, None, None] * self.rates
