"""Gradient flow of the output layer where nothing is truncated: least squares, solved for all times at once."""

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon import _checks
from gnomon.errors import RangeError, ShapeError


class ClusteredFlow:
    r"""Gradient flow of the standard loss where every point lies in the positive sector of every truncation map.

    $\dot W = -\frac1N(WX - Y)\,X^\top$ with the solution

    $W(s) = W_0\,e^{-sS} + YX^+\,(1 - e^{-sS})$, $\quad S = \frac1NXX^\top$

    The network is then the linear map $x\mapsto Wx$, W the product of all its weights, its output without a cumulative
    bias, and this is the gradient flow of $\frac1{2N}\|WX - Y\|_F^2$, X and Y having the samples and their labels in
    columns. In the eigenbasis of S each direction goes from where it starts to the least-squares solution at its own
    rate, the eigenvalue. Directions in which there is no data stay where they are, so that $X^+$ is the pseudo-inverse
    and S may be singular. Eigenvalues below q epsilons of the largest count as none.

    The loss averages over samples. For the average over classes of unlike sizes $N_l$, multiply each point and its
    target by $\sqrt{N / N_l}$.

    Source:
        Chen, arXiv:2501.07400, equations 9.3 to 9.12 and theorem 9.1, which take S to be invertible. Departs from it
        in which weight W is and in writing Y for the labels of all samples (docs/errata.md).
    Args:
        points: the samples, in rows.
        targets: their labels $y_l$, in rows, c numbers each.
        weight: W at time 0, (c q).
    Attributes:
        rates: (q), the eigenvalues of S, from the least on; unit: the square of the points'. 0 where there is no data.
        directions: (q q), their eigenvectors as columns.
        limit: (c q), of W as time grows.
        least_loss: of the limit.
    Raises:
        ShapeError: if points are not (n q), targets not (n c) or weight not (c q).
        EmptyError: if there are no points.
        RangeError: at NaN or infinity, or at several dtypes.
    Cost: O(n q² + q³) once, then O(c q²) a time. Differentiable in targets and weight; in points where no eigenvalues
        of S are equal. Precision: S has the square of the points' condition number.
    Example:
        >>> import math, torch, gnomon
        >>> points, targets = torch.tensor([[2.0, 0.0], [0.0, 0.0]]), torch.tensor([[1.0], [5.0]])
        >>> flow = gnomon.ClusteredFlow(points, targets, torch.tensor([[0.0, 3.0]]))
        >>> flow.limit, flow.least_loss  # no data tells the second weight, and none the second target
        (tensor([[0.5000, 3.0000]]), tensor(6.2500))
        >>> flow.weight(torch.tensor([0.0, math.log(2) / 2])).tolist()  # a rate of 2² / 2: half-way
        [[[0.0, 3.0]], [[0.25, 3.0]]]
    """

    def __init__(
        self, points: Float[Tensor, "n q"], targets: Float[Tensor, "n c"], weight: Float[Tensor, "c q"]
    ) -> None:
        where = "ClusteredFlow"
        _checks.floating(where, points=points)
        _checks.samples(where, points=points, targets=targets)
        if not points.ndim == targets.ndim == 2 or weight.shape != (targets.shape[1], points.shape[1]):
            raise ShapeError(
                f"{where}(weight): expected (c, q) with points (n, q) and targets (n, c), got "
                f"{', '.join(map(_checks.shape_of, (weight, points, targets)))}. Pass a row for each target's entry."
            )
        if not points.dtype == targets.dtype == weight.dtype:
            raise RangeError(
                f"{where}: expected one dtype, got points {points.dtype}, targets {targets.dtype} and weight "
                f"{weight.dtype}. Convert them."
            )
        _checks.finite(where, points=points, targets=targets, weight=weight)
        count, width = points.shape
        values, self.directions = torch.linalg.eigh(points.mT @ points / count)
        has_data = values > width * torch.finfo(values.dtype).eps * values[-1]
        self.rates: Float[Tensor, "q"] = torch.where(has_data, values, 0)
        across = targets.mT @ (points @ self.directions) / count
        # In the eigenbasis, where W goes and how far it is from there at first; no way to go without data.
        start = weight @ self.directions
        goal = torch.where(has_data, across / torch.where(has_data, values, 1), start)
        self.missing = start - goal
        self.limit: Float[Tensor, "c q"] = goal @ self.directions.mT
        self.least_loss: Float[Tensor, ""] = (points @ self.limit.mT - targets).square().sum() / (2 * count)

    def weight(self, times: Float[Tensor, "t"]) -> Float[Tensor, "t c q"]:
        """W at all times, from 0 on, in any order; unit: of gradient flow on the loss."""
        return self.limit + (self._left("weight", times) * self.missing) @ self.directions.mT

    def loss(self, times: Float[Tensor, "t"]) -> Float[Tensor, "t"]:
        r"""$\frac1{2N}\|WX - Y\|_F^2$ at all times: of each direction what is left decays at twice its rate."""
        return self.least_loss + (self.rates * (self._left("loss", times) * self.missing) ** 2).sum((1, 2)) / 2

    def _left(self, name: str, times: Tensor) -> Float[Tensor, "t 1 q"]:
        """The share of the way that each direction still has to go."""
        where = f"ClusteredFlow.{name}"
        _checks.samples(where, 1, times=times)
        _checks.finite(where, times=times)
        earliest = float(times.detach().min())
        _checks.settings(where, ("times", earliest, "from 0 on", earliest >= 0))
        return torch.exp(-times[:, None, None] * self.rates)
