"""The first singular values of matrices that are known only by their products, and where these are large."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from gnomon.linalg._directions import largest, length, unit
from gnomon.linalg._products import Products

ROOM = 16
"""Vectors of each sample for which memory is allocated at once; most estimates need fewer."""
LEAST = 4
"""Steps that are always made: a few directions that carry much would leave a remainder that is hard to estimate."""

ASIDE = 0.025
"""Up to this share of a value's square, a residual shows that no other value was found in its place."""
SMALL = 0.1
"""Values below this share of the largest are known as accurately as one of this share would be."""
AHEAD = 2
"""Further values that must be known if several are requested, so that none of those close together is missed."""
NEWTON = 8
"""Newton steps, each of which stays above the root."""


@dataclass(frozen=True)
class Krylov:
    r"""Where each matrix is large, and its first singular values.

    Attributes:
        basis: orthonormal vectors of length c, and zeros where a sample needed fewer.
        scale: the magnitude of each matrix, not 0.
        captured: the squared norm of $V^\top A$ over the squared scale, so that it neither overflows nor underflows.
        values: the first k singular values of $V^\top A$, the largest first: lower bounds on those of A.
        errors: how far those of A lie above these, at most: for the first with a probability of 95 % or more; the
            others rest on the residuals, see `of_later`.
        passes: the number of products for each sample.
    """

    basis: Float[Tensor, "n s c"]
    scale: Float[Tensor, "n"]
    captured: Float[Tensor, "n"]
    values: Float[Tensor, "n k"]
    errors: Float[Tensor, "n k"]
    passes: Int[Tensor, "n"]


