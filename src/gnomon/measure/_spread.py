"""How far off a mean of outer products of normal vectors may be."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from gnomon.linalg import largest

SKEWED = 16.82
r"""The coefficient of the second term below. If $\lambda$ is estimated as $\lambda\chi^2_N/N$, whose variance is
$\lambda^2\varepsilon^2$ with $\varepsilon^2 = 2/N$, the square of half the 95 % interval around the estimate is
$q^2\varepsilon^2 + 16.82\,\varepsilon^4$ times the square of the estimate, with q = 1.96, up to higher powers: when the
estimate is low, so is its estimated variance. By the Cornish-Fisher expansion the coefficient is
$2q(qA^2/2 - AA' + B)$, $A = (2q^2 + 1)/3$, $B = (13q^3 + 17q)/36$."""
MANY = 1e6
"""The number of directions over which an error is as large as its mean."""


@dataclass(frozen=True)
class Spread:
    r"""How the errors of an estimate, with covariance S, spread over directions, relative to the trace of S.

    Attributes:
        directions: $(\operatorname{tr}S)^2/\operatorname{tr}S^2$, the number of directions, if all were equally large.
        along: the part that lies along the estimate itself: errors in its size.
    """

    directions: float = 1.0
    along: float = 1.0

    def width(self, noise: float, size: float) -> float:
        r"""Half the width of the 95 % interval, for a mean square error and the squared norm of the estimate.

        The square of an error is a sum of $\chi^2_1$ with the eigenvalues of S as weights: one belongs to the direction
        along the estimate, and the others are taken to be equal. The width follows from the three moments that this
        gives, and from `SKEWED`.

        Source:
            Buckley and Eagleson 1988, for the quantile from three moments.
        """
        from scipy.special import gammaincinv  # SciPy's import takes time: only where it is used

        if noise == 0:
            return 0.0
        second, rest = 1 / self.directions, 1 - self.along
        others = second - self.along**2
        third = self.along**3 + (others**2 / rest if rest > 0 else 0)
        degrees = max(1.0, second**3 / third**2)
        quantile = 1 + math.sqrt(second / degrees) * (2 * float(gammaincinv(degrees / 2, 0.95)) - degrees)
        return math.sqrt(noise * quantile + SKEWED * (self.along * noise) ** 2 / size)


def spread(rows: Float[Tensor, "n m p"]) -> Spread:
    r"""The spread, from m normal draws for each sample, with covariance $\Sigma_i$ for sample i.

    Outer products of draws have the covariances $(I + K)(\Sigma_i\otimes\Sigma_i)$, with K the transposition. Up to
    common factors $\operatorname{tr}S$ is $\sum_i(\operatorname{tr}\Sigma_i)^2 + \operatorname{tr}\Sigma_i^2$,
    $\operatorname{tr}S^2$ is $2\sum_{ik}(\operatorname{tr}\Sigma_i\Sigma_k)^2 + \operatorname{tr}(\Sigma_i\Sigma_k)^2$,
    and the part along G is $2\sum_i\operatorname{tr}(G\Sigma_i)^2/\|G\|^2$. Each is estimated by its mean over
    different draws: two of a sample, and two of either sample in tr S².
    """
    n, m, _ = rows.shape
    flat = rows.flatten(0, 1).double()
    gram = flat @ flat.mT / largest(flat).square()
    lengths = gram.diagonal().view(n, m)
    trace = lengths.sum(1).square().sum() - lengths.square().sum() + apart(gram, m)
    along = 2 * apart(gram @ gram, m) / gram.square().sum()
    half = m // 2
    between = gram.view(n, m, n, m)[:, :half, :, half : 2 * half].transpose(1, 2)
    pairs = m * (m - 1)
    second = 2 * of_four(between).sum() / (half * (half - 1)) ** 2
    found = torch.stack([(trace / pairs).square() / second, along / trace]).tolist()
    if not all(map(math.isfinite, found)):
        return Spread()
    directions = min(max(1.0, found[0]), MANY)
    return Spread(directions, min(found[1], directions**-0.5))


def apart(products: Float[Tensor, "r r"], m: int) -> Float[Tensor, ""]:
    """The sum of the squared entries between different draws of one sample, with m draws each."""
    n = len(products) // m
    own = products.view(n, m, n, m).diagonal(dim1=0, dim2=2).square()
    return own.sum() - products.diagonal().square().sum()


def of_four(between: Float[Tensor, "n k a b"]) -> Float[Tensor, "n k"]:
    r"""The sum of $p_{ab}^2p_{cd}^2 + p_{ab}p_{cb}p_{cd}p_{ad}$ over a ≠ c and b ≠ d."""
    squares = between.square()
    all_of_them = squares.sum((-1, -2)).square() + (between @ between.mT).square().sum((-1, -2))
    rows, columns = squares.sum(-1).square().sum(-1), squares.sum(-2).square().sum(-1)
    return all_of_them - 2 * (rows + columns - squares.square().sum((-1, -2)))
