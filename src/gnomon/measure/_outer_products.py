"""The mean outer product of Jacobians' rows, from products with the Jacobians."""

import math
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon.linalg import Estimate, Products, power_of_two
from gnomon.measure._estimates import Accuracy
from gnomon.measure._spread import Spread, spread

FIRST = 8
"""The least number of random vectors per sample before the error is checked."""
PAIRS = 64
"""The least number of pairs of vectors from which their variance is estimated: more per sample if samples are few."""
SOME = 32
"""The largest number of samples from which it is estimated how errors spread over directions."""
SPARE = 1.1
"""The factor by which more vectors are used than the error after the first ones requires, as that is an estimate."""


def mean_outer_product(
    parts: Callable[[], Iterator[Products]],
    exact: Callable[[], Float[Tensor, "p p"]],
    shape: tuple[int, int],
    accuracy: Accuracy,
) -> tuple[Estimate, Float[Tensor, ""]]:
    r"""$\frac1n\sum_i A_i^\top A_i$ of matrices known by their products, and its norm, in which the error is measured.

    For normal v the outer product of $v^\top A_i$ with itself has $A_i^\top A_i$ as its mean. It is exact where that
    needs no more products than the accuracy does, and these are allowed.
    """
    samples, outputs = shape
    drawn = Drawn(samples)
    needed: float = min(max(FIRST, 2 * math.ceil(PAIRS / samples)), accuracy.passes)
    while drawn.count < min(needed, accuracy.passes):
        drawn.add(parts(), math.ceil(min(needed, accuracy.passes)))
        error, most = drawn.error(), accuracy.rtol * drawn.size()
        if error > most:
            needed = SPARE * drawn.count * (error / most) ** 2 if most > 0 else math.inf
            if outputs <= min(needed, accuracy.passes):
                found = of_matrix(exact(), drawn.count + outputs)
                return found, torch.linalg.matrix_norm(found.value)
    value, scale = drawn.mean(), drawn.scale.double()
    ends = value.new_tensor([drawn.error(), drawn.size()])
    # One after the other, as the scale's square may be beyond float64.
    error, size = ends * scale * scale
    return Estimate(value * scale * scale, error, torch.tensor(drawn.count, device=value.device)), size


def of_matrix(value: Float[Tensor, "p p"], passes: int) -> Estimate:
    """A matrix that is known without an error, from this many passes."""
    return Estimate(value, value.new_zeros(()), torch.tensor(passes, device=value.device))


class Drawn:
    """What random vectors have given so far, with products divided by a scale: errors need their fourth powers.

    Attributes:
        samples: the number of samples.
        count: the number of vectors for each.
        scale: the power of two at or below the largest product so far.
    """

    def __init__(self, samples: int) -> None:
        self.samples, self.count, self.scale = samples, 0, torch.ones(())
        self._largest = torch.zeros(())
        self._sum = self._variance = torch.zeros((), dtype=torch.float64)
        self._pairs = 0
        self._spread = Spread()

    def add(self, parts: Iterator[Products], stop: int) -> None:
        """Continues up to this many vectors per sample; the first ones show how errors spread."""
        kept, wanted = [], 0 if self.count else SOME
        for part in parts:
            some, before = [], None
            for draw in range(self.count, stop):
                rows = part.left(part.normal(1 + draw, 1)[:, 0].contiguous())
                shrunk = self._rescaled(rows)
                now = rows / self.scale
                self._sum = torch.addcmul((now.mT @ now).double(), self._sum.to(rows.device), shrunk.square())
                self._variance = self._variance.to(rows.device) * shrunk**4
                if before is not None:
                    self._variance += variances((before / self.scale).double(), now.double()).sum()
                    self._pairs += len(rows)
                before = rows if before is None else None
                if wanted:
                    some.append(rows[:wanted])
            if wanted:
                kept.append(torch.stack(some, 1))
                wanted -= len(kept[-1])
        if kept:
            self._spread = spread(torch.cat(kept) / self.scale)
        self.count = stop

    def _rescaled(self, rows: Float[Tensor, "n p"]) -> Float[Tensor, ""]:
        """Takes these rows into the scale, and gives the last one over it: later products may be far larger."""
        last = self.scale.to(rows)
        self._largest = torch.maximum(self._largest.to(rows), rows.abs().amax())
        self.scale = power_of_two(self._largest)
        # It falls only where all were 0, whose scale is 1.
        return (last / self.scale).clamp(max=1).double()

    def mean(self) -> Float[Tensor, "p p"]:
        """The estimate over the square of the scale, in float64."""
        return self._sum / (self.samples * self.count)

    def noise(self) -> float:
        """The mean square error of that."""
        return float(self._variance) / self._pairs / (self.samples * self.count)

    def error(self) -> float:
        """Half the width of its 95 % interval."""
        return self._spread.width(self.noise(), float(self.mean().square().sum()))

    def size(self) -> float:
        """The norm of the estimated matrix: that of the estimate itself includes the mean square error."""
        return math.sqrt(max(0.0, float(self.mean().square().sum()) - self.noise()))


def variances(g: Float[Tensor, "*n p"], h: Float[Tensor, "*n p"]) -> Float[Tensor, "*n"]:
    r"""For two normal draws, a value whose mean is the mean squared distance of $gg^\top$ from its mean.

    $(\operatorname{tr}\Sigma)^2 + \operatorname{tr}\Sigma^2$ with their covariance $\Sigma$.
    """
    return g.square().sum(-1) * h.square().sum(-1) + (g * h).sum(-1).square()