def krylov(products: Products, k: int, tolerance: float | int, most: int) -> Krylov:
    r"""Golub-Kahan bidiagonalisation from a random vector, until the first k values are known.

    $A^\top v_j = \alpha_j u_j + \beta_{j-1} u_{j-1}$, $\quad A u_j = \alpha_j v_j + \beta_j v_{j+1}$, each v
    orthogonalised against all before it. $V^\top A = B U^\top$ with B bidiagonal. It ends when the values are known:
    the first to the tolerance; the others, and two more, when their errors are a tenth of it, and the residuals of the
    squares half of it and small: they then mostly belong to the first singular values, and not to others that the
    random vector met first, or to others that are within the tolerance of these.

    Source:
        Golub and Kahan 1965; Simon and Zha 2000 for orthogonalising one side alone.
    Args:
        products: the matrices.
        k: how many values, at most min(c, d).
        tolerance: the allowed error, relative to each value, or to a tenth of the first if the value is smaller than
            that.
        most: the number of products allowed, at least two.
    """
    n, c, d = products.shape
    like = products.like
    steps = max(1, min(c, d + 1, most // 2))
    among = min(k + AHEAD, c, d) if k > 1 else 1
    basis, bidiagonal = like.new_zeros(n, 0, c), like.new_zeros(n, steps, steps)
    values, errors, residuals = like.new_zeros(n, among), *like.new_full((2, n, among), torch.inf)
    passes = torch.zeros(n, dtype=torch.long, device=like.device)
    v, before, beta = unit(products.normal(0, 1)[:, 0]), like.new_zeros(n, d), like.new_zeros(n)
    for step in range(steps):
        far = _far(values, errors, residuals, tolerance)
        going = far.any(1) | (step < LEAST)
        if not going.any():
            break
        passes += 2 * going
        # A finished sample continues with zeros, which leave all that is known about it unchanged.
        v, beta = torch.where(going[:, None], v, 0), torch.where(going, beta, 0)
        if step == basis.shape[1]:
            basis = torch.cat([basis, like.new_zeros(n, min(ROOM, steps - step), c)], 1)
        basis[:, step] = v
        so_far = basis[:, : step + 1]
        if step:
            bidiagonal[:, step, step - 1] = beta
        back = products.left(v) - beta[:, None] * before
        alpha, before = length(back), unit(back)
        bidiagonal[:, step, step] = alpha
        forth = products.right(before) - alpha[:, None] * v
        for _ in range(2):  # because one pass leaves rounding errors along the basis
            forth = forth - ((so_far @ forth[:, :, None]).mT @ so_far)[:, 0]
        beta, v = length(forth), unit(forth)
        ended = beta <= 64 * torch.finfo(beta.dtype).eps * bidiagonal.abs().amax((1, 2))
        if ended.any():  # only rounding errors are left of this space: continue with another
            fresh = products.normal(-1 - step, 1)[:, 0]
            for _ in range(2):
                fresh = fresh - ((so_far @ fresh[:, :, None]).mT @ so_far)[:, 0]
            beta, v = torch.where(ended, 0, beta), torch.where(ended[:, None], unit(fresh), v)
        found = ritz(bidiagonal[:, : step + 1, : step + 1], beta, among, c)
        pairs = zip(found, (values, errors, residuals), strict=True)
        values, errors, residuals = (torch.where(going[:, None], new, old) for new, old in pairs)
    scale = largest(bidiagonal, (1, 2))
    captured = (bidiagonal / scale[:, None, None]).square().sum((1, 2))
    later = of_later(values, errors, _far(values, errors, residuals, tolerance), tolerance * size_of(values))
    whole = passes[:, None] >= 2 * min(c, d + 1)
    errors = torch.where(whole, errors, later)
    return Krylov(so_far, scale, captured, values[:, :k], errors[:, :k], passes)


def _far(
    values: Float[Tensor, "n k"], errors: Float[Tensor, "n k"], residuals: Float[Tensor, "n k"], tolerance: float | int
) -> Bool[Tensor, "n k"]:
    """Which values are not known yet."""
    far = errors > tolerance / 10 * size_of(values)
    far |= residuals > min(tolerance / 2, ASIDE)
    far[:, 0] = errors[:, 0] > tolerance * values[:, 0]
    return far


def size_of(values: Float[Tensor, "*n k"]) -> Float[Tensor, "*n k"]:
    """The sizes relative to which the errors of singular values and of eigenvalues are measured."""
    return torch.maximum(values.abs(), SMALL * values.abs().amax(-1, keepdim=True))


def of_later(
    values: Float[Tensor, "*n k"],
    errors: Float[Tensor, "*n k"],
    far: Bool[Tensor, "*n k"],
    least: Float[Tensor, "*n k"],
) -> Float[Tensor, "*n k"]:
    """The errors, with those after the first as large as the values' places among all require.

    A residual says that some value lies near the one seen, not which. Where residuals are small, another one in its
    place is mostly within the tolerance: the error is then that at `least`. Where they are not, the value sought may be
    any up to the first.
    """
    first = values[..., :1] + errors[..., :1]
    later = torch.maximum(errors, torch.where(far, first - values, least))
    return torch.cat([errors[..., :1], later[..., 1:]], -1)


def ritz(
    bidiagonal: Float[Tensor, "n s s"], beta: Float[Tensor, "n"], k: int, c: int
) -> tuple[Float[Tensor, "n k"], Float[Tensor, "n k"], Float[Tensor, "n k"]]:
    r"""The first k singular values as seen after s steps, their errors, and the residuals over the values' squares.

    The squares are the eigenvalues of $AA^\top$ as seen from the basis: off by no more than the residual, or than the
    residual's square over the gap to the next, which is known up to a factor of two. For the first no gap is trusted:
    see `beyond`. Errors and residuals are infinite where there are no values yet.

    Source:
        Parlett, The Symmetric Eigenvalue Problem, theorems 4.5.1 and 11.7.1.
    """
    s = bidiagonal.shape[1]
    scale = largest(bidiagonal, (1, 2))[:, None]
    vectors, values, _ = torch.linalg.svd(bidiagonal / scale[:, None])
    squares = values.square()
    residual = beta[:, None] / scale * (bidiagonal[:, -1:, -1] / scale) * vectors[:, -1].abs()
    errors = (squares + error_of(squares, residual)).sqrt() - values
    logs = [bidiagonal.diagonal(dim1=1, dim2=2), bidiagonal.diagonal(-1, 1, 2), beta[:, None]]
    errors[:, 0] = values[:, 0] * beyond(squares, (torch.cat(logs, 1) / scale).log().sum(1), c)
    size = size_of(values).square()
    some, later = min(s, k), (0, max(0, k - s))
    return (
        functional.pad(scale * values[:, :some], later),
        functional.pad(scale * errors[:, :some], later, value=torch.inf),
        functional.pad(torch.where(size > 0, residual / size, 0)[:, :some], later, value=torch.inf),
    )


def error_of(values: Float[Tensor, "*n s"], residual: Float[Tensor, "*n s"]) -> Float[Tensor, "*n s"]:
    """How far eigenvalues may be off: by the residual, or by its square over the gap, known up to a factor of two."""
    gaps = values[..., :-1] - values[..., 1:]
    ends = torch.zeros_like(values[..., :1])  # beyond the last value nothing is seen
    gap = torch.minimum(torch.cat([gaps, ends], -1), torch.cat([ends + torch.inf, gaps], -1))
    # Without a gap the quotient is infinite, or NaN where there is no residual either.
    return torch.where(residual > 0, torch.minimum(residual, 2 * residual.square() / gap), 0)


def beyond(squares: Float[Tensor, "n s"], product: Float[Tensor, "n"], c: int) -> Float[Tensor, "n"]:
    r"""How far the first singular value may lie above its value seen so far, relative to that, in 95 % of cases.

    The next basis vector is a polynomial of $AA^\top$ times the first vector, of length 1 and with its zeros at the
    squares $\theta_j$ seen so far. So for a $\lambda$ not yet seen, the first vector's component is no larger than
    $\prod_j\alpha_j\beta_j / (\lambda - \theta_j)$. That vector is random, with a component below
    $\eta = 0.05\sqrt{\pi/2c}$ in 5 % of cases at most: $\lambda$ does not lie beyond the point where the quotient has
    this value, after any number of steps, however close to each other the values lie.

    Source:
        Kuczyński and Woźniakowski 1992 give the probability before any step; this is the same after the steps.
    Args:
        squares: the largest first.
        product: the logarithm of the product of all $\alpha_j\beta_j$, in the same unit.
        c: the length of the vectors.
    """
    over = above(squares, product, c)
    t = torch.where(squares[:, 0] > 0, over / squares[:, 0], 0)
    return t / ((1 + t).sqrt() + 1)


def above(values: Float[Tensor, "n s"], product: Float[Tensor, "n"], c: int) -> Float[Tensor, "n"]:
    """How far an eigenvalue may lie above the first one seen, in 95 % of cases: see `beyond`."""
    s = values.shape[1]
    target = (product - math.log(0.05 * math.sqrt(math.pi / (2 * c)))).clamp(min=-100 * s)
    gaps = (values[:, :1] - values[:, 1:]).log()
    # Newton's method for the logarithm of the excess, from above: the sum of the logarithms is convex in it.
    over = target / s
    for _ in range(NEWTON):
        terms = torch.logaddexp(over[:, None], gaps)
        slope = 1 + (over[:, None] - terms).exp().sum(1)
        over = over - (over + terms.sum(1) - target) / slope
    return over.exp()
