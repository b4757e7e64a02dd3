"""The mean outer product of Jacobians' rows, from products with the Jacobians."""

import math
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon.linalg import Estimate, Products
from gnomon.measure._estimates import Accuracy

FIRST = 8
"""Random vectors a sample after which the error is looked at, at least."""
PAIRS = 64
"""Of so many pairs of vectors it is seen how they vary, at least: more of each where there are few samples."""
SOME = 64
"""Samples from which it is seen in how many directions errors lie, at most."""
SURE = 0.75
"""The part of these directions that counts: their number is an estimate from few vectors. Chosen by coverage."""
SPARE = 1.1
"""By so much more vectors are taken than the error after the first ones asks for, which is itself an estimate."""


def mean_outer_product(
    parts: Callable[[], Iterator[Products]],
    exact: Callable[[], Float[Tensor, "p p"]],
    shape: tuple[int, int],
    accuracy: Accuracy,
) -> Estimate:
    r"""$\frac1n\sum_i A_i^\top A_i$ of matrices that are known by their products; the error is of the Frobenius norm.

    For normal v the outer product of $v^\top A_i$ with itself has $A_i^\top A_i$ as its mean. It is exact where that
    takes no more products than the accuracy does, and these are allowed.
    """
    samples, outputs = shape
    first = min(max(FIRST, 2 * math.ceil(PAIRS / samples)), accuracy.passes)
    drawn = Drawn(samples)
    drawn.add(parts(), first)
    error, most = drawn.error(), accuracy.rtol * drawn.size()
    needed = first if error <= most else math.inf if most == 0 else SPARE * first * (error / most) ** 2
    if outputs <= min(needed, accuracy.passes):
        return of_matrix(exact(), 0.0, first + outputs)
    if needed > first:
        drawn.add(parts(), math.ceil(min(needed, accuracy.passes)))
    return of_matrix(drawn.mean(), drawn.error(), drawn.count)


def of_matrix(value: Float[Tensor, "p p"], error: float, passes: int) -> Estimate:
    """An estimate of one matrix."""
    return Estimate(value, value.new_tensor(error), torch.tensor(passes, device=value.device))


class Drawn:
    """What random vectors have given so far.

    Attributes:
        samples: how many there are.
        count: the vectors of each.
    """

    def __init__(self, samples: int) -> None:
        self.samples, self.count = samples, 0
        self._sum = torch.zeros(())
        self._variance = torch.zeros(2, dtype=torch.float64)
        self._directions = 1.0

    def add(self, parts: Iterator[Products], stop: int) -> None:
        """Goes on up to so many vectors a sample."""
        for place, part in enumerate(parts):
            some, before = [], None
            for draw in range(self.count, stop):
                rows = part.left(part.normal(1 + draw, 1)[:, 0].contiguous())
                self._sum = self._sum.to(rows.device) + (rows.mT @ rows).double()
                if before is not None:
                    found = variances(before.double(), rows.double())
                    self._variance = self._variance.to(rows.device) + torch.stack([torch.ones_like(found), found]).sum(
                        1
                    )
                before = rows if before is None else None
                some.append(rows[:SOME])
            if self.count == 0 and place == 0:
                self._directions = directions(torch.cat(some[:-1:2]).double(), torch.cat(some[1::2]).double())
        self.count = stop

    def mean(self) -> Float[Tensor, "p p"]:
        """The estimate, in float64."""
        return self._sum / (self.samples * self.count)

    def noise(self) -> float:
        """The mean square error."""
        pairs, variance = self._variance.tolist()
        return variance / pairs / (self.samples * self.count)

    def error(self) -> float:
        """Half the width of the 95 % interval.

        By the mean square error, around which the square of an error lies as chi squared does; its degrees of freedom
        are the directions in which errors lie, as far as these are sure. That the mean square error is an estimate does
        not widen it: where vectors happen to be long, the estimate and the error are large together.
        """
        narrow = 2 / 9 / max(1.0, SURE * self._directions)
        return math.sqrt(self.noise()) * (1 - narrow + 1.644854 * math.sqrt(narrow)) ** 1.5

    def size(self) -> float:
        """The norm of what is estimated: that of the estimate has the mean square error in it."""
        return math.sqrt(max(0.0, float(self.mean().square().sum()) - self.noise()))


def variances(g: Float[Tensor, "*n p"], h: Float[Tensor, "*n p"]) -> Float[Tensor, "*n"]:
    r"""Half of $\|gg^\top - hh^\top\|^2$ for two draws: in the mean the squared distance of one from its mean."""
    return (g.square().sum(-1).square() + h.square().sum(-1).square()) / 2 - (g * h).sum(-1).square()


def directions(g: Float[Tensor, "m p"], h: Float[Tensor, "m p"]) -> float:
    r"""In how many directions, each as large, the differences $Y_i = g_ig_i^\top - h_ih_i^\top$ would lie as they do.

    $(\operatorname{tr}S)^2 / \operatorname{tr}S^2$ of their covariance S: the mean of $\|Y_i\|^2\|Y_j\|^2$ over that of
    $\langle Y_i, Y_j\rangle^2$, both for different draws.
    """
    products = (g @ g.mT).square() - (g @ h.mT).square() - (h @ g.mT).square() + (h @ h.mT).square()
    own = products.diagonal()
    squares = own.square().sum()
    lengths, others = own.sum().square() - squares, products.square().sum() - squares
    return max(1.0, float(lengths / others)) if others > 0 else 1.0
